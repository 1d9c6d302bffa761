"""Averaging (§6.1): how many of the last checkpoints?"""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from transformer.config.experiment import described
from transformer.evaluation import analysis
from transformer.layout import Data, Run
from transformer.storage.files import InputError
from transformer.storage.records import Amount, Positive, averaged_steps


class _Average(analysis.Bleu):  # of the last checkpoints, with their "steps"
    checkpoints: Positive
    perplexity: Amount


class Averaging(analysis.Analysis):
    class Settings(analysis.RunSettings):
        checkpoints: Annotated[
            analysis.Numbers, described("Numbers of averaged checkpoints, counted from the last (§6.1).")
        ]

    class Result(analysis.OfRun):
        averages: list[_Average]

    experiments = ("base", "big")
    needs_data = True
    rows = ("averaging",)
    words = ("Experiment",)
    note = "Averaging (§6.1) of 1, 2 or more last checkpoints. A run keeps only the checkpoints that it averages."

    def reads(self, run: Run, data: Data) -> list[Path]:
        return [run.checkpoints]

    def measure(self, run: analysis.EvaluatedRun, settings: Settings) -> dict[str, Any]:
        """Measure averages of up to as many checkpoints as the run averages. Raises InputError if it has too few."""
        from transformer.model.weights import average, require
        from transformer.training.statistics import with_statistics

        folder = run.folder.checkpoints
        paths = sorted(folder.glob("*.safetensors"))
        counts = [count for count in settings.checkpoints if count <= len(paths)]
        if not counts:
            raise InputError(f"{folder}: expected {min(settings.checkpoints)} checkpoints at least, found {len(paths)}")
        steps = [step for path in paths for step in averaged_steps(path, run.header["run"]["digest"])]
        model = deepcopy(run.translator.model)
        averages = []
        for count in counts:
            tensors, _ = average(paths[-count:])
            require(folder, model.state_dict(), tensors)
            tensors = with_statistics(tensors, run.translator.experiment, run.data, model.device)
            model.load_state_dict(tensors)
            found = {"checkpoints": count, "steps": steps[-count:], "perplexity": run.predict(model).perplexity}
            # A new translator, because each translator prepares the weights once.
            averages.append(found | run.score(replace(run.translator, model=model)))
        return {"averages": averages}

    def compare(self, row: str, files: analysis.DataFrame) -> list[analysis.Pair]:
        pairs = []
        for experiment, same in analysis.entries(files, "averages").groupby("experiment", sort=False):
            counts = dict(tuple(same.groupby("checkpoints")))
            last = counts.pop(1, same[:0])
            pairs += [(f"`{experiment}`, {count} checkpoints − the last", own, last) for count, own in counts.items()]
        return pairs

    def grid(self, files: analysis.DataFrame) -> analysis.GridRows:
        return [
            {
                "Experiment": experiment,
                "Checkpoints": str(count),
                "BLEU": analysis.Mean(same, "bleu", 2),
                "Perplexity": analysis.Mean(same, "perplexity", 3),
            }
            for (experiment, count), same in analysis.entries(files, "averages").groupby(["experiment", "checkpoints"])
        ]
