"""A trained run exported as a folder that works anywhere: what translating needs, its origin, and a model card."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import asdict

from transformer.config.experiment import Decoding, Experiment, load
from transformer.data.corpus import Subwords
from transformer.files import InputError, environment, sha256
from transformer.layout import Run
from transformer.model.weights import averaged_steps, load_model, read_header
from transformer.provenance import commit, now
from transformer.records import Trained, read_json, read_translated, variants, write_json
from transformer.translation.marian import has_own_tables, save_marian

Format = Literal["safetensors", "marian"]
MANIFEST = "export.json"  # marks a folder as an export


def export_run(run: Run, to: Path, form: Format) -> None:
    """Export the averaged model to the folder `to`, which may hold an older export and nothing else."""
    experiment = load(run.experiment)
    model = load_model(run.average, experiment.model)
    decoding, record = load(run.decoding, Decoding), read_json(run.record, Trained)
    vocabulary = Subwords(run.vocabulary).fitting(experiment.model.embedding_rows)
    steps = averaged_steps(run.average, record["digest"])  # raises on weights of another training
    with _replacing_folder(to) as folder:
        for path in (run.experiment, run.decoding, run.vocabulary, run.record, run.average):
            shutil.copyfile(path, folder / path.name)
        if form == "marian":
            save_marian(model, vocabulary, experiment, decoding, folder)
            card = _card(experiment, decoding, record, _score_lines(run, [record["digest"], steps]))
            (folder / "README.md").write_text(card, encoding="utf-8", newline="\n")
        files = {path.name: sha256(path) for path in sorted(folder.iterdir())}
        about = {"format": form, "exported": now(), "commit": commit(), "weights": read_header(run.average)}
        write_json(folder / MANIFEST, about | {"sha256": files}, indent=1)


@contextmanager
def _replacing_folder(path: Path) -> Iterator[Path]:
    """Make a temporary folder beside `path`; it is renamed to `path` when the block ends well, and else removed."""
    path = path.resolve()
    if path.exists() and not (path / MANIFEST).is_file():
        raise InputError(f"{path}: expected nothing or an older export, found something without {MANIFEST}")
    temporary, old = (path.with_name(f".{path.name}.{os.getpid()}.{end}") for end in ("part", "old"))
    try:
        temporary.mkdir(parents=True)
        yield temporary
        for name in temporary.iterdir():
            with open(name, "rb") as file:  # its bytes have to be on the disk before the folder gets its name
                os.fsync(file.fileno())
        if path.exists():
            path.rename(old)
        temporary.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        if old.exists() and not path.exists():  # the new folder could not take its place
            old.rename(path)
        shutil.rmtree(temporary, ignore_errors=True)


def _card(experiment: Experiment, decoding: Decoding, record: Trained, scores: dict[str, Any]) -> str:
    """Write the model card, whose first lines are data for the Hugging Face Hub."""
    template = environment(Path(__file__).parent / "templates", autoescape=False).get_template("card.md")
    return template.render(
        run=asdict(experiment) | record,
        preparation=experiment.preparation,
        extra_length=decoding.extra_length,
        own_tables=has_own_tables(experiment.model),
        scores=variants(scores),
        paper=scores.get("paper"),
    )


def _score_lines(run: Run, own: list) -> dict[str, Any]:
    """Read the scores of the test set, if they are there and of the training and the steps that `own` names."""
    if not run.scores("test").exists():
        return {}
    score = read_translated(run.scores("test"))
    return score["scores"] if [score["run"]["digest"], score["run"]["averaged_steps"]] == own else {}
