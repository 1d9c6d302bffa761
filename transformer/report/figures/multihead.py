"""Figure 2: the attention of a model, with the widths that its heads have."""

from matplotlib.axes import Axes

from transformer.files import InputError
from transformer.model.transformer import Transformer
from transformer.report.figures.boxes import arrow, box, canvas, frame, height_of, label
from transformer.report.figures.style import COLUMN_INCHES, MEDIUM, Drawing

STEP, LETTERS, TITLE = 0.13, 0.22, 2.22  # between boxes; where inputs and titles are
PILE = 0.035  # by which a head's box stands behind the one before it


def figure2(model: Transformer, run: str) -> Drawing:
    """Draw dot-product attention (§3.2), and multi-head attention with the sizes that `model` has.

    Raises InputError on additive attention, which the paper does not draw.
    """
    if model.config.attention != "dot":
        raise InputError(f"{run}: Figure 2 draws attention dot, found {model.config.attention!r}")
    scaled = model.config.scaled
    name = "Scaled Dot-Product Attention" if scaled else "Dot-Product Attention"
    module = model.encoder[0].self_attention
    sizes = {"h": module.h, "d_k": module.d_k, "d_v": module.d_v, "d_model": module.output.out_features}
    figure, axes = canvas(COLUMN_INCHES, 2.4)
    draw_dot_product(axes, 0.72, module.d_k if scaled else None)
    draw_heads(axes, 2.42, sizes, name)
    listed = ", ".join(f"{symbol} = {size}" for symbol, size in sizes.items())
    caption = (
        f"Left: {name.lower()} (§3.2.1). The mask hides padding and, in the decoder, what is not yet written. "
        f"Right: multi-head attention (§3.2.2), h of them side by side, as {run} has it: {listed}."
    )
    alt = (
        f"Block diagrams. Left, upwards: MatMul of Q and K, {'scale, ' * scaled}mask, softmax, MatMul with V. "
        "Right, upwards: V, K and Q, a linear projection of each for each head, attention in "
        f"{module.h} heads, Concat, a linear projection."
    )
    return Drawing(figure, caption, alt, {"run": run} | sizes)


def draw_dot_product(axes: Axes, x: float, d_k: int | None) -> None:
    """Draw the left of Figure 2: equation 1, from below. d_k: None where products are not scaled."""
    label(axes, x, TITLE, f"{'Scaled ' if d_k else ''}Dot-Product\nAttention", size=MEDIUM)
    steps = [("MatMul", "feed-forward"), ("Mask (opt.)", "embedding")]
    if d_k:
        steps.insert(1, (f"Scale: $1/\\sqrt{{{d_k}}}$", "norm"))
    steps += [("SoftMax", "softmax"), ("MatMul", "feed-forward")]
    y, value = LETTERS, x + 0.55
    for name, place in (("$Q$", x - 0.25), ("$K$", x + 0.25), ("$V$", value)):
        label(axes, place, y - 0.1, name, size=MEDIUM)
    for start in (x - 0.25, x + 0.25):
        arrow(axes, (start, y), (start, y + STEP))
    for number, (text, tint) in enumerate(steps):
        if number:
            middle = x - 0.2 * (number == len(steps) - 1)  # the last has V beside it
            arrow(axes, (middle, y), (middle, y + STEP))
        bottom = y + STEP
        y = box(axes, x, bottom, 0.86, text, tint)
    arrow(axes, (value, LETTERS), (value, bottom - STEP / 2), (x + 0.25, bottom - STEP / 2), (x + 0.25, bottom))
    arrow(axes, (x, y), (x, y + STEP))


def draw_heads(axes: Axes, x: float, sizes: dict[str, int], attention: str) -> None:
    """Draw the right of Figure 2: what is learned, how wide it is, and the `attention` of each head."""
    label(axes, x, TITLE, "Multi-Head\nAttention", size=MEDIUM)
    widths = {"V": sizes["d_v"], "K": sizes["d_k"], "Q": sizes["d_k"]}
    for place, (name, width) in zip((x - 0.68, x, x + 0.68), widths.items(), strict=True):
        label(axes, place, LETTERS - 0.1, f"${name}$", size=MEDIUM)
        arrow(axes, (place, LETTERS), (place, LETTERS + STEP))
        y = piled(axes, place, LETTERS + STEP, 0.58, f"Linear\n{sizes['d_model']} → {width}", "linear", sizes["h"])
        arrow(axes, (place, y), (place, y + STEP))
    top = piled(axes, x, y + STEP, 1.7, attention, "attention", sizes["h"])
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
