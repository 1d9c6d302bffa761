"""§5.3: the learning rate over the steps."""

import numpy as np

from transformer.config.experiment import Experiment
from transformer.report.figures import COLORS
from transformer.report.figures.style import COLUMN_INCHES, MARKERS, Drawing, new
from transformer.training.optimizer import learning_rate

POINTS = 500  # of a curve


def schedule(experiments: list[Experiment]) -> Drawing:
    """Draw equation 3 with the width, warm-up and rate of each experiment, for as long as it trains."""
    figure, axes = new(COLUMN_INCHES, 2.3)
    peaks = {}
    for experiment, color, marker in zip(experiments, COLORS, MARKERS, strict=False):
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
    return Drawing(
        figure, caption, f"Lines that rise in proportion to the step, then fall with its root. {listing}.", peaks
    )
