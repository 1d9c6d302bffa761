"""Length (§3.5): do sinusoids extrapolate to longer sentences than in training?"""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NotRequired

from msgspec import Meta

from transformer.config.experiment import described
from transformer.evaluation import analysis
from transformer.layout import Data, Run
from transformer.storage.checksums import read_manifest, require_sums
from transformer.storage.files import InputError
from transformer.storage.records import Amount, Count, Positive, Share

_GROUPS = 4  # number of groups of single sentences by length


class _Group(analysis.Bleu):  # sentences of similar length
    # None: single sentences. 1: neighbours are joined up to the length of the longest source sentence in training.
    # Other t: neighbours are joined until they reach t times this length.
    times: Positive | None
    sentences: Positive
    tokens: Amount  # mean source tokens, including EOS


class _Sentence(NamedTuple):  # one sentence or several joined sentences
    source: str
    reference: str
    tokens: int  # number of source tokens


def _longest_in_training(run: analysis.EvaluatedRun, quantile: float) -> int:
    """Return the tokens of the run's longest source sentence in training, among the shortest `quantile`."""
    import numpy as np

    from transformer.training.batches import fits, open_text

    if run.data is None:
        raise InputError("lengths: expected --data, found none")
    require_sums(run.data.manifest, read_manifest(run.data.manifest)["files"], run.data.arrays("train"))
    both, training = open_text(run.data, "train").lengths, run.translator.experiment.training
    trained = both[0, fits(both, training.budgets, training.longest)]  # training skips other sentences
    return int(np.quantile(trained, quantile, method="higher"))


def _groups_by_length(sentences: list[_Sentence]) -> list[list[_Sentence]]:
    """Return the sentences in _GROUPS groups of equal size, shortest first."""
    import numpy as np

    if len(sentences) < _GROUPS:
        raise InputError(f"expected {_GROUPS} sentences at least, one for each group, found {len(sentences)}")
    ordered = sorted(sentences, key=lambda sentence: sentence.tokens)
    return [[ordered[index] for index in part] for part in np.array_split(range(len(ordered)), _GROUPS)]


def _join_until(sentences: list[_Sentence], least: int, count: Callable[[str], int]) -> list[_Sentence]:
    """Join neighbouring sentences until each source has `least` tokens or more. A shorter rest is dropped.

    `count` counts the tokens of the joined text, because they may differ from the sum of the parts.
    """
    joined, parts = [], []
    for sentence in sentences:
        parts.append(sentence)
        if (whole := _concatenated(parts, count)).tokens >= least:
            joined.append(whole)
            parts = []
    return joined


def _join_within(sentences: list[_Sentence], most: int, count: Callable[[str], int]) -> list[_Sentence]:
    """Join neighbours up to `most` tokens. Single sentences are dropped.

    These texts differ from training like other joined sentences, but are not longer.
    """
    joined: list[list[_Sentence]] = []
    for sentence in sentences:
        if joined and _concatenated([*joined[-1], sentence], count).tokens <= most:
            joined[-1].append(sentence)
        else:
            joined.append([sentence])
    return [_concatenated(parts, count) for parts in joined if len(parts) > 1]


def _concatenated(parts: list[_Sentence], count: Callable[[str], int]) -> _Sentence:
    source = " ".join(part.source for part in parts)
    return _Sentence(source, " ".join(part.reference for part in parts), count(source))


def longest_of(quantile: float) -> str:
    """Describe the sentences with the length `longest`."""
    return "the longest" if quantile == 1 else f"the longest of the shortest {100 * quantile:g} %"


class ByLength(analysis.Analysis):
    class Settings(analysis.RunSettings):
        times: Annotated[
            analysis.Numbers, described("Lengths of joined sentences, as multiples of the longest in training (§3.5).")
        ]
        # In a large corpus, the longest sentence is an outlier.
        quantile: Annotated[
            float,
            Meta(gt=0, le=1),
            described("Share of training sentences, shortest first. `times` refers to the longest of them."),
        ] = 1.0

    class Result(analysis.OfRun):
        positions: str  # the architecture's name, if it is not a Transformer
        longest: Positive  # maximum source tokens in training, among the shortest `quantile`
        quantile: NotRequired[Share]  # the default is all
        skipped: Count  # joined sentences that exceed the model's positions
        groups: list[_Group]  # a t without joined sentences has no group

    experiments = ("base", "learned-positions", "no-positions")
    of_baselines = True
    needs_data = True
    rows = ("lengths",)
    words = ("Sentences",)
    note = (
        "Length (§3.5): single sentences in four groups by length, then neighbouring sentences joined into one input. "
        "Joined sentences differ from training in more than length. Joined sentences up to the longest training "
        "length show the effect of joining. "
        "Words: words in the translation per word of the reference."
    )

    def reads(self, run: Run, data: Data) -> list[Path]:
        return data.arrays("train")

    def measure(self, run: analysis.EvaluatedRun, settings: Settings) -> dict[str, Any]:
        """Measure BLEU of single sentences in groups by length, and of joined neighbours.

        Raises InputError if there are fewer sentences than groups.
        """
        translator, longest = run.translator, _longest_in_training(run, settings.quantile)
        rows = zip(run.sources, run.references, run.text.source.lengths.tolist(), strict=True)
        sentences = [_Sentence(*row) for row in rows]
        groups: list[tuple[int | None, list[_Sentence]]] = [(None, group) for group in _groups_by_length(sentences)]
        skipped = 0
        for times in settings.times:
            join = _join_within if times == 1 else _join_until
            joined = join(sentences, times * longest, lambda text: len(translator.encode([text])[0]))
            fitting = [sentence for sentence in joined if sentence.tokens <= translator.longest]
            skipped += len(joined) - len(fitting)
            groups += [(times, fitting)] if fitting else []
        # All are translated together, because short sentences fill batches.
        translations = iter(translator.translate([sentence.source for _, group in groups for sentence in group]))
        measured = []
        for times, group in groups:
            hypotheses = [best.text for best in islice(translations, len(group))]
            tokens = sum(sentence.tokens for sentence in group) / len(group)
            bleu = run.bleu(hypotheses, [sentence.reference for sentence in group])
            measured.append({"times": times, "sentences": len(group), "tokens": tokens} | bleu)
        model = translator.experiment.model
        positions = model.positions if model.architecture == "transformer" else model.architecture
        found = {"positions": positions, "longest": longest, "quantile": settings.quantile}
        return found | {"skipped": skipped, "groups": measured}

    def compare(self, row: str, files: analysis.DataFrame) -> list[analysis.Pair]:
        other, longest = "learned-positions", longest_of(files["quantile"].fillna(1).min())
        groups = analysis.entries(files, "groups")
        longer = groups[groups["times"] > 1].groupby("times")
        return [analysis.base_and(other, same, f"`base` − `{other}`, {times:g} × {longest}") for times, same in longer]

    def grid(self, files: analysis.DataFrame) -> analysis.GridRows:
        groups = analysis.entries(files, "groups")
        groups["positions"] = groups["name"].map(files.set_index("name")["positions"])
        rows, longest = [], longest_of(files["quantile"].fillna(1).min())
        for _, same in groups.groupby("place"):
            first, times = same.iloc[0], same["times"].iloc[0]
            joined = "no longer than in training" if times == 1 else f"{times:g} × {longest} in training"
            sentences = f"joined, {joined}" if times > 0 else "single"  # `times` of single sentences is NaN
            row = {"Sentences": sentences, "Number": f"{first['sentences']}", "Mean tokens": f"{first['tokens']:.1f}"}
            for positions, of_kind in same.groupby("positions", sort=False):
                row[f"BLEU, {positions}"] = analysis.Mean(of_kind, "bleu", 1)
                row[f"Words, {positions}"] = analysis.Mean(of_kind, "length_ratio", 2)
            rows.append(row)
        return rows
