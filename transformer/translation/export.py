"""A trained run as a folder that goes anywhere: all that translating needs, and where it comes from."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformer.common.files import InputError, read_json, replacing, sha256
from transformer.common.provenance import commit, now
from transformer.config.experiment import Decoding, load
from transformer.data.subwords import Subwords
from transformer.model.header import load_header
from transformer.model.weights import load_model
from transformer.translation.conversion import save_ctranslate2

FORMATS = ("safetensors", "ctranslate2")
WEIGHTS = "average.safetensors"  # what a folder is translated with where no other weights are named
COPIED = ("experiment.yaml", "decoding.yaml", "vocabulary.model", "run.json")
ABOUT = "export.json"  # marks a folder as an export


def export(run: Path, weights: Path, to: Path, form: str) -> None:
    """Make the folder `to` of the run and its `weights`, in one of FORMATS; an older export there is replaced.

    Raises InputError where a file of the run is missing or unfit, on weights of another training, where `to` is
    something else, and on a model that the format cannot express.
    """
    model = load_model(weights, load(run / "experiment.yaml").model)
    load(run / "decoding.yaml", Decoding)
    vocabulary, origin = Subwords(run / "vocabulary.model"), load_header(weights)
    trained, found = (about.get("digest") for about in (read_json(run / "run.json"), origin))
    if found != trained:
        raise InputError(f"{weights}: expected weights of the training {trained}, found {found}")
    with replacing_folder(to) as aside:
        for name in COPIED:
            copy(run / name, aside / name)
        copy(weights, aside / WEIGHTS)
        if form == "ctranslate2":
            save_ctranslate2(model, vocabulary, aside)
        files = {path.name: sha256(path) for path in sorted(aside.iterdir())}
        about = {"format": form, "exported": now(), "commit": commit(), "weights": origin, "sha256": files}
        with replacing(aside / ABOUT) as file:
            json.dump(about, file, indent=1)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """A new folder beside `path`, renamed to it when the block ends well and removed when it does not.

    Raises InputError where there is something at `path` that is no export.
    """
    path = path.resolve()
    if path.exists() and not (path / ABOUT).is_file():
        raise InputError(f"{path}: expected nothing or an older export, found something without {ABOUT}")
    aside, old = (path.with_name(f".{path.name}.{os.getpid()}.{end}") for end in ("part", "old"))
    try:
        aside.mkdir(parents=True)
        yield aside
        for file in aside.iterdir():
            sync(file)
        if path.exists():
            path.rename(old)
        aside.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        if old.exists() and not path.exists():  # the new one could not take its place
            old.rename(path)
        shutil.rmtree(aside, ignore_errors=True)


def sync(path: Path) -> None:
    """The file's bytes are on the disk before its folder has its name."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def copy(source: Path, target: Path) -> None:
    """Raises InputError naming a source that cannot be read."""
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}") from None
