"""The command `fit` and `transformer.fit`: one model from text files, by the functions of the workflow's rules."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from cyclopts.types import PositiveInt

from transformer.config.experiment import POSITIONS, load, save
from transformer.config.scales import OF_TASK, RunName, ScaleSettings
from transformer.config.settings import INSTALLED, read
from transformer.data.corpus import Subwords
from transformer.data.preprocessing import encode_splits, learn_vocabulary, reuse_vocabulary, tokenize_split
from transformer.layout import Data, Run
from transformer.process import EXIT_INTERRUPTED, Interrupted, StopSignals, processors
from transformer.storage.files import InputError, open_input, read_lines

logger = logging.getLogger(__name__)
_SHOWN = 3  # translations at the end


@dataclass
class Fit:
    """One training from text files. The fields are the options of `fit`; `settings` are the pairs of --set."""

    train: tuple[Path, Path]
    dev: tuple[Path, Path]
    output: Path
    like: str = "multi30k"
    row: str = "base"
    seed: int = 1
    vocabulary: int | None = None
    initial: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None

    def run(self) -> None:
        """Prepare the texts in `output`/data and train. Raises InputError, or Interrupted after a stop signal."""
        from transformer.device import use_threads  # late imports, because torch takes seconds to load
        from transformer.training.loop import train_and_publish

        run, threads = Run(self.output), self.threads or processors()
        data = Data(run.folder / "data")
        if run.folder.exists() and any(run.folder.iterdir()) and not data.folder.exists():
            raise InputError(f"{run.folder}: expected a new folder or a run of `fit`, found other files")
        for path in (*self.train, *self.dev):
            open_input(path).close()  # a missing file leaves no folder behind
        scale = self._scale()
        name = scale.first_task
        task, how, decoding = scale.tasks[name], scale.preprocessing(name), scale.decoding(name)
        data.folder.mkdir(parents=True, exist_ok=True)  # it marks the folder as ours
        save(scale.experiment(RunName(name, self.row, self.seed)), run.experiment)
        save(decoding, run.decoding)
        for split, texts in {"train": self.train, "dev": self.dev}.items():
            tokenize_split(data, split, [texts], task.languages, how, threads, clean=split == "train")
        if task.vocabulary_file:
            reuse_vocabulary(data, task.vocabulary_file, task.vocabulary)
        else:
            learn_vocabulary(data, task.vocabulary, task.languages, how)
        encode_splits(data, threads, POSITIONS - decoding.extra_length)
        use_threads(threads)
        with StopSignals() as stop:
            train_and_publish(run, data, threads, None, stop)

    def _languages(self) -> list[str]:
        """Return the languages of both sides. Raises InputError if the file names do not end in them."""
        found = [[Path(path).suffix.removeprefix(".") for path in texts] for texts in (self.train, self.dev)]
        if found[0] != found[1] or not all(found[0]):
            names = ", ".join(map(str, (*self.train, *self.dev)))
            raise InputError(f"expected file names that end in the same two languages, as in train.en, found {names}")
        return found[0]

    def _scale(self) -> ScaleSettings:
        """Return the settings of a scale with one task. Raises InputError naming the wrong key."""
        config, languages = read([], [], INSTALLED), self._languages()
        if self.like not in config.scales:
            raise InputError(f"--like: expected one of the scales ({', '.join(config.scales)}), found {self.like}")
        first = next(iter(config.scales[self.like].tasks.values()))
        size, settings, task = self.vocabulary or first.vocabulary, dict(self.settings), {}
        if self.initial:
            initial = Run(self.initial)
            size, before = len(Subwords(initial.vocabulary)), load(initial.experiment).preprocessing
            task = {key: value for key in OF_TASK if (value := getattr(before, key)) is not None}
            task["vocabulary_file"] = str(initial.vocabulary)
            settings["initial_weights"] = str(initial.average)
        task |= {"source": languages[0], "target": languages[1], "train": ["train"], "dev": "dev", "test": "dev"}
        task |= {"vocabulary": size, "embedding_rows": size, "experiments": {self.row: settings}}
        corpora = {
            name: {"files": {code: {"path": str(path)} for code, path in zip(languages, texts, strict=True)}}
            for name, texts in {"train": self.train, "dev": self.dev}.items()
        }
        own = {"like": self.like, "label": str(self.train[0]), "seeds": [self.seed], "tasks": {"fit": task}}
        own["rows"] = list(dict.fromkeys(["base", self.row]))
        content = {"scale": "fit", "corpora": corpora, "scales": {"fit": own}}
        try:
            entries = [f"{key}={yaml.safe_dump(value)}" for key, value in content.items()]
            return ScaleSettings(read([], entries, INSTALLED))
        except InputError as error:
            place = re.compile(r"(--config: )?(scales\.fit[.:] ?)?(tasks\.fit\.|fit: )?")
            raise InputError(place.sub("", str(error), count=1)) from None


def fit(
    *,
    train: tuple[Path, Path],
    dev: tuple[Path, Path],
    output: Path,
    like: str = Fit.like,
    row: str = Fit.row,
    seed: int = Fit.seed,
    vocabulary: PositiveInt | None = None,
    initial: Path | None = None,
    set: list[str] = [],  # noqa: B006
    threads: PositiveInt | None = None,
) -> None:
    """Train one model from text files, or fine-tune a trained one. The same command resumes an interrupted training.

    Each text has one sentence per line, and the ending of its file name is the code of its language. The command
    tokenises the texts, learns subwords, trains, averages, and translates the first lines of the development text.

        python -m transformer fit --train train.en train.de --dev dev.en dev.de --output run --set steps=3000

    Args:
        train: SOURCE TARGET: training text
        dev: SOURCE TARGET: development text, for perplexity and BLEU during training
        output: folder of the run, for `translate --run` and other commands
        like: scale of config.yaml with the sizes and settings of the model
        row: row of config.yaml's tables, such as big, lstm or conv
        seed: seed of initial weights, batches and dropout
        vocabulary: number of subwords that both languages share; default: the scale's
        initial: folder of a run with initial weights; its vocabulary and preprocessing are used, too
        set: KEY=VALUE: changes of the row, such as steps=3000 P_drop=0.1; sizes are in config.yaml's units
        threads: number of CPU threads; default: all
    """
    from transformer.translation.translator import open_translator  # a late import, because torch takes seconds to load

    if wrong := [entry for entry in set if "=" not in entry]:
        raise InputError(f"--set: expected KEY=VALUE, found {wrong[0]}")
    settings = {key: yaml.safe_load(value) for key, _, value in (entry.partition("=") for entry in set)}
    try:
        Fit(train, dev, output, like, row, seed, vocabulary, initial, settings, threads).run()
    except Interrupted as interruption:
        logger.info("transformer fit: interrupted by %s; the same command resumes the training", interruption)
        raise SystemExit(EXIT_INTERRUPTED) from None
    lines = list(islice(read_lines(dev[0]), _SHOWN))
    for line, best in zip(lines, open_translator(output).translate(lines), strict=True):
        print(f"{line}\n    {best.text}")
