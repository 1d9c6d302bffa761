"""Figure 1: the model, drawn from its modules."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from transformer.model.transformer import Embedding, FeedForward, Transformer
from transformer.report.figures.boxes import LINE, arrow, box, canvas, frame, height_of, label, line, plus
from transformer.report.figures.structure import Structure, Sublayer, is_cross, is_masked, structure
from transformer.report.figures.style import COLUMN_INCHES, MEDIUM, Drawing

GAP = 0.12  # inches between boxes, where an arrow is
FORK = 0.28  # between sub-layers, where what goes round the next one leaves
WIDTH, SPREAD = 1.0, 0.3  # of a box; between the arrows up to an attention
MARGIN, EDGE = 0.14, 0.06  # between boxes and the frame of the stack, beside and above
BOTTOM, ABOVE = 1.18, 1.42  # where the stacks stand; what the decoder's output takes above its stack
ENCODER, DECODER = 1.02, COLUMN_INCHES - 1.02  # where the stacks' middles are
POSITIONS = {"sinusoid": "Positional\nEncoding", "learned": "Learned\nPositions"}


def figure1(model: Transformer, run: str) -> Drawing:
    """Draw the encoder-decoder of §3 with the sizes, sub-layers, norms and positions that `model` has."""
    parts = structure(model)
    height = max(map(stack_height, (parts.encoder, parts.decoder))) + last_norm_height(parts)
    figure, axes = canvas(COLUMN_INCHES, BOTTOM + height + ABOVE)
    draw_embedding(axes, ENCODER, "Input", -1, parts)
    draw_embedding(axes, DECODER, "Output", 1, parts)
    memory = draw_stack(axes, ENCODER, parts.encoder, parts.layers[0], -1)
    memory = draw_last_norm(axes, ENCODER, memory, parts)
    top = draw_stack(axes, DECODER, parts.decoder, parts.layers[1], 1, memory)
    draw_output(axes, draw_last_norm(axes, DECODER, top, parts), parts)
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
    norm = f" Each stack ends with {norm_name(parts.last_norm).lower()}." if parts.last_norm else ""
    positions = position_text(parts.embedding).lower().replace("\n", " ") or "no positions"
    return f"{'; '.join(stacks)}.{norm} {rows if parts.shared else ''}Added to the embeddings: {positions}."


def sublayer_words(sublayer: Sublayer) -> str:
    """Return `masked multi-head attention (add & norm after it)`."""
    own, *_ = (text for text, tint in blocks(sublayer) if tint != "norm")
    around = " and ".join(text.lower() for text, tint in blocks(sublayer) if tint == "norm")
    before = "round" if sublayer.residual else "before"
    place = before if sublayer.before else "after"
    name = own.lower().replace("\n", " ").replace("$", "").replace("d_\\mathrm{ff}", "d_ff")
    return f"{'cross ' if is_cross(sublayer) else ''}{name}" + (f" ({around} {place} it)" if around else "")


def blocks(sublayer: Sublayer) -> list[tuple[str, str]]:
    """Return text and tint of the boxes of one sub-layer, from below."""
    own = sublayer_text(sublayer)
    add = "Add" if sublayer.residual else ""
    norm = norm_name(sublayer.norm)
    if sublayer.before:
        boxes = [(norm, "norm"), own, (add, "norm")]
    else:
        boxes = [own, (" & ".join(filter(None, (add, norm))), "norm")]
    return [(text, tint) for text, tint in boxes if text]


def norm_name(module: str) -> str:
    """Return the text of a norm's box, from the name of its class."""
    return module.replace("LayerNorm", "Norm")


def sublayer_text(sublayer: Sublayer) -> tuple[str, str]:
    """Return the text and the tint of the sub-layer's own box."""
    module = sublayer.module
    if isinstance(module, FeedForward):
        return f"Feed Forward\n$d_\\mathrm{{ff}}$ = {module.inner.out_features:,}", "feed-forward"
    masked = "Masked\n" if is_masked(sublayer) else ""
    return f"{masked}Multi-Head\nAttention\n$h$ = {module.h}", "attention"


def stack_height(sublayers: list[Sublayer]) -> float:
    boxes = [(number, *box) for sublayer in sublayers for number, box in enumerate(blocks(sublayer))]
    return sum(gap_below(number, tint) + height_of(text) for number, text, tint in boxes)


def gap_below(number: int, tint: str) -> float:
    """Return the space below a sub-layer's box `number`, from 0: below an attention its inputs come together."""
    return FORK if number == 0 or tint == "attention" else GAP


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
    fork, top = y + FORK / 4, y
    for number, (text, tint) in enumerate(blocks(sublayer)):
        below = gap_below(number, tint)
        if tint == "attention":
            draw_inputs(axes, x, top, top + below, memory if is_cross(sublayer) else None)
        else:
            arrow(axes, (x, top), (x, top + below))
        top = box(axes, x, top + below, WIDTH, text, tint)
    if sublayer.residual:
        edge, outside = x + side * WIDTH / 2, x + side * (WIDTH + MARGIN) / 2
        middle = top - height_of("Add") / 2
        arrow(axes, (x, fork), (outside, fork), (outside, middle), (edge, middle))
    return top


def last_norm_height(parts: Structure) -> float:
    return GAP + height_of(parts.last_norm) if parts.last_norm else 0.0


def draw_last_norm(axes: Axes, x: float, y: float, parts: Structure) -> float:
    """Draw the norm of a stack whose output leaves at y, where the model has one. Return where its output leaves."""
    if not parts.last_norm:
        return y
    arrow(axes, (x, y), (x, y + GAP))
    return box(axes, x, y + GAP, WIDTH, norm_name(parts.last_norm), "norm")


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
    language = "+ language" if parts.target_spaces and side < 0 else ""
    added = "\n".join(filter(None, (position_text(parts.embedding), language)))
    if added:
        plus(axes, x, y)
        wave = x + side * 0.35
        line(axes, (x, y), (wave, y))
        draw_wave(axes, wave, y, parts.embedding)
        label(axes, x + side * 0.72, y, added)


def draw_wave(axes: Axes, x: float, y: float, embedding: Embedding) -> None:
    """Draw the sign of what is added: a wave in a circle, or an empty circle where that is no sinusoids."""
    axes.add_patch(Circle((x, y), 0.09, fc="white", ec="black", lw=LINE, zorder=3))
    if not embedding.learned and embedding.position_table is not None:
        t = np.linspace(-1, 1, 50)
        axes.plot(x + 0.065 * t, y + 0.04 * np.sin(np.pi * t), color="black", lw=LINE, zorder=4)


def position_text(embedding: Embedding) -> str:
    """Return what the positions are called, "" where there are none."""
    if embedding.position_table is None:
        return ""
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
