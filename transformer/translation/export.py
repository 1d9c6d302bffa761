"""A trained run exported as a folder that works anywhere: all that translating needs, and where it comes from."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformer.config.experiment import Decoding, load
from transformer.data.subwords import Subwords
from transformer.evaluation.origin import averaged_steps
from transformer.evaluation.records import Trained
from transformer.files import InputError, replacing, sha256
from transformer.model.header import read_header
from transformer.model.weights import load_model
from transformer.provenance import commit, now
from transformer.records import read_json
from transformer.translation.card import card, score_of
from transformer.translation.ctranslate2 import save_ctranslate2
from transformer.translation.marian import save_marian
from transformer.translation.marian_weights import has_own_tables

FORMATS = ("safetensors", "ctranslate2", "marian")
WEIGHTS = "average.safetensors"  # the weights that a folder is translated with unless others are named
COPIED = ("experiment.yaml", "decoding.yaml", "vocabulary.model", "run.json")
MANIFEST = "export.json"  # marks a folder as an export


def export(run: Path, weights: Path, to: Path, form: str) -> None:
    """Export the run with its `weights` to the folder `to`, in one of FORMATS; an older export there is replaced.

    Raises InputError where a file of the run is missing or damaged, on weights of another training, where `to` is
    no export, and on a model that the format cannot express.
    """
    experiment = load(run / "experiment.yaml")
    model = load_model(weights, experiment.model)
    decoding, record = load(run / "decoding.yaml", Decoding), read_json(run / "run.json", Trained)
    vocabulary = Subwords(run / "vocabulary.model").fitting(experiment.model.embedding_rows)
    origin = read_header(weights)
    averaged_steps(weights, record["digest"])  # raises where they are of another training
    with replacing_folder(to) as folder:
        for name in COPIED:
            shutil.copyfile(run / name, folder / name)
        shutil.copyfile(weights, folder / WEIGHTS)
        if form == "ctranslate2":
            save_ctranslate2(model, vocabulary, folder)
        if form == "marian":
            save_marian(model, vocabulary, experiment, decoding, folder)
            score, own_tables = score_of(run, weights, record["digest"]), has_own_tables(experiment.model)
            with replacing(folder / "README.md") as file:
                file.write(card(experiment, decoding, record, score, own_tables))
        files = {path.name: sha256(path) for path in sorted(folder.iterdir())}
        manifest = {"format": form, "exported": now(), "commit": commit(), "weights": origin, "sha256": files}
        with replacing(folder / MANIFEST) as file:
            json.dump(manifest, file, indent=1)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Make a temporary folder beside `path`, which is renamed to it when the block ends well, and else removed.

    Raises InputError where there is something at `path` that is no export.
    """
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
