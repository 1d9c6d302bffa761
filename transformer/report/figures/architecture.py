"""Figures 1 and 2: block diagrams of the model and its attention, drawn from a run's configuration."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyBboxPatch

from transformer.config.experiment import Model, load
from transformer.report.figures.style import COLUMN_INCHES, LINE_INCHES, MEDIUM, Drawing, canvas, label

_STROKE = 0.8  # points
# Fill colours with good contrast to black text and with different lightness.
_TINTS = {"attention": "#F6C98B", "feed-forward": "#A9D8F2", "norm": "#F5EFA0", "embedding": "#EBC7D9"}
_TINTS |= {"linear": "#C9CFEA", "softmax": "#A6DBC6", "stack": "#F4F4F4"}
_ENCODER_LAYER, _DECODER_LAYER = ("attention", "feed-forward"), ("masked", "cross", "feed-forward")
_POSITION_TEXTS = {"sinusoid": "Positional\nEncoding", "words": "Positional\nEncoding\nof word too"}
_POSITION_TEXTS |= {"learned": "Learned\nPositions", "none": ""}

# Figure 1, in inches.
_GAP, _FORK = 0.12, 0.28  # between boxes; between sub-layers, for the next residual connection
_WIDTH, _SPREAD = 1.0, 0.3  # width of a box; distance between an attention's input arrows
_MARGIN, _EDGE = 0.14, 0.06  # between boxes and the stack's frame: left and right, top
_BOTTOM, _ABOVE = 1.18, 1.42  # space below the stacks; space above the decoder for its output
_ENCODER, _DECODER = 1.02, COLUMN_INCHES - 1.02  # horizontal centres of the stacks
# Figure 2: between boxes; height of inputs and titles; between the boxes of two heads.
_STEP, _LETTERS, _TITLE, _PILE = 0.13, 0.22, 2.22, 0.035


def figure1(*, experiment: str) -> Drawing:
    """Draw §3's encoder and decoder with the sizes, sub-layers, norms and positions in an experiment.yaml."""
    settings = load(experiment)
    model, run = settings.model, settings.name
    boxes = [(number, *own) for sublayer in _DECODER_LAYER for number, own in enumerate(_blocks(model, sublayer))]
    height = sum(_gap_below(number, tint) + _height_of(text) for number, text, tint in boxes)
    height += _GAP + _height_of("Norm") if model.norm == "pre" else 0
    figure, axes = canvas(COLUMN_INCHES, _BOTTOM + height + _ABOVE)
    _draw_embedding(axes, _ENCODER, "Input", -1, model)
    _draw_embedding(axes, _DECODER, "Output", 1, model)
    memory = _draw_stack(axes, _ENCODER, -1, model, _ENCODER_LAYER)
    top = _draw_stack(axes, _DECODER, 1, model, _DECODER_LAYER, memory)
    for text, tint in (("Linear\n(shared matrix)" if model.tied else "Linear", "linear"), ("Softmax", "softmax")):
        _arrow(axes, (_DECODER, top), (_DECODER, top + _GAP + 0.04))
        top = _box(axes, _DECODER, top + _GAP + 0.04, _WIDTH, text, tint)
    _arrow(axes, (_DECODER, top), (_DECODER, top + _GAP + 0.04))
    label(axes, _DECODER, top + _GAP + 0.2, "Output\nProbabilities")
    if model.tied:
        _segment(axes, (_ENCODER + _WIDTH / 2, 0.46), (_DECODER - _WIDTH / 2, 0.46), ls=":")
        label(axes, (_ENCODER + _DECODER) / 2, 0.54, "shared")
    words = _described(model)
    return Drawing(figure, f"The Transformer (§3), drawn from the modules of {run}: {words}", f"Block diagram: {words}")


def _described(model: Model) -> str:
    """List the parts: `encoder, 6 layers of multi-head attention (add & norm after it), …`."""
    stacks = []
    for stack, layer in (("encoder", _ENCODER_LAYER), ("decoder", _DECODER_LAYER)):
        sublayers = []
        for sublayer in layer:
            parts = _blocks(model, sublayer)
            (name,) = (text.lower().replace("\n", " ").replace("$", "") for text, tint in parts if tint != "norm")
            around = " and ".join(text.lower() for text, tint in parts if tint == "norm")
            place = "after" if model.norm != "pre" else "round" if model.residual else "before"
            cross = "cross " if sublayer == "cross" else ""
            sublayers.append(f"{cross}{name} ({around} {place} it)".replace("d_\\mathrm{ff}", "d_ff"))
        stacks.append(f"{stack}, {model.N} layers of {', '.join(sublayers)}")
    text = f"{'; '.join(stacks)}."
    if model.norm == "pre":
        text += " Each stack ends with norm."
    if model.tied:
        rows = f"{model.embedding_rows:,} × {model.d_model:,}"
        text += f" One matrix of {rows} embeds source and target, and is also the weight of the softmax layer."
    positions = _POSITION_TEXTS[model.positions].lower().replace("\n", " ") or "no positions"
    return f"{text} Added to the embeddings: {positions}."


def _blocks(model: Model, sublayer: str) -> list[tuple[str, str]]:
    """List the boxes of a sub-layer from bottom to top as pairs of text and tint."""
    if sublayer == "feed-forward":
        own = f"Feed Forward\n$d_\\mathrm{{ff}}$ = {model.d_ff:,}", sublayer
    else:
        masked = "Masked\n" if sublayer == "masked" else ""
        own = f"{masked}Multi-Head\nAttention\n$h$ = {model.h}", "attention"
    add = ["Add"] * model.residual
    if model.norm == "pre":
        return [("Norm", "norm"), own, *((text, "norm") for text in add)]
    return [own, (" & ".join([*add, "Batch Norm" if model.norm == "batch" else "Norm"]), "norm")]


def _gap_below(number: int, tint: str) -> float:
    """Return the space below a sub-layer's box `number`, from 0. An attention's inputs need more space."""
    return _FORK if number == 0 or tint == "attention" else _GAP


def _draw_stack(axes: Axes, x: float, side: int, model: Model, layer: tuple[str, ...], memory: float = 0) -> float:
    """Draw a framed layer with N on its left (side -1) or right (1), and the final norm. Return the stack's top."""
    y, width = _BOTTOM, _WIDTH + 2 * _MARGIN
    for sublayer in layer:
        y = _draw_sublayer(axes, x, y, side, model, sublayer, memory)
    _frame(axes, x - width / 2, _BOTTOM, width, y + _EDGE - _BOTTOM, "stack", layer=0)
    label(axes, x + side * (width / 2 + 0.17), (_BOTTOM + y) / 2, f"{model.N}×", size=MEDIUM + 2)
    y += _EDGE
    if model.norm != "pre":
        return y
    _arrow(axes, (x, y), (x, y + _GAP))
    return _box(axes, x, y + _GAP, _WIDTH, "Norm", "norm")


def _draw_sublayer(axes: Axes, x: float, y: float, side: int, model: Model, sublayer: str, memory: float) -> float:
    """Draw a sub-layer with its input at y and with its residual connection. Return its top."""
    top = y
    for number, (text, tint) in enumerate(_blocks(model, sublayer)):
        bottom, top = top, top + _gap_below(number, tint)
        if tint != "attention":
            _arrow(axes, (x, bottom), (x, top))
        else:
            level = top - _GAP
            if sublayer == "cross":  # the memory provides values and keys
                _arrow(axes, (x, bottom), (x, level), (x + _SPREAD, level), (x + _SPREAD, top))
                between, over = (_ENCODER + _DECODER) / 2, memory + _GAP
                route = [(_ENCODER, memory), (_ENCODER, over), (between, over), (between, level)]
                ends = x - _SPREAD, x - _SPREAD / 2
            else:
                _arrow(axes, (x, bottom), (x, top))
                route, ends = [(x, level)], (x - _SPREAD, x + _SPREAD)
            for end in ends:
                _arrow(axes, *route, (end, level), (end, top))
        top = _box(axes, x, top, _WIDTH, text, tint)
    if model.residual:
        fork, middle = y + _FORK / 4, top - _height_of("Add") / 2
        edge, outside = x + side * _WIDTH / 2, x + side * (_WIDTH + _MARGIN) / 2
        _arrow(axes, (x, fork), (outside, fork), (outside, middle), (edge, middle))
    return top


def _draw_embedding(axes: Axes, x: float, name: str, side: int, model: Model) -> None:
    label(axes, x, 0.1, "Outputs (shifted right)" if side > 0 else "Inputs")
    _arrow(axes, (x, 0.17), (x, 0.29))
    above = _box(axes, x, 0.29, _WIDTH, f"{name}\nEmbedding", "embedding")
    y, wave, radius = above + 0.24, x + side * 0.35, 0.07
    _segment(axes, (x, above), (x, _BOTTOM))
    language = "+ language" if model.target_spaces and side < 0 else ""
    if added := "\n".join(filter(None, (_POSITION_TEXTS[model.positions], language))):
        axes.add_patch(Circle((x, y), radius, fc="white", ec="black", lw=_STROKE, zorder=3))
        _segment(axes, (x - radius, y), (x + radius, y), zorder=4)
        _segment(axes, (x, y - radius), (x, y + radius), zorder=4)
        _segment(axes, (x, y), (wave, y))
        axes.add_patch(Circle((wave, y), 0.09, fc="white", ec="black", lw=_STROKE, zorder=3))
        if model.positions in ("sinusoid", "words"):
            t = np.linspace(-1, 1, 50)
            axes.plot(wave + 0.065 * t, y + 0.04 * np.sin(np.pi * t), color="black", lw=_STROKE, zorder=4)
        label(axes, x + side * 0.72, y, added)


def figure2(*, experiment: str) -> Drawing:
    """Draw dot-product attention (§3.2), and multi-head attention with the sizes of an experiment.yaml."""
    settings = load(experiment)
    model, run = settings.model, settings.name
    name = f"{'Scaled ' * model.scaled}Dot-Product Attention"
    figure, axes = canvas(COLUMN_INCHES, 2.4)
    _draw_dot_product(axes, 0.72, model)
    _draw_heads(axes, 2.42, model, name)
    sizes = ", ".join(f"{symbol} = {getattr(model, symbol)}" for symbol in ("h", "d_k", "d_v", "d_model"))
    caption = (
        f"Left: {name.lower()} (§3.2.1). The mask hides padding and, in the decoder, later positions. "
        f"Right: multi-head attention (§3.2.2) of {run} with h parallel heads: {sizes}."
    )
    alt = (
        f"Block diagrams, from bottom to top. Left: MatMul of Q and K, {'scale, ' * model.scaled}mask, softmax, "
        "MatMul with V. "
        "Right: V, K and Q, their linear projections for each head, attention in "
        f"{model.h} heads, Concat, a linear projection."
    )
    return Drawing(figure, caption, alt)


def _draw_dot_product(axes: Axes, x: float, model: Model) -> None:
    label(axes, x, _TITLE, f"{'Scaled ' * model.scaled}Dot-Product\nAttention", size=MEDIUM)
    scale = [(f"Scale: $1/\\sqrt{{{model.d_k}}}$", "norm")] * model.scaled
    steps = [("MatMul", "feed-forward"), *scale, ("Mask (opt.)", "embedding")]
    steps += [("SoftMax", "softmax"), ("MatMul", "feed-forward")]
    y, value = _LETTERS, x + 0.55
    for name, place in (("$Q$", x - 0.25), ("$K$", x + 0.25), ("$V$", value)):
        label(axes, place, y - 0.1, name, size=MEDIUM)
    for start in (x - 0.25, x + 0.25):
        _arrow(axes, (start, y), (start, y + _STEP))
    for number, (text, tint) in enumerate(steps):
        if number:
            middle = x - 0.2 * (number == len(steps) - 1)  # makes room for V next to the last box
            _arrow(axes, (middle, y), (middle, y + _STEP))
        bottom = y + _STEP
        y = _box(axes, x, bottom, 0.86, text, tint)
    _arrow(axes, (value, _LETTERS), (value, bottom - _STEP / 2), (x + 0.25, bottom - _STEP / 2), (x + 0.25, bottom))
    _arrow(axes, (x, y), (x, y + _STEP))


def _draw_heads(axes: Axes, x: float, model: Model, attention: str) -> None:
    label(axes, x, _TITLE, "Multi-Head\nAttention", size=MEDIUM)
    widths = {"V": model.d_v, "K": model.d_k, "Q": model.d_k}
    for place, (name, width) in zip((x - 0.68, x, x + 0.68), widths.items(), strict=True):
        label(axes, place, _LETTERS - 0.1, f"${name}$", size=MEDIUM)
        _arrow(axes, (place, _LETTERS), (place, _LETTERS + _STEP))
        y = _box(axes, place, _LETTERS + _STEP, 0.58, f"Linear\n{model.d_model} → {width}", "linear", model.h)
        _arrow(axes, (place, y), (place, y + _STEP))
    top = _box(axes, x, y + _STEP, 1.7, attention, "attention", model.h)
    label(axes, x + 0.78, top + 0.1, f"$h$ = {model.h}")
    for text, tint in (("Concat", "norm"), (f"Linear: {model.h * model.d_v} → {model.d_model}", "linear")):
        _arrow(axes, (x, top), (x, top + _STEP))
        top = _box(axes, x, top + _STEP, 1.2, text, tint)
    _arrow(axes, (x, top), (x, top + _STEP))


def _height_of(text: str) -> float:
    return LINE_INCHES * (text.count("\n") + 1) + 0.08


def _box(axes: Axes, x: float, y: float, width: float, text: str, tint: str, h: int = 1) -> float:
    """Draw a box with bottom y and centre x in front of boxes for up to two more heads. Return its top."""
    height, behind = _height_of(text), min(h, 3) - 1
    for shift in (_PILE * number for number in range(behind, -1, -1)):
        _frame(axes, x - width / 2 + shift, y + shift, width, height, tint)
    label(axes, x, y + height / 2, text)
    return y + height + _PILE * behind


def _frame(axes: Axes, left: float, bottom: float, width: float, height: float, tint: str, layer: int = 2) -> None:
    look = {"fc": _TINTS[tint], "ec": "black", "lw": _STROKE, "zorder": layer}
    axes.add_patch(FancyBboxPatch((left, bottom), width, height, "round,pad=0,rounding_size=0.05", **look))


def _segment(axes: Axes, *points: tuple[float, float], **properties) -> None:
    axes.plot(*zip(*points, strict=True), **{"color": "black", "lw": _STROKE, "zorder": 1} | properties)


def _arrow(axes: Axes, *points: tuple[float, float]) -> None:
    """Draw a line through the points with an arrowhead at its end."""
    _segment(axes, *points[:-1])
    head = "-|>,head_width=0.12,head_length=0.25"
    style = {"arrowstyle": head, "color": "black", "lw": _STROKE, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", points[-1], points[-2], arrowprops=style, zorder=3)
