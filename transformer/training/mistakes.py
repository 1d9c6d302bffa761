"""The usual mistakes, by the marks that they leave on a training's early steps (compare.py).

Each was made for real, at demo scale, and compared with right runs at steps 150 to 300. Each check says in brackets
what was measured: of the mistake, against any seed; of right runs, against each other. A mark proves nothing: it says
where to look first.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from transformer.training.trajectory import MEASURES, Comparison

FIRST_LOSS = 0.6  # nats, in the first batch; seeds differ by 0.23, with half the tokens by 0.4
FIRST_NORM = 0.6  # ln(ours / reference) of its gradient norm; seeds differ by 0.42


def mistakes(c: Comparison) -> list[str]:
    """What a run that is off the trajectory looks like. What shows at once comes first: it bends every other curve."""
    for checks in (AT_ONCE, IN_TIME):
        found = [f"{name}: {marks}" for name, check in checks.items() if (marks := check(c))]
        if found:
            return found
    return [f"none of the usual mistakes, as far as step {c.ours.index[-1]} shows"]


class Schedule(NamedTuple):
    """Equation 3 as rates show it: rate = min(peak * step^-0.5, slope * step)."""

    slope: float  # d_model^-0.5 * warmup_steps^-1.5
    peak: float  # d_model^-0.5, once the warm-up is over
    rising: bool  # as long as it is not

    @property
    def d_model(self) -> float:
        return self.peak**-2

    @property
    def warmup(self) -> float:
        return (self.peak / self.slope) ** (2 / 3)


def schedule(rates: pd.Series) -> Schedule | None:
    """The schedule of these rates, by step; None where they are not of equation 3."""
    steps = rates.index.to_numpy(float)
    slope, peak = (rates / steps).max(), (rates * steps**0.5).max()
    if slope <= 0:
        return None
    found = Schedule(slope, peak, (peak / slope) ** (2 / 3) > 0.99 * steps[-1])
    return found if np.allclose(rates, np.minimum(peak * steps**-0.5, slope * steps), rtol=0.01) else None


def rate(c: Comparison) -> str:
    """Another factor, d_model or warm-up, as the ratio of the rates shows over the steps. [exact; exact]"""
    if not c.wrong["rate"].any():
        return ""
    ratio = np.exp(c.deviation["rate"])
    constant = ratio.max() <= 1.02 * ratio.min()
    times = [f"{by:.3g} times the reference's at step {step}" for step, by in ratio.iloc[[0, -1]].items()]
    seen = f"{ratio.iloc[0]:.3g} times the reference's at all steps" if constant else ", ".join(times)
    ours, theirs = (schedule(log.lines["rate"].dropna()) for log in c.logs)
    if ours is None or theirs is None:
        return f"{seen}; not equation 3, which rises with the step, 1 at first, and falls with its root"
    return f"{seen}; as with {' or '.join(readings(ours, theirs, constant))}"


def readings(ours: Schedule, theirs: Schedule, constant: bool) -> list[str]:
    """What bends one schedule to the other. While it rises, a factor cannot be told from another warm-up."""
    by = ours.slope / theirs.slope
    if theirs.rising:
        return [f"a factor of {by:.3g}", f"{by ** (-2 / 3):.3g} times the warm-up steps"]
    if ours.rising:
        longer = [warmup(theirs.warmup * by ** (-2 / 3), theirs)]
        return [factor(by, theirs), *longer] if constant else longer
    by, longer = ours.peak / theirs.peak, ours.warmup / theirs.warmup
    if same(by, 1):
        return [warmup(ours.warmup, theirs)]
    if same(longer, 1):
        return [factor(by, theirs)]
    if same(by, longer**0.5):
        return [f"{1 / longer:.3g} steps of the schedule in every step"]
    return [f"{factor(by, theirs)}, and {warmup(ours.warmup, theirs)}"]


def same(one: float, other: float) -> bool:
    return abs(one / other - 1) < 0.02


def warmup(steps: float, theirs: Schedule) -> str:
    if steps < 2:
        return "no warm-up"
    return f"{steps:,.0f} warm-up steps, not {theirs.warmup:,.0f}"


def factor(by: float, theirs: Schedule) -> str:
    """How a factor comes about: of d_model, where that is of a usual size."""
    other = theirs.d_model / by**2
    if same(other, 1):
        return f"d_model^-0.5 left out (d_model {theirs.d_model:.0f})"
    usual = f" (d_model {other:.0f}, not {theirs.d_model:.0f})" if 8 <= other <= 8192 else ""
    return f"a factor of {by:.3g}{usual}"


def batch_size(c: Comparison) -> str:
    """Target tokens of a batch. [exact; 0.99 to 1.01 times]"""
    by = np.exp(c.deviation["batch_target_tokens"].median())
    return f"{by:.2g} times the target tokens: {batch_tokens(c)}" if by < 0.75 or by > 1.33 else ""


def batch_tokens(c: Comparison) -> str:
    sides = ["batch_source_tokens", "batch_target_tokens"]
    ours, theirs = (" + ".join(f"{tokens:,.0f}" for tokens in of[sides].mean()) for of in (c.ours, c.reference))
    return f"{ours} tokens in a batch, reference {theirs}"


def vocabulary(c: Comparison) -> str:
    """The first loss is ln(embedding rows) + 1/2. [eight times the rows: 2.0 to 2.2; ±0.23]"""
    loss, norm = first_batch(c)
    if abs(loss) < FIRST_LOSS or abs(norm) > FIRST_NORM:
        return ""
    return f"{first(c, 'plain_loss')}, as with {np.exp(loss):.2g} times the embedding rows"


def output_scale(c: Comparison) -> str:
    """First loss and ln(ratio) of its gradient norm. [from 2.2 and from 0.6; ±0.23 and ±0.42]"""
    loss, norm = first_batch(c)
    return first(c, "plain_loss", "gradient_norm") if loss > FIRST_LOSS and norm > FIRST_NORM else ""


def positions(c: Comparison) -> str:
    """Without them the decoder's first input is zero, which LayerNorm blows up. [ln(ratio) 3.1 to 3.6; ±0.42]"""
    loss, norm = first_batch(c)
    passes = norm > 1.5 and c.deviation["gradient_norm"].iloc[-1] < norm - 1
    return first(c, "plain_loss", "gradient_norm") if abs(loss) < FIRST_LOSS and passes else ""


def first_batch(c: Comparison) -> tuple[float, float]:
    """How far apart loss and ln(gradient norm) are before anything is learned; zeros where that was not logged."""
    if c.ours.index[0] != 1:
        return 0.0, 0.0
    return c.deviation["plain_loss"].iloc[0], c.deviation["gradient_norm"].iloc[0]


def first(c: Comparison, *names: str) -> str:
    """`first plain loss 8.84 (reference 6.97)`."""
    return ", ".join(f"first {name.replace('_', ' ')} {both(c, 1, name, '.3g')}" for name in names)


def pair_lengths(c: Comparison) -> str:
    """Target tokens of a batch, which sides of unlike lengths do not fill. [0.88 to 0.92 times; 0.99 to 1.01]"""
    unlike = abs(c.deviation["batch_target_tokens"].median()) > MEASURES["batch_target_tokens"].tolerance
    return batch_tokens(c) if unlike and not batch_size(c) else ""


def smoothing(c: Comparison) -> str:
    """At one plain loss, smoothing adds in proportion to epsilon. [off 0.00, doubled 1.8 times; 0.99 to 1.07]"""
    known = c.reference.sort_values("plain_loss")
    added, usual = (of["smoothed_loss"] - of["plain_loss"] for of in (c.ours, known))
    expected = pd.Series(np.interp(c.ours["plain_loss"], known["plain_loss"], usual), c.ours.index)
    step = expected.idxmax()
    if expected[step] < 0.05 or 0.6 < added[step] / expected[step] < 1.6:
        return ""
    return f"adds {added[step]:.2f} nats to the loss at step {step}, the reference's would add {expected[step]:.2f}"


def leak(c: Comparison) -> str:
    """Loss at the last dev scores. [-0.12 to -1.15, and BLEU 0.0; ±0.08]"""
    step = untranslated(c, 5)
    if step is None or c.deviation.at[step, "smoothed_loss"] > -MEASURES["smoothed_loss"].tolerance:
        return ""
    return f"at step {step}, training perplexity {perplexity(c, step)}, but greedy {bleu(c, step)}"


def unseen_source(c: Comparison) -> str:
    """A language model's share of what the reference learned. [0.74 to 0.94; 0.94 to 1.06]"""
    return stalled(c, 0.6, 1.0)


def dead_layers(c: Comparison) -> str:
    """The share of what the reference learned that words' frequencies are. [0.34 to 0.47; 0.94 to 1.06]"""
    return stalled(c, 0.0, 0.6)


def stalled(c: Comparison, least: float, most: float) -> str:
    """Whether the training loss fell this share of the reference's fall, without a translation."""
    step = untranslated(c, 20)
    if step is None or c.deviation.at[step, "smoothed_loss"] < MEASURES["smoothed_loss"].tolerance:
        return ""
    ours, theirs = (of["plain_loss"].iloc[0] - of.at[step, "plain_loss"] for of in (c.ours, c.reference))
    if not least < ours / theirs < most:
        return ""
    return f"at step {step}, training perplexity {perplexity(c, step)} and {bleu(c, step)}"


def untranslated(c: Comparison, least: float) -> int | None:
    """The last step with dev scores, if only the reference translates by then: with that much BLEU at least."""
    scores = c.deviation["dev_bleu"].dropna()
    if scores.empty:
        return None
    step = scores.index[-1]
    theirs = c.reference.at[step, "dev_bleu"]
    return step if theirs > least and c.ours.at[step, "dev_bleu"] < 0.2 * theirs else None


def perplexity(c: Comparison, step: int) -> str:
    ours, theirs = (np.exp(of.at[step, "plain_loss"]) for of in (c.ours, c.reference))
    return f"{ours:.3g} (reference {theirs:.3g})"


def bleu(c: Comparison, step: int) -> str:
    return f"dev BLEU {both(c, step, 'dev_bleu', '.1f')}"


def both(c: Comparison, step: int, name: str, form: str) -> str:
    """`ours (reference theirs)`."""
    return f"{c.ours.at[step, name]:{form}} (reference {c.reference.at[step, name]:{form}})"


def dev_encoding(c: Comparison) -> str:
    """ln(dev / training perplexity) beyond the reference's. [1.1 to 8.3; ±0.23]"""
    beyond = (c.deviation["dev_perplexity"] - c.deviation["plain_loss"]).dropna()
    if beyond.empty or beyond.iloc[-1] < 1:
        return ""
    step = beyond.index[-1]
    return f"at step {step}, dev perplexity {both(c, step, 'dev_perplexity', '.3g')}, training {perplexity(c, step)}"


def pre_norm(c: Comparison) -> str:
    """Mean ln(ratio) of gradient norms, with the loss as it should be. [-0.52 to -0.23; ±0.07]"""
    mean, constant = norms(c)
    dev = c.deviation["dev_perplexity"].dropna()
    worse = c.deviation["smoothed_loss"].max() > MEASURES["smoothed_loss"].tolerance or (dev.tail(1) > 0.35).any()
    if not -0.8 < mean < -0.2 or constant or worse or leak(c):
        return ""
    return f"gradient norm {np.exp(mean):.2f} times the reference's on average, and a loss as it should be"


def gradient_scale(c: Comparison) -> str:
    """A constant ratio of gradient norms; Adam hides the rest. [ln 2.9 per sentence, 7.6 summed; ±0.07]"""
    mean, constant = norms(c)
    return f"gradient norm {np.exp(mean):.3g} times the reference's at all steps" if constant else ""


def norms(c: Comparison) -> tuple[float, bool]:
    """Mean over the steps of ln(ratio) of gradient norms; whether it is about the same everywhere, and not 0."""
    later = c.deviation["gradient_norm"].iloc[1:]  # the first is of a single batch
    mean = later.mean()
    return mean, len(later) > 1 and abs(mean) > 0.55 and later.max() - later.min() < 0.3 + abs(mean) / 4


# Name: check, which answers with the numbers that it goes by, or with nothing.
AT_ONCE = {
    "another rate": rate,
    "another batch size": batch_size,
    "another vocabulary": vocabulary,
    "other subwords, another direction, or pairs that do not belong together": pair_lengths,
    "a LayerNorm missing at the end of a stack, or embeddings that are not N(0, 1/d_model)": output_scale,
    "no positional encoding": positions,
}
IN_TIME = {
    "another label smoothing": smoothing,
    "a leak in the mask, or a decoder whose input is not shifted": leak,
    "a decoder that learns nothing from the source, or pairs that do not belong together": unseen_source,
    "embeddings without their sqrt(d_model), or no residual connections": dead_layers,
    "a dev set that was encoded by another vocabulary, or whose sides are mixed up": dev_encoding,
    "pre-norm instead of post-norm": pre_norm,
    "a loss that is not per target token, or gradients summed where they should be averaged": gradient_scale,
}
