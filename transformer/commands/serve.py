"""The commands `export` and `serve`: copy a trained run for use elsewhere; try it on a web page."""

import shutil
from pathlib import Path
from typing import Literal

from cyclopts.types import Port, PositiveInt
from msgspec.structs import asdict

from transformer.config.experiment import Decoding, load, verified_run
from transformer.data.corpus import Subwords
from transformer.device import use_threads
from transformer.layout import Run
from transformer.model.weights import load_model
from transformer.report import environment
from transformer.storage.checksums import read_trained, sums_of
from transformer.storage.files import InputError, replacing_folder, sha256
from transformer.storage.provenance import commit, now
from transformer.storage.records import (
    Exported,
    read_json,
    read_translated,
    read_weights,
    variants,
    write_json,
)
from transformer.translation.marian import has_own_tables, save_marian

MANIFEST = Run("").exported.name  # this file marks a folder as an export


def export(*, run: Path, to: Path, format: Literal["safetensors", "marian"] = "safetensors") -> None:
    """Export a trained run as a self-contained folder.

    `translate --run DIR` needs only this folder. With --format marian, the folder is also a MarianMTModel of Hugging
    Face's library transformers, with a model card. CTranslate2 can convert it (docs/export.md).

    python -m transformer export --run results/demo/runs/en-de/base/1 --to exported

    Args:
        run: folder of a trained run
        to: new folder, or an older export to replace
        format: safetensors, or marian for Hugging Face
    """
    trained = Run(run)
    experiment = verified_run(trained, trained.vocabulary, trained.average)
    model = load_model(trained.average, experiment.model)
    decoding, record = load(trained.decoding, Decoding), read_trained(trained.record)
    vocabulary = Subwords(trained.vocabulary).fitting(experiment.model.embedding_rows)
    weights = sha256(trained.average)
    if to.exists():
        _require_export(to)
    with replacing_folder(to) as folder:
        for path in (trained.experiment, trained.decoding, trained.vocabulary, trained.record, trained.average):
            shutil.copyfile(path, folder / path.name)
        if format == "marian":
            from transformer.data.tokenization import uses_moses  # loads sacremoses

            save_marian(model, vocabulary, experiment, decoding, folder)
            paths = [trained.scores("test", suffix) for suffix in ("", ".int8")]
            scored = [read_translated(path) for path in paths if path.exists()]
            of_these = [each["scores"] for each in scored if each["run"].get("weights_sha256") == weights]
            scores = of_these[0] if of_these else {}
            template = environment().get_template("card.md")
            card = template.render(
                run=asdict(experiment) | record,
                preprocessing=experiment.preprocessing,
                moses=[uses_moses(code, experiment.preprocessing) for code in (experiment.source, experiment.target)],
                extra_length=decoding.extra_length,
                own_tables=has_own_tables(experiment.model),
                scores=variants(scores),
                paper=scores.get("paper"),
            )
            (folder / "README.md").write_text(f"{card}\n", encoding="utf-8", newline="\n")
        files = sums_of(sorted(folder.iterdir()))
        about = {"format": format, "exported": now(), "commit": commit(), "weights": read_weights(trained.average)[1]}
        write_json(folder / MANIFEST, about | {"sha256": files}, indent=1)
    print(f"{to}: {format}, {sum(file.stat().st_size for file in to.iterdir()) / 1e6:.1f} MB")


def _require_export(path: Path) -> None:
    """Raise InputError if a file in the folder is not from an export or has changed since."""
    if not (path / MANIFEST).is_file():
        raise InputError(f"{path}: expected a new folder or an older export, found no {MANIFEST}; change --to")
    sums = read_json(path / MANIFEST, Exported)["sha256"]
    for file in sorted(path.iterdir()):
        same = file.is_file() and not file.is_symlink() and sha256(file) == sums.get(file.name)
        if not same and file.name != MANIFEST:
            raise InputError(f"{file}: refusing to delete a file without its SHA-256 in {MANIFEST}; move it elsewhere")


def serve(*, run: Path, host: str = "127.0.0.1", port: Port = 8017, threads: PositiveInt = 1) -> None:
    """Serve a local web page that translates while you type and shows the attention. Ctrl-C stops the server.

    By default, only this machine can open the page. Requires starlette and uvicorn: pip install "CHECKOUT[serve]".

    python -m transformer serve --run results/demo/runs/en-de/base/1

    Args:
        run: folder of a trained run, or of an export
        host: address to listen on; with 0.0.0.0, every machine that can reach this machine can use the server
        port: port number; 0 chooses a free port
        threads: number of CPU threads; one is enough for a small model
    """
    from transformer.report import live  # a late import, because its packages are optional

    use_threads(threads)
    with live.listening(port, host) as listener:
        trial = live.Trial(run)
        server = live.server(trial.page(), trial.about(), trial.answer, host)
        print(f"http://{host}:{listener.getsockname()[1]}/ until Ctrl-C", flush=True)
        server.run(sockets=[listener])
