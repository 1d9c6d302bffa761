"""Try a trained run on a page in the browser of this machine: translations as one types, and who attends to whom.

    python -m transformer serve --run results/demo/runs/en-de/base/1
    python -m transformer serve --run exported --port 0

Prints the page's address; Ctrl-C ends it. No other machine can reach it. The page shows the translation of a sentence,
the best that beam search found with their scores, and the weights of every layer and head for that very sentence. RUN
is what `translate` takes: the folder of a run, or an exported one.
"""

import argparse
from pathlib import Path

import torch

from transformer.commandline import positive, stage_parser
from transformer.report.page.live import open_trial
from transformer.report.page.server import Server

PORT = 8017
PORTS = 2**16
THREADS = 1  # one sentence of a small model is too little to share, and others use the machine


def main(argv: list[str] | None = None) -> None:
    """Serve the page until a signal ends it."""
    parser = stage_parser("serve", __doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder of a trained run, or an exported one")
    parser.add_argument(
        "--port", type=port, default=PORT, metavar="N", help=f"{PORT} if not given; 0 takes one that is free"
    )
    parser.add_argument("--threads", type=positive, default=THREADS, help=f"processor threads; {THREADS} if not given")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    with Server(args.port) as server:
        trial = open_trial(args.run)
        page = trial.page()
        print(f"{server.address} until Ctrl-C", flush=True)
        server.work(page, trial.answer)


def port(text: str) -> int:
    """Return an argument that is the number of a port."""
    if not (text.isdecimal() and int(text) < PORTS):
        raise argparse.ArgumentTypeError(f"expected a number from 0 to {PORTS - 1}, found {text}")
    return int(text)
