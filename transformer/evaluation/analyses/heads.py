"""Two questions about heads (§3.2.2, §4): are they necessary, and do they attend to different positions?

`transformer/evaluation/masking.py` masks heads and measures their distances.
"""

from dataclasses import replace
from typing import Annotated, Any, TypedDict

from transformer.config.experiment import Large, described
from transformer.evaluation import analysis
from transformer.storage.files import draw
from transformer.storage.records import Amount, Count, Positive

KINDS = {"encoder": "encoder", "decoder": "decoder", "cross": "decoder to encoder"}  # names of kinds of attention
_SHARES = 1 / 4, 1 / 2, 3 / 4  # shares of masked heads of one kind during translation
_MINOR = 0.01  # nats per token, about 1 % of perplexity; heads with a lower increase count as minor


class _Step(TypedDict):  # after the head whose masking raises the loss least; files also name this head
    loss: float


class _HeadsOfKind(TypedDict):  # tables [layer][head]
    increase: list[list[float]]  # of the loss, with only this head masked
    distance: list[list[Amount]]  # mean attention distance in tokens
    equal: Amount  # the distance under uniform attention
    curve: list[_Step]


class _Masked(analysis.Bleu):  # with a number of masked heads of one kind, in the order of its curve
    kind: str | None
    masked: Count


class Heads(analysis.Analysis):
    class Settings(analysis.RunSettings):
        choose: Annotated[Large, described("Maximum number of dev sentences for the choice of masked heads.")]

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
        "Masked heads of base (§3.2.2). Loss +: increase of the loss per token, in nats, with one masked head. BLEU: "
        "heads of one kind are masked one by one. Each step masks the head whose masking raises the loss least. "
        "Distance: mean number of tokens between a query and its keys, weighted by attention; “if uniform”: with "
        "equal weights."
    )

    def measure(self, run: analysis.EvaluatedRun, settings: Settings) -> dict[str, Any]:
        """Measure importance and distance of all heads, and loss and BLEU with increasing numbers of masked heads."""
        from transformer.evaluation.masking import DECIMALS, Head, TeacherForced, distances, importance, masked

        model, count = run.translator.model, len(run.sources)
        everything = TeacherForced(model, run.text, range(count))
        chosen = TeacherForced(model, run.text, draw(range(count), count, settings.choose))
        far = distances(model, run.text)
        kinds = {kind: importance(kind, far[kind], chosen, everything) for kind in far}
        scores = [{"kind": None, "masked": 0} | run.score()]
        for kind, found in kinds.items():
            steps = found["curve"]
            for most in sorted({round(share * len(steps)) for share in _SHARES} - {0}):
                removed = [Head(kind, step["layer"] - 1, step["head"] - 1) for step in steps[:most]]
                with masked(model, removed):  # a new translator, because each translator prepares the weights once
                    scores.append({"kind": kind, "masked": most} | run.score(replace(run.translator)))
        sizes = {"layers": model.config.N, "heads": model.config.h}
        return sizes | {"loss": round(everything.loss(), DECIMALS), "kinds": kinds, "bleu": scores}

    def compare(self, row: str, files: analysis.DataFrame) -> list[analysis.Pair]:
        """Compare the model without masked heads and the model with the median number of masked heads."""
        heads, pairs = analysis.entries(files, "bleu"), []
        for kind, of_kind in heads[heads["masked"] > 0].groupby("kind", sort=False):
            counts = sorted(of_kind["masked"].unique())
            half = counts[(len(counts) - 1) // 2]
            words = f"{half} heads masked − none masked, {KINDS.get(kind, kind)}"
            pairs.append((words, of_kind[of_kind["masked"] == half], heads[heads["masked"] == 0]))
        return pairs

    def grid(self, files: analysis.DataFrame) -> analysis.GridRows:
        """Show by kind of attention the importance and distance of heads, and BLEU with masked heads."""
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
                "Loss +, maximum": analysis.RunsText(f"{increase.max():.3f}", files),
            }
            for count, same in heads[heads["kind"].isin([kind]) | (heads["masked"] == 0)].groupby("masked"):
                row[f"BLEU, {count} masked"] = analysis.Mean(same, "bleu", 1)
            distances = ", ".join(f"{mean:.1f}" for mean in distance.mean(axis=(0, 2)))
            row["Distance, by layer"] = analysis.RunsText(distances, files)
            rows.append(row | {"If uniform": analysis.RunsText(f"{alike:.1f}", files)})
        return rows
