"""Two questions to the heads (§3.2.2, §4): are they needed, and do they look at different things?

`transformer/evaluation/masking.py` masks heads and measures their distances.
"""

from dataclasses import replace
from typing import Annotated, Any, TypedDict

from transformer.config.experiment import Large, described
from transformer.evaluation import analysis
from transformer.storage.files import draw
from transformer.storage.records import Amount, Count, Positive

KINDS = {"encoder": "encoder", "decoder": "decoder", "cross": "decoder to encoder"}  # of attention, in words
_SHARES = 1 / 4, 1 / 2, 3 / 4  # of a kind's heads that are masked when the model translates
_MINOR = 0.01  # nats per token: a head whose masking adds less to the loss changes perplexity by about 1 % at most


class _Step(TypedDict):  # one more head is masked: the one that raises the loss on some of the sentences least
    masked: Positive
    layer: Positive  # this and the head, of this step, count from 1
    head: Positive
    loss: float


class _HeadsOfKind(TypedDict):  # tables [layer][head]
    increase: list[list[float]]  # of the loss with this head alone masked
    distance: list[list[Amount]]  # mean, in tokens, that it looks over
    equal: Amount  # the distance with the same weight for all visible tokens
    curve: list[_Step]


class _Masked(analysis.Bleu):  # so many heads of a kind, in the order of its curve
    kind: str | None
    masked: Count


class Heads(analysis.Analysis):
    class Settings(analysis.RunSettings):
        choose: Annotated[Large, described("Dev sentences by which heads to mask are chosen, at most.")]

    class Result(analysis.OfRun):
        layers: Positive
        heads: Positive
        loss: float
        kinds: dict[str, _HeadsOfKind]
        bleu: list[_Masked]

    experiments = ("base",)
    needs_heads = True
    rows = ("masked",)
    words = ("Attention",)
    note = (
        "Heads of base masked (§3.2.2): each alone, by how much the loss per token rises, in nats; then ever more of a "
        "kind, always the one that raises the loss least. Distance: how many tokens lie on average between a query and "
        "what it looks at; “if alike”, for a head that looks at all alike."
    )

    def measure(self, run: analysis.EvaluatedRun, settings: Settings) -> dict[str, Any]:
        """Measure the importance and the reach of all heads, and losses and BLEU with ever more of them masked."""
        from transformer.evaluation.masking import DECIMALS, Head, TeacherForced, distances, importance, masked

        model, count = run.translator.model, len(run.sources)
        everything = TeacherForced(model, run.text, range(count))
        chosen = TeacherForced(model, run.text, draw(range(count), count, settings.choose))
        far = distances(everything)
        kinds = {kind: importance(kind, far[kind], chosen, everything) for kind in far}
        scores = [{"kind": None, "masked": 0} | run.score()]
        for kind, found in kinds.items():
            steps = found["curve"]
            for most in sorted({round(share * len(steps)) for share in _SHARES} - {0}):
                removed = [Head(kind, step["layer"] - 1, step["head"] - 1) for step in steps[:most]]
                with masked(model, removed):  # a new translator lays out the weights as they are now
                    scores.append({"kind": kind, "masked": most} | run.score(replace(run.translator)))
        sizes = {"layers": model.config.N, "heads": model.config.h}
        return sizes | {"loss": round(everything.loss(), DECIMALS), "kinds": kinds, "bleu": scores}

    def compare(self, row: str, files: analysis.DataFrame) -> list[analysis.Pair]:
        """Compare the model with all heads to that with the middle one of the numbers of heads that were masked."""
        heads, pairs = analysis.entries(files, "bleu"), []
        for kind, of_kind in heads[heads["masked"] > 0].groupby("kind", sort=False):
            counts = sorted(of_kind["masked"].unique())
            half = counts[(len(counts) - 1) // 2]
            words = f"{half} heads masked − all, {KINDS.get(kind, kind)}"
            pairs.append((words, of_kind[of_kind["masked"] == half], heads[heads["masked"] == 0]))
        return pairs

    def grid(self, files: analysis.DataFrame) -> analysis.GridRows:
        """Lay out by kind of attention how much single heads matter, how far they look, and BLEU with a part masked."""
        import numpy as np

        heads, rows = analysis.entries(files, "bleu"), []
        for kind, words in KINDS.items():
            measures = [kinds[kind] for kinds in files["kinds"]]
            increase, distance = (np.array([measure[key] for measure in measures]) for key in ("increase", "distance"))
            alike = np.mean([measure["equal"] for measure in measures])
            row = {
                "Attention": words,
                "Heads": str(increase[0].size),
                f"Loss + < {_MINOR}": analysis.RunsText(f"{100 * (increase < _MINOR).mean():.0f} %", files),
                "Loss +, at most": analysis.RunsText(f"{increase.max():.3f}", files),
            }
            for count, same in heads[heads["kind"].isin([kind]) | (heads["masked"] == 0)].groupby("masked"):
                row[f"BLEU, {count} masked"] = analysis.Mean(same, "bleu", 1)
            distances = ", ".join(f"{mean:.1f}" for mean in distance.mean(axis=(0, 2)))
            row["Distance, by layer"] = analysis.RunsText(distances, files)
            rows.append(row | {"If alike": analysis.RunsText(f"{alike:.1f}", files)})
        return rows
