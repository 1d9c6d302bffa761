"""The importance of heads (§3.2.2), how far they look (§4), and what is left where more and more of them are masked."""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator

from transformer.evaluation.analyses import Heads
from transformer.evaluation.records import read_of_run, run_name
from transformer.files import InputError
from transformer.report.figures import COLORS
from transformer.report.figures.attention import shape
from transformer.report.figures.style import MARKERS, MEDIUM, PAGE_INCHES, Drawing
from transformer.report.tables.probed import KINDS

MAPS = {  # colours, what the numbers are, and their decimals
    "increase": ("Oranges", "Rise of the loss without this head, in nats per token", 3),
    "distance": ("Blues", "Mean distance that this head looks over, in tokens", 1),
}
NUMBERED = 8  # heads of a layer, at most, for the number in each cell to be legible
CELL_POINTS = 5.5  # size of these numbers
DARK = 0.75  # from this share of the largest value on, a number is white
LAYER_INCHES, AROUND_INCHES, CURVES_INCHES = 0.2, 0.75, 2.3  # heights: a layer of a map, what is round it, the curves


class Probe(NamedTuple):
    """The numbers of the probe `heads` (probes/heads.py)."""

    run: str  # and its scale
    sentences: int
    loss: float
    kinds: dict[str, dict]
    bleu: list[dict]


def read_probe(path: str) -> Probe:
    """Return what the file of the probe `heads` holds. Raises InputError, which names it, where it is another file."""
    content = read_of_run(path, Heads)
    N, h, kinds = (content[key] for key in ("layers", "heads", "kinds"))
    for kind in KINDS:
        measures, where = kinds[kind], f"{path}, {kind}"
        for name in MAPS:
            if (found := shape(measures[name])) != (N, h):
                raise InputError(f"{where}, {name}: expected {N} layers of {h} heads, found shape {found}")
        if (steps := len(measures["curve"])) != N * h:
            raise InputError(f"{where}, curve: expected {N * h} heads, found {steps}")
    name = f"{run_name(content['run'])} at scale {content['run']['scale']}"
    return Probe(name, content["sentences"], content["loss"], kinds, content["bleu"])


def head_importance(path: str) -> Drawing:
    """Draw the importance and the reach of each head, and loss and BLEU over the number of masked heads."""
    probe = read_probe(path)
    layers = len(probe.kinds["encoder"]["increase"])
    map_inches = LAYER_INCHES * layers + AROUND_INCHES
    figure = Figure(figsize=(PAGE_INCHES, 2 * map_inches + CURVES_INCHES), layout="constrained")
    *maps, curves = figure.subfigures(3, height_ratios=(map_inches, map_inches, CURVES_INCHES))
    for row, name in zip(maps, MAPS, strict=True):
        draw_maps(row, probe, name)
    losses, bleu = curves.subplots(1, 2)
    draw_losses(losses, probe)
    draw_bleu(bleu, probe)
    losses.legend()
    return Drawing(figure, caption(probe), alt(probe), data(probe))


def draw_maps(row: SubFigure, probe: Probe, name: str) -> None:
    """Draw one measure as a heat map for each kind of attention, layers upwards, with one colour bar."""
    colors, title, decimals = MAPS[name]
    tables = [np.array(probe.kinds[kind][name], dtype=float) for kind in KINDS]
    most = max(table.max() for table in tables)
    panels = row.subplots(1, len(KINDS), sharey=True)
    for axes, table, kind in zip(panels, tables, KINDS.values(), strict=True):
        # From 0: heads without which the loss is lower are as white as those that do not matter.
        image = axes.imshow(table, cmap=colors, vmin=0, vmax=most, aspect="auto", origin="lower", interpolation="none")
        finish_map(axes, kind, *table.shape)
        for (layer, head), value in np.ndenumerate(table) if table.shape[1] <= NUMBERED else ():
            color = "white" if value > DARK * most else "black"
            axes.text(head, layer, short(value, decimals), ha="center", va="center", size=CELL_POINTS, color=color)
    panels[0].set_ylabel("layer")
    row.suptitle(title, size=MEDIUM, weight="bold")
    row.colorbar(image, ax=panels, aspect=10, pad=0.01, ticks=MaxNLocator(2))


def finish_map(axes: Axes, kind: str, N: int, h: int) -> None:
    """Set title and marks: all layers, and the heads as far as there is room."""
    step = -(-h // 12)
    axes.set(title=kind, xlabel="head")
    axes.set_xticks(range(0, h, step), range(1, h + 1, step))
    axes.set_yticks(range(N), range(1, N + 1))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def short(value: float, decimals: int) -> str:
    """Return a number with so many decimals, or with one if it is large; of three, without the zero before them."""
    text = f"{abs(value):.{decimals if abs(value) < 1 else 1}f}"
    if float(text) == 0:
        return "0"
    return ("−" if value < 0 else "") + (text.removeprefix("0") if decimals > 1 else text)


def draw_losses(axes: Axes, probe: Probe) -> None:
    """Draw the loss over the number of masked heads, a line for each kind."""
    for (kind, label), color, marker in zip(KINDS.items(), COLORS, MARKERS, strict=False):
        losses = [probe.loss, *(step["loss"] for step in probe.kinds[kind]["curve"])]
        axes.plot(range(len(losses)), losses, color=color, marker=marker, markersize=3, label=label)
    axes.set(xlabel="heads of this kind masked", ylabel="loss, nats per token")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y")


def draw_bleu(axes: Axes, probe: Probe) -> None:
    """Draw BLEU over the number of masked heads, a line for each kind, with bars that hold 95 %."""
    steps = len(probe.kinds["encoder"]["curve"])
    for number, (kind, color, marker) in enumerate(zip(KINDS, COLORS, MARKERS, strict=False)):
        scores = [score for score in probe.bleu if score["kind"] in (None, kind)]
        # Side by side, so that a bar does not hide another.
        x = [score["masked"] + steps * (number - 1) / 100 for score in scores]
        y = np.array([score["bleu"] for score in scores])
        bars = np.array([[score["bleu"] - score["low"], score["high"] - score["bleu"]] for score in scores]).T
        axes.errorbar(x, y, bars.clip(min=0), color=color, marker=marker, capsize=2, elinewidth=0.8)
    axes.set(xlabel="heads of this kind masked", ylabel="BLEU", ylim=(0, None), xlim=(-0.05 * steps, 1.05 * steps))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y")


def caption(probe: Probe) -> str:
    """Return what is shown, of which run and sentences, and the mean distance of each layer."""
    far = "; ".join(
        f"{title} {', '.join(f'{mean:.1f}' for mean in of_layers(probe, kind))} (equal weights: "
        f"{probe.kinds[kind]['equal']:.1f})"
        for kind, title in KINDS.items()
    )
    return (
        f"The heads of {probe.run}, measured on {probe.sentences:,} sentences of the dev set. Top: by how much the "
        f"loss, {probe.loss:.3f} nats per target token, rises where this head alone is masked, its output set to zero. "
        "Middle: how many tokens away from its own place a head looks, the mean by its weights; from decoder to "
        "encoder, away from the place at the same share of the source sentence. The means of layers, from the lowest, "
        f"beside the distance of a head that weighs alike all that it may see: {far}. Bottom: loss and BLEU (bars hold "
        "95 %) with more and more heads of one kind masked, in each step the one that raises the loss least, which was "
        "chosen on some of the sentences."
    )


def of_layers(probe: Probe, kind: str) -> list[float]:
    """Return the mean distance of the heads of each layer: [N]."""
    return np.mean(probe.kinds[kind]["distance"], axis=1).tolist()


def alt(probe: Probe) -> str:
    """Return in words the most important head of each kind, and the ends of the curves."""
    sentences = []
    for kind, title in KINDS.items():
        table = np.array(probe.kinds[kind]["increase"])
        layer, head = np.unravel_index(table.argmax(), table.shape)
        sentences.append(
            f"{title}: head {head + 1} of layer {layer + 1} matters most, {table.max():.3f} nats; with all heads "
            f"masked the loss is {probe.kinds[kind]['curve'][-1]['loss']:.3f}"
        )
    bleu = "; ".join(
        f"{score['bleu']:.1f} with {score['masked']} {KINDS.get(score['kind'], '')} heads masked".replace("  ", " ")
        for score in probe.bleu
    )
    return f"Heat maps and lines. {'; '.join(sentences)}. BLEU {bleu}."


def data(probe: Probe) -> dict:
    """Return all numbers that are drawn; those of maps by kind, [layer][head]."""
    kinds = probe.kinds
    return {
        "run": probe.run,
        **{name: {kind: kinds[kind][name] for kind in KINDS} for name in MAPS},
        "mean_distance": {kind: [round(mean, 4) for mean in of_layers(probe, kind)] for kind in KINDS},
        "equal": {kind: kinds[kind]["equal"] for kind in KINDS},
        "loss": {kind: [probe.loss, *(step["loss"] for step in kinds[kind]["curve"])] for kind in KINDS},
        "bleu": [{key: score[key] for key in ("kind", "masked", "bleu", "low", "high")} for score in probe.bleu],
    }
