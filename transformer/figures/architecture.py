"""Figures 1 and 2: the model, drawn from its modules."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from transformer.figures.boxes import LINE, arrow, box, canvas, frame, height_of, label, line, plus
from transformer.figures.structure import Structure, Sublayer, is_cross, is_masked, structure
from transformer.figures.style import COLUMN_INCHES, MEDIUM, Drawing
from transformer.model.transformer import Embedding, FeedForward, Transformer

GAP = 0.12  # inches between boxes, where an arrow is
FORK = 0.28  # between sub-layers, where what goes round the next one leaves
WIDTH, SPREAD = 1.0, 0.3  # of a box; between the arrows up to an attention
MARGIN, EDGE = 0.14, 0.06  # between boxes and the frame of the stack, beside and above
BOTTOM, ABOVE = 1.18, 1.42  # where the stacks stand; what the decoder's output takes above its stack
ENCODER, DECODER = 1.02, COLUMN_INCHES - 1.02  # where the stacks' middles are
STEP, LETTERS, TITLE = 0.13, 0.22, 2.22  # Figure 2: between boxes; where its inputs and titles are
PILE = 0.035  # by which a head's box stands behind the one before it
POSITIONS = {"sinusoid": "Positional\nEncoding", "learned": "Learned\nPositions"}


def figure1(model: Transformer, run: str) -> Drawing:
    """Draw the encoder-decoder of §3 with the sizes, sub-layers, norms and positions that `model` has."""
    parts = structure(model)
    figure, axes = canvas(COLUMN_INCHES, BOTTOM + max(map(stack_height, (parts.encoder, parts.decoder))) + ABOVE)
    draw_embedding(axes, ENCODER, "Input", -1, parts)
    draw_embedding(axes, DECODER, "Output", 1, parts)
    memory = draw_stack(axes, ENCODER, parts.encoder, parts.layers[0], -1)
    top = draw_stack(axes, DECODER, parts.decoder, parts.layers[1], 1, memory)
    draw_output(axes, top, parts)
    if parts.shared:
        line(axes, (ENCODER + WIDTH / 2, 0.46), (DECODER - WIDTH / 2, 0.46), ls=":")
        label(axes, (ENCODER + DECODER) / 2, 0.54, "shared")
    caption = f"The Transformer (§3), drawn from the modules of {run}: {described(parts)}"
    return Drawing(figure, caption, f"Block diagram: {described(parts)}", {"run": run})


def described(parts: Structure) -> str:
    """Return the drawing in words."""
    model = parts.embedding.weight.shape
    stacks = (
        f"{name}, {layers} layers of {', '.join(sublayer_words(sublayer) for sublayer in of_layer)}"
        for name, layers, of_layer in zip(
            ("encoder", "decoder"), parts.layers, (parts.encoder, parts.decoder), strict=True
        )
    )
    rows = f"One matrix of {model[0]:,} × {model[1]:,} embeds source and target and is the softmax' weights. "
    positions = position_text(parts.embedding).lower().replace("\n", " ")
    return f"{'; '.join(stacks)}. {rows if parts.shared else ''}Added to the embeddings: {positions}."


def sublayer_words(sublayer: Sublayer) -> str:
    """Return `masked multi-head attention (add & norm after it)`."""
    own, *_ = (text for text, tint in blocks(sublayer) if tint != "norm")
    around = " and ".join(text.lower() for text, tint in blocks(sublayer) if tint == "norm")
    place = "round" if sublayer.before else "after"
    name = own.lower().replace("\n", " ").replace("$", "").replace("d_\\mathrm{ff}", "d_ff")
    return f"{'cross ' if is_cross(sublayer) else ''}{name}" + (f" ({around} {place} it)" if around else "")


def blocks(sublayer: Sublayer) -> list[tuple[str, str]]:
    """Return text and tint of the boxes of one sub-layer, from below."""
    own = sublayer_text(sublayer)
    add = "Add" if sublayer.residual else ""
    norm = sublayer.norm.replace("LayerNorm", "Norm")
    if sublayer.before:
        boxes = [(norm, "norm"), own, (add, "norm")]
    else:
        boxes = [own, (" & ".join(filter(None, (add, norm))), "norm")]
    return [(text, tint) for text, tint in boxes if text]


def sublayer_text(sublayer: Sublayer) -> tuple[str, str]:
    """Return the text and the tint of the sub-layer's own box."""
    module = sublayer.module
    if isinstance(module, FeedForward):
        return f"Feed Forward\n$d_\\mathrm{{ff}}$ = {module.inner.out_features:,}", "feed-forward"
    masked = "Masked\n" if is_masked(sublayer) else ""
    return f"{masked}Multi-Head\nAttention\n$h$ = {module.h}", "attention"


def stack_height(sublayers: list[Sublayer]) -> float:
    boxes = [text for sublayer in sublayers for text, _ in blocks(sublayer)]
    return sum(map(height_of, boxes)) + GAP * (len(boxes) - len(sublayers)) + FORK * len(sublayers)


def draw_stack(axes: Axes, x: float, sublayers: list[Sublayer], layers: int, side: int, memory: float = 0.0) -> float:
    """Draw one layer in its frame, with N beside it on this side (-1 left, 1 right). Return where its output leaves.

    memory: where the encoder's output leaves.
    """
    y, width = BOTTOM, WIDTH + 2 * MARGIN
    for sublayer in sublayers:
        y = draw_sublayer(axes, x, y, sublayer, side, memory)
    frame(axes, x - width / 2, BOTTOM, width, y + EDGE - BOTTOM, "stack", layer=0)
    label(axes, x + side * (width / 2 + 0.17), (BOTTOM + y) / 2, f"{layers}×", size=MEDIUM + 2)
    return y + EDGE


def draw_sublayer(axes: Axes, x: float, y: float, sublayer: Sublayer, side: int, memory: float) -> float:
    """Draw a sub-layer whose input is at y, with the residual connection around it. Return its top."""
    fork, top, below = y + FORK / 4, y, FORK
    for text, tint in blocks(sublayer):
        if tint == "attention":
            draw_inputs(axes, x, top, top + below, memory if is_cross(sublayer) else None)
        else:
            arrow(axes, (x, top), (x, top + below))
        top, below = box(axes, x, top + below, WIDTH, text, tint), GAP
    if sublayer.residual:
        edge, outside = x + side * WIDTH / 2, x + side * (WIDTH + MARGIN) / 2
        middle = top - height_of("Add") / 2
        arrow(axes, (x, fork), (outside, fork), (outside, middle), (edge, middle))
    return top


def draw_inputs(axes: Axes, x: float, bottom: float, top: float, memory: float | None) -> None:
    """Draw the values, keys and queries of an attention, all from below, or all but the queries from the memory."""
    level = top - GAP
    if memory is None:
        arrow(axes, (x, bottom), (x, top))
        for end in (x - SPREAD, x + SPREAD):
            arrow(axes, (x, level), (end, level), (end, top))
        return
    arrow(axes, (x, bottom), (x, level), (x + SPREAD, level), (x + SPREAD, top))
    between, over = (ENCODER + DECODER) / 2, memory + GAP
    route = [(ENCODER, memory), (ENCODER, over), (between, over), (between, level)]
    for end in (x - SPREAD, x - SPREAD / 2):
        arrow(axes, *route, (end, level), (end, top))


def draw_embedding(axes: Axes, x: float, name: str, side: int, parts: Structure) -> None:
    """Draw tokens, their embedding and what is added to it, below a stack."""
    shifted = "Outputs (shifted right)" if side > 0 else "Inputs"
    label(axes, x, 0.1, shifted)
    arrow(axes, (x, 0.17), (x, 0.29))
    above = box(axes, x, 0.29, WIDTH, f"{name}\nEmbedding", "embedding")
    y = above + 0.24
    line(axes, (x, above), (x, BOTTOM))
    plus(axes, x, y)
    wave = x + side * 0.35
    line(axes, (x, y), (wave, y))
    draw_wave(axes, wave, y, parts.embedding)
    language = "\n+ language" if parts.target_spaces and side < 0 else ""
    label(axes, x + side * 0.72, y, position_text(parts.embedding) + language)


def draw_wave(axes: Axes, x: float, y: float, embedding: Embedding) -> None:
    """Draw the sign of the positions: a wave in a circle, or an empty circle where they are learned."""
    axes.add_patch(Circle((x, y), 0.09, fc="white", ec="black", lw=LINE, zorder=3))
    if not embedding.learned:
        t = np.linspace(-1, 1, 50)
        axes.plot(x + 0.065 * t, y + 0.04 * np.sin(np.pi * t), color="black", lw=LINE, zorder=4)


def position_text(embedding: Embedding) -> str:
    """Return what the positions are called."""
    if embedding.learned:
        return POSITIONS["learned"]
    return POSITIONS["sinusoid"] + ("\nof word too" if embedding.new_word is not None else "")


def draw_output(axes: Axes, y: float, parts: Structure) -> None:
    """Draw the product with the embedding's matrix and softmax, above the decoder."""
    own = "Linear\n(shared matrix)" if parts.shared else "Linear"
    for text, tint in ((own, "linear"), ("Softmax", "softmax")):
        arrow(axes, (DECODER, y), (DECODER, y + GAP + 0.04))
        y = box(axes, DECODER, y + GAP + 0.04, WIDTH, text, tint)
    arrow(axes, (DECODER, y), (DECODER, y + GAP + 0.04))
    label(axes, DECODER, y + GAP + 0.2, "Output\nProbabilities")


def figure2(model: Transformer, run: str) -> Drawing:
    """Draw scaled dot-product attention (§3.2), and multi-head attention with the sizes that `model` has."""
    module = model.encoder[0].self_attention
    sizes = {"h": module.h, "d_k": module.d_k, "d_v": module.d_v, "d_model": module.output.out_features}
    figure, axes = canvas(COLUMN_INCHES, 2.4)
    draw_dot_product(axes, 0.72, module.d_k)
    draw_heads(axes, 2.42, sizes)
    listed = ", ".join(f"{symbol} = {size}" for symbol, size in sizes.items())
    caption = (
        "Left: scaled dot-product attention (§3.2.1). The mask hides padding and, in the decoder, what is "
        f"not yet written. Right: multi-head attention (§3.2.2), h of them side by side, as {run} has it: {listed}."
    )
    alt = (
        "Block diagrams. Left, upwards: MatMul of Q and K, scale, mask, softmax, MatMul with V. Right, upwards: V, K "
        f"and Q, a linear projection of each for each head, attention in {module.h} heads, Concat, a linear projection."
    )
    return Drawing(figure, caption, alt, {"run": run} | sizes)


def draw_dot_product(axes: Axes, x: float, d_k: int) -> None:
    """Draw the left of Figure 2: equation 1, from below."""
    label(axes, x, TITLE, "Scaled Dot-Product\nAttention", size=MEDIUM)
    steps = [("MatMul", "feed-forward"), (f"Scale: $1/\\sqrt{{{d_k}}}$", "norm"), ("Mask (opt.)", "embedding")]
    steps += [("SoftMax", "softmax"), ("MatMul", "feed-forward")]
    y, value = LETTERS, x + 0.55
    for name, place in (("$Q$", x - 0.25), ("$K$", x + 0.25), ("$V$", value)):
        label(axes, place, y - 0.1, name, size=MEDIUM)
    for start in (x - 0.25, x + 0.25):
        arrow(axes, (start, y), (start, y + STEP))
    for number, (text, tint) in enumerate(steps):
        if number:
            arrow(axes, (x - 0.2 * (number == 4), y), (x - 0.2 * (number == 4), y + STEP))
        bottom = y + STEP
        y = box(axes, x, bottom, 0.86, text, tint)
    arrow(axes, (value, LETTERS), (value, bottom - STEP / 2), (x + 0.25, bottom - STEP / 2), (x + 0.25, bottom))
    arrow(axes, (x, y), (x, y + STEP))


def draw_heads(axes: Axes, x: float, sizes: dict[str, int]) -> None:
    """Draw the right of Figure 2: what is learned, and how wide it is."""
    label(axes, x, TITLE, "Multi-Head\nAttention", size=MEDIUM)
    widths = {"V": sizes["d_v"], "K": sizes["d_k"], "Q": sizes["d_k"]}
    for place, (name, width) in zip((x - 0.68, x, x + 0.68), widths.items(), strict=True):
        label(axes, place, LETTERS - 0.1, f"${name}$", size=MEDIUM)
        arrow(axes, (place, LETTERS), (place, LETTERS + STEP))
        y = piled(axes, place, LETTERS + STEP, 0.58, f"Linear\n{sizes['d_model']} → {width}", "linear", sizes["h"])
        arrow(axes, (place, y), (place, y + STEP))
    top = piled(axes, x, y + STEP, 1.7, "Scaled Dot-Product Attention", "attention", sizes["h"])
    label(axes, x + 0.78, top + 0.1, f"$h$ = {sizes['h']}")
    for text, tint in (("Concat", "norm"), (f"Linear: {sizes['h'] * sizes['d_v']} → {sizes['d_model']}", "linear")):
        arrow(axes, (x, top), (x, top + STEP))
        top = box(axes, x, top + STEP, 1.2, text, tint)
    arrow(axes, (x, top), (x, top + STEP))


def piled(axes: Axes, x: float, y: float, width: float, text: str, tint: str, h: int) -> float:
    """Draw a box before those of the other heads, at most two of them. Return where the pile's top is."""
    behind = min(h, 3) - 1
    for number in range(behind, 0, -1):
        shift = PILE * number
        frame(axes, x - width / 2 + shift, y + shift, width, height_of(text), tint)
    box(axes, x, y, width, text, tint)
    return y + height_of(text) + PILE * behind
