"""What the paper gives as formulas: positional encoding (§3.5), learning rate (§5.3), and time of a layer (Table 1)."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
from msgspec.structs import asdict

from transformer.config.experiment import load
from transformer.evaluation.layers import COSTS, growth, read_measured
from transformer.files import InputError
from transformer.records import run_name
from transformer.report.figures import COLORS
from transformer.report.figures.style import COLUMN_INCHES, MARKERS, Drawing, new, only

SHOWN_POSITIONS = 100  # positions
POINTS = 500  # of a curve


def positions(input: SimpleNamespace, params: SimpleNamespace) -> Drawing:
    """Draw a heat map of what is added to the embeddings at the first positions. Raises InputError if nothing is."""
    from transformer.model.weights import load_model  # here, as torch takes seconds

    experiment = load(only(input.experiment))
    run, learned = run_name(asdict(experiment)), experiment.model.positions == "learned"
    if experiment.model.positions == "none":
        raise InputError(f"{run}: expected positions sinusoid, learned or words, found 'none'")
    model = load_model(only(input.weights), experiment.model)
    table = model.embedding.position_table.detach().cpu().numpy()[:SHOWN_POSITIONS]
    figure, axes = new(COLUMN_INCHES, 2.6)
    most = abs(table).max()
    # Purple and orange: colour-blind readers tell them apart, and from white, which is zero.
    image = axes.imshow(table, cmap="PuOr", vmin=-most, vmax=most, aspect="auto", interpolation="none")
    axes.set(xlabel="dimension", ylabel="position")
    figure.colorbar(image, ax=axes, label="added to the embedding")
    kind = "learned positions" if learned else "the sinusoids"
    caption = (
        f"Positional encoding (§3.5): {kind} of {run}, at the first {len(table)} positions in all {table.shape[1]} "
        "dimensions."
    )
    if not learned:
        caption += " To the left wavelengths are short and tell neighbours apart, to the right long."
    alt = f"Heat map of {kind}, values from {table.min():.2f} to {table.max():.2f}."
    return Drawing(figure, caption, alt, {"run": run})


def schedule(input: SimpleNamespace, params: SimpleNamespace) -> Drawing:
    """Draw equation 3 with the width, warm-up and rate of each of `input.experiment`, for as long as it trains."""
    from transformer.training.step import learning_rate  # here, as torch takes seconds

    figure, axes = new(COLUMN_INCHES, 2.3)
    peaks = {}
    for experiment, color, marker in zip(map(load, input.experiment), COLORS, MARKERS, strict=False):
        training, d_model = experiment.training, experiment.model.d_model
        peak = min(training.warmup_steps, training.steps)
        steps = np.unique([*np.linspace(1, training.steps, POINTS, dtype=int), peak])
        rates = [training.rate * learning_rate(int(step), d_model, training.warmup_steps) for step in steps]
        name = f"{experiment.task}/{experiment.experiment}"
        axes.plot(steps, rates, color=color, label=f"{name}, $d_\\mathrm{{model}}$ = {d_model:,}")
        peaks[name] = training.rate * learning_rate(peak, d_model, training.warmup_steps)
        axes.plot(peak, peaks[name], color=color, marker=marker)
    axes.set(xlabel="step", ylabel="learning rate", xlim=(0, None), ylim=(0, None))
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, -3), useMathText=True)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(True)
    axes.legend()
    listing = "; ".join(f"{name} at most {peak:.2e}" for name, peak in peaks.items())
    caption = f"Learning rate by equation 3 (§5.3); a mark is where it is largest. {listing}."
    alt = f"Lines that rise in proportion to the step, then fall with its root. {listing}."
    return Drawing(figure, caption, alt, peaks)


def timing(input: SimpleNamespace, params: SimpleNamespace) -> Drawing:
    """Draw the time of a layer over the sequence's length, for each type of Table 1."""
    measured = read_measured(only(input.measured))
    figure, axes = new(COLUMN_INCHES, 0.9 * COLUMN_INCHES)
    times = pd.DataFrame(measured["times"]).query("grid == 'n'").sort_values("n", kind="stable")
    longest = {}
    for (layer, of_layer), color, marker in zip(times.groupby("layer", sort=False), COLORS, MARKERS, strict=False):
        n, milliseconds = of_layer["n"].to_numpy(), 1000 * of_layer["seconds"].to_numpy()
        spread = 500 * of_layer["quartiles"].to_numpy()
        axes.errorbar(n, milliseconds, spread, color=color, marker=marker, label=layer)
        theory = milliseconds[-1] * (n / n[-1]) ** growth(COSTS[layer], "n")
        axes.plot(n, theory, color=color, linestyle="--", linewidth=0.6, zorder=1, scaley=False)
        longest[layer] = float(milliseconds[-1])
    axes.set(xscale="log", yscale="log", xlabel="Sequence length n", ylabel="Milliseconds per layer")
    lengths = sorted(times["n"].unique())
    axes.set_xticks(lengths, [str(n) for n in lengths])
    axes.minorticks_off()
    axes.grid(axis="y")
    axes.legend(title=f"d = {times['d'].iloc[0]}", alignment="left")
    caption = (
        "Time of one layer over the length of the sequence, for Table 1's kinds of layers. Dashed, through the longest "
        "sequence, is the slope that the number of operations has; bars are the distance between quartiles of "
        "repetitions."
    )
    listing = "; ".join(f"{layer} {milliseconds:.3f} ms" for layer, milliseconds in longest.items())
    alt = f"Lines of milliseconds over sequence length, both logarithmic. At n = {lengths[-1]}: {listing}."
    return Drawing(figure, caption, alt, {"n": int(lengths[-1]), "milliseconds": longest})
