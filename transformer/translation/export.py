"""A trained run exported as a folder that works anywhere: what translating needs, its origin, and a model card."""

import shutil
from pathlib import Path
from typing import Literal

from msgspec.structs import asdict

from transformer.checksums import read_trained, sums_of, verified_run
from transformer.config.experiment import Decoding, load
from transformer.data.corpus import Subwords
from transformer.files import InputError, environment, replacing_folder, sha256
from transformer.layout import Run
from transformer.model.weights import load_model
from transformer.provenance import commit, now
from transformer.records import Exported, averaged_steps, read_json, read_translated, read_weights, variants, write_json
from transformer.translation.marian import has_own_tables, save_marian

Format = Literal["safetensors", "marian"]
MANIFEST = Run("").exported.name  # marks a folder as an export


def export_run(run: Run, to: Path, form: Format) -> None:
    """Export the averaged model to the folder `to`, which may hold an older export as it was written."""
    experiment = verified_run(run, run.vocabulary, run.average)
    model = load_model(run.average, experiment.model)
    decoding, record = load(run.decoding, Decoding), read_trained(run.record)
    vocabulary = Subwords(run.vocabulary).fitting(experiment.model.embedding_rows)
    steps = averaged_steps(run.average, record["digest"])
    if to.exists():
        _require_export(to)
    with replacing_folder(to) as folder:
        for path in (run.experiment, run.decoding, run.vocabulary, run.record, run.average):
            shutil.copyfile(path, folder / path.name)
        if form == "marian":
            save_marian(model, vocabulary, experiment, decoding, folder)
            scores = {}
            if run.scores("test").exists():
                score = read_translated(run.scores("test"))
                if (score["run"]["digest"], score["run"]["averaged_steps"]) == (record["digest"], steps):
                    scores = score["scores"]  # of these weights
            template = environment(Path(__file__).parent / "templates", autoescape=False).get_template("card.md")
            card = template.render(
                run=asdict(experiment) | record,
                preparation=experiment.preparation,
                extra_length=decoding.extra_length,
                own_tables=has_own_tables(experiment.model),
                scores=variants(scores),
                paper=scores.get("paper"),
            )
            (folder / "README.md").write_text(card, encoding="utf-8", newline="\n")
        files = sums_of(sorted(folder.iterdir()))
        about = {"format": form, "exported": now(), "commit": commit(), "weights": read_weights(run.average)[1]}
        write_json(folder / MANIFEST, about | {"sha256": files}, indent=1)


def _require_export(path: Path) -> None:
    """Raise InputError if there is a file that no export has written, or has written differently."""
    if not (path / MANIFEST).is_file():
        raise InputError(f"{path}: expected nothing or an older export, found something without {MANIFEST}")
    sums = read_json(path / MANIFEST, Exported)["sha256"]
    for file in sorted(path.iterdir()):
        same = file.is_file() and not file.is_symlink() and sha256(file) == sums.get(file.name)
        if not same and file.name != MANIFEST:
            raise InputError(f"{file}: expected a file with its SHA-256 in {MANIFEST}, found another; it would be lost")
