"""The commands `export` and `serve`: a trained run elsewhere, and on a page."""

from pathlib import Path

from cyclopts.types import Port, PositiveInt

from transformer.device import use_threads
from transformer.layout import Run
from transformer.translation.export import Format, export_run


def export(*, run: Path, to: Path, format: Format = "safetensors") -> None:
    """Export a trained run as a folder that translates anywhere.

    `translate --run DIR` needs nothing else. With --format marian the folder is also a MarianMTModel of the library
    transformers, which CTranslate2 converts (docs/export.md).

    python -m transformer export --run results/demo/runs/en-de/base/1 --to exported

    Args:
        run: folder of a trained run
        to: new folder, or an older export
        format: safetensors, or marian for Hugging Face
    """
    export_run(Run(run), to, format)
    print(f"{to}: {format}, {sum(file.stat().st_size for file in to.iterdir()) / 1e6:.1f} MB")


def serve(*, run: Path, port: Port = 8017, threads: PositiveInt = 1) -> None:
    """Try a trained run on a page in the browser of this machine: translations as one types, and their attention.

    No other machine can reach it; Ctrl-C ends it. Needs starlette and uvicorn: pip install "CHECKOUT[serve]".

    python -m transformer serve --run results/demo/runs/en-de/base/1

    Args:
        run: folder of a trained run, or an exported one
        port: 0 takes one that is free
        threads: processor threads; one is enough for a sentence of a small model
    """
    from transformer.report.page import live  # whose packages not every installation has

    use_threads(threads)
    with live.listening(port) as listener:
        trial = live.Trial(run)
        server = live.server(trial.page(), trial.answer)
        print(f"http://{live.HOST}:{listener.getsockname()[1]}/ until Ctrl-C", flush=True)
        server.run(sockets=[listener])
