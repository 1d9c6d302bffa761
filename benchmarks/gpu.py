"""Checks for the first ten minutes on a new GPU: equality with the CPU, resume after a kill, and speed.

Without a GPU, the checks run with small models on the CPU, and measure no speed.
"""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from tempfile import TemporaryDirectory

import cyclopts
import numpy as np
import torch
from cyclopts.types import PositiveInt
from msgspec import structs
from torch import Tensor

from benchmarks import train
from benchmarks.results import FOLDER, LeftOut, timed
from benchmarks.workload import Workload, of_paper, of_run, random_side, random_text
from transformer.config.experiment import Decoding, load
from transformer.device import best_device
from transformer.layout import Data, Run
from transformer.model.transformer import Transformer
from transformer.model.weights import load_model
from transformer.process import StopSignals
from transformer.storage import provenance
from transformer.storage.files import replacing
from transformer.training.batches import ParallelText, open_text
from transformer.training.distributed import joined
from transformer.training.loss import batch_losses, compiled
from transformer.translation.translator import search

CPU = torch.device("cpu")
RECORD = Path("results/record/multi30k/runs/en-de/base")
DATA = Data(Path("results/multi30k/data/en-de"))
# Maximum relative distance of a gradient from the float32 gradient on the CPU. bfloat16 has 8 significant bits.
NEAR = {torch.float32: 1e-3, torch.bfloat16: 0.1}
WORDS = {"failed": "FAILED", "leftout": "left out"}
LENGTHS = {"ragged": [1, 2, 128, 129, 64, 65, 63, 17, 250, 5], "one token": [1], "short": [3] * 40}


class Failed(Exception):
    """A failed check."""


def kernels() -> dict:
    """Compare a step's loss and gradient, in each form of a training, with float32 on the CPU."""
    device = best_device()
    width = {} if device.type == "cuda" else {"d_model": 64, "d_ff": 64, "d_k": 8, "d_v": 8}
    config = structs.replace(of_paper("base", 1).experiment.model, N=2, P_drop=0.0, **width)
    torch.manual_seed(1)
    model, found = Transformer(config), {}
    for name, lengths in LENGTHS.items():
        random = np.random.default_rng(len(lengths))
        text = ParallelText(*(random_side(random, side, config.output_rows) for side in (lengths, lengths[::-1])))
        expected = step_of(model.to(CPU), text, batch_losses, torch.float32)
        forms = {"float32": (batch_losses, torch.float32), "bfloat16": (batch_losses, torch.bfloat16)}
        if model.fits_blocks(device, torch.bfloat16):
            forms["compiled"] = (compiled(), torch.bfloat16, (1024, 1024))
        for form, arguments in forms.items():
            loss, gradient = step_of(model.to(device), text, *arguments)
            apart = float((gradient - expected[1]).norm() / expected[1].norm())
            errors = found[f"{name}, {form}"] = {"loss": abs(loss / expected[0] - 1), "gradient": apart}
            if not (apart <= NEAR[arguments[1]] and errors["loss"] <= NEAR[arguments[1]] / 10):
                raise Failed(f"{name}, {form}: too far from float32 on the CPU; relative errors {errors}")
    return found


def step_of(model: Transformer, text: ParallelText, compute, dtype: torch.dtype, capacity=None) -> tuple[float, Tensor]:
    """Return the loss of all sentences, and its gradient as one tensor on the CPU."""
    device = next(model.parameters()).device
    loss, _ = compute(model, text.batch(np.arange(len(text.source)), device, capacity), 0.1, dtype)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    return loss.item(), torch.cat([gradient.flatten().float().cpu() for gradient in gradients])


def speed(model: str) -> dict:
    """Time the paper's base or big model against a plain loop around torch.nn.Transformer."""
    if best_device() == CPU:
        raise LeftOut("a step of the paper's models takes minutes on a CPU")
    output = file_of(f"train-paper-{model}", torch.cuda.get_device_name())
    train.main(model=model, output=output)
    return {"written": str(output)}


def small(steps: int) -> Workload:
    """Set up a training that saves every two steps."""
    work = of_paper("base", 2000)
    changes = {
        "model": {"N": 2, "d_model": 64, "d_ff": 64, "h": 4, "d_k": 16, "d_v": 16}
        | dict.fromkeys(("embedding_rows", "output_rows"), 999),
        "training": {"steps": steps, "source_tokens": 2000, "target_tokens": 2000, "checkpoint_every": 1},
        "logging": {"evaluate_every": steps, "save_every": 2, "bleu_sentences": 0},
    }
    parts = {name: structs.replace(getattr(work.experiment, name), **part) for name, part in changes.items()}
    text, dev = (random_text(seed, pairs, 999) for seed, pairs in ((1, 2000), (2, 50)))
    return Workload(structs.replace(work.experiment, **parts), text, dev, None, work.label)


def until_killed(folder: Path) -> None:
    small(10**6).training(folder).train(StopSignals())


def resume() -> dict:
    """Kill a training after it has saved a state. The resumed training must end like an undisturbed training."""
    with TemporaryDirectory() as place:
        killed, whole = Path(place, "killed"), Path(place, "whole")
        process = get_context("spawn").Process(target=until_killed, args=(killed,))
        process.start()
        while process.is_alive() and not list(Run(killed).state.glob("*.safetensors")):
            time.sleep(0.01)
        process.kill()
        process.join()
        first = small(10**6).training(killed).progress.step
        steps = first + 10
        runs = [small(steps).training(folder) for folder in (killed, whole)]
        perplexities = [run.train(StopSignals()).dev_perplexity for run in runs]
    if first == 0 or abs(perplexities[0] / perplexities[1] - 1) > 0.01:
        raise Failed(f"killed after step {first}: dev perplexity {perplexities[0]}, undisturbed {perplexities[1]}")
    return {"killed_after": first, "dev_perplexity": perplexities}


def data() -> Data:
    if not DATA.manifest.exists():
        raise LeftOut(f"no {DATA.folder}; build it with snakemake --config scale=multi30k -- {DATA.manifest}")
    return DATA


def curve() -> dict:
    """Train Multi30k's base for 300 steps. The loss of the last 50 steps must match the range of the record's seeds."""
    work = of_run(RECORD / "1", data().folder)
    losses: list[float] = []
    with TemporaryDirectory() as place:
        run = work.training(Path(place))
        for indices in itertools.islice(run.batches(), 300):
            update = run.update(indices, StopSignals())
            losses.append(update.smoothed / update.lengths[1].sum())
    logs = [(path / "metrics.jsonl").read_text(encoding="utf-8").splitlines() for path in sorted(RECORD.iterdir())]
    recorded = [next(one["loss"] for one in map(json.loads, log) if one.get("step") == 300) for log in logs]
    ours = float(np.mean(losses[250:]))
    if not min(recorded) - 0.1 <= ours <= max(recorded) + 0.1:
        raise Failed(f"loss {ours:.3f} at step 250 to 300, expected {min(recorded):.3f} to {max(recorded):.3f} ± 0.1")
    return {"loss": ours, "recorded": recorded}


def decoding() -> dict:
    """Translate Multi30k's dev set with the record's model. Compare 50 translations with the CPU's."""
    run, dev = Run(RECORD / "1"), open_text(data(), "dev").source
    config, options = load(run.experiment).model, load(run.decoding, Decoding)
    sentences = [dev[index].tolist() for index in range(len(dev))]
    model = load_model(run.average, config)
    expected = search(model, config.output_rows, sentences[:50], options)
    model.to(best_device())
    search(model, config.output_rows, sentences[:50], options)  # the first call loads kernels
    seconds, found = timed(lambda: search(model, config.output_rows, sentences, options))
    same = sum(ids == other for ((ids, _),), ((other, _),) in zip(found, expected, strict=False))
    if same < 0.9 * len(expected):
        raise Failed(f"only {same} of {len(expected)} translations equal the CPU's")
    return {"sentences_per_second": len(sentences) / seconds, "same_as_the_processors": [same, len(expected)]}


def together() -> dict:
    """Compare a training by two processes (two GPUs with NCCL, or CPU with gloo) with a training by one process."""
    if 0 < torch.cuda.device_count() < 2:
        raise LeftOut("this machine has only one GPU")
    with TemporaryDirectory() as place:
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m"]
        subprocess.run([*launch, "benchmarks.gpu", "--rank-in", place], check=True)
        both = json.loads(Path(place, "both").read_text(encoding="utf-8"))
        alone = small(10).training(Path(place, "alone")).train(StopSignals()).dev_perplexity
    if abs(both / alone - 1) > 0.01:
        raise Failed(f"dev perplexity {both} with two processes, {alone} with one")
    return {"dev_perplexity": [both, alone]}


def one_of_two(place: Path) -> None:
    with joined() as world:
        perplexity = small(10).training(place / "two", world=world).train(StopSignals()).dev_perplexity
        if world.rank == 0:
            (place / "both").write_text(json.dumps(perplexity), encoding="utf-8")


def file_of(kind: str, hardware: str) -> Path:
    return FOLDER / f"{kind}-{re.sub(r'[^A-Za-z0-9]+', '-', hardware)}.json"


CHECKS = {check.__name__: check for check in (kernels, resume, together, curve, decoding)}
CHECKS |= {model: partial(speed, model) for model in ("base", "big")}


def main(*checks: str, limit: PositiveInt = 300, output: Path | None = None, rank_in: Path | None = None) -> None:
    """Check a GPU and measure its speed. The exit code is 1 if a check fails.

    Args:
        checks: names of the checks to run; default: all
        limit: maximum seconds per check
        output: JSON file, rewritten after each check; default: results/gpu-DEVICE.json
        rank_in: internal: shared folder of the two processes of the check `together`
    """
    if rank_in:
        one_of_two(rank_in)
    else:
        sys.exit(run_all(checks or tuple(CHECKS), limit, output))


def run_all(checks: tuple[str, ...], limit: int, output: Path | None) -> int:
    """Run each check in its own process. Print a line per check and a verdict. Return the exit code."""
    hardware = provenance.hardware(best_device())
    about = {"measured": provenance.now(), "commit": provenance.commit(), "hardware": hardware}
    path, found = output or file_of("gpu", hardware), {}
    for name in checks:
        started = time.perf_counter()
        answer = found[name] = run_alone(name, limit)
        answer["seconds"] = round(time.perf_counter() - started, 1)
        with replacing(path) as file:
            json.dump(about | {"versions": provenance.versions(), "checks": found}, file, indent=1)
        verdict = next((f"{word}: {answer[key]}" for key, word in WORDS.items() if key in answer), "right")
        print(f"{name:9} {answer['seconds']:6.1f} s  {verdict}", flush=True)
    failed, left_out = ([name for name in found if word in found[name]] for word in WORDS)
    verdict = f"{', '.join(failed)} failed" if failed else "all checks that ran are right"
    print(f"{hardware}: {verdict}; left out: {', '.join(left_out) or 'nothing'}; {path}")
    return int(bool(failed))


def run_alone(check: str, limit: int) -> dict:
    """Run a check in its own process for up to `limit` seconds. Return its findings."""
    context = get_context("spawn")
    findings = context.SimpleQueue()
    process = context.Process(target=answer, args=(check, findings))
    process.start()
    process.join(limit)
    ended = process.exitcode
    process.kill()
    with suppress(ProcessLookupError):  # child processes must not slow down the next check
        os.killpg(process.pid, signal.SIGKILL)
    if ended is None:
        return {"failed": f"did not finish within {limit} s"}
    return {"failed": f"exit code {ended}; its message is above"} if ended else findings.get()


def answer(check: str, findings: SimpleQueue) -> None:
    os.setsid()
    try:
        findings.put(CHECKS[check]())
    except (Failed, LeftOut) as reason:
        findings.put({type(reason).__name__.lower(): str(reason)})


if __name__ == "__main__":
    cyclopts.run(main)
