"""§5.2 Resume states: all that a training needs to go on as if nothing had happened.

The weights, Adam's moments, and how far the run has come. No random state: what is random is derived from seed and step
(step.py), and the batches from seed and epoch (batches.py).
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from transformer.files import InputError
from transformer.model import weights as checkpoints
from transformer.model.transformer import Transformer
from transformer.records import Amount, Count, typed
from transformer.runtime.signals import say
from transformer.runtime.writer import Writer

KEPT = 2  # the newest, and one before it in case a disk damages the newest


@dataclass
class Progress:
    """A run's progress."""

    digest: str
    step: Count = 0
    epoch: Count = 0
    position: Count = 0  # batches of this epoch already trained on
    source_tokens: Count = 0
    target_tokens: Count = 0
    flops: Amount = 0.0
    seconds: Amount = 0.0
    dev_perplexity: float | None = None
    dev_bleu: float | None = None
    starts: list[dict] = field(default_factory=list)  # when, where and with which code it was started, and resumed


class States:
    """The states of one run, `folder`/{step}.safetensors."""

    def __init__(self, folder: Path, model: Transformer, adam: torch.optim.Adam):
        self.folder = folder
        # The tensors that the model and Adam work on, not copies: all that a training changes.
        self.tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
        for name, parameter in model.named_parameters():
            self.tensors |= {f"adam.{key}.{name}": tensor for key, tensor in adam.state[parameter].items()}

    def paths(self) -> list[Path]:
        """Return the files of the states, newest first."""
        return sorted(self.folder.glob("*.safetensors"), reverse=True)

    def save(self, progress: Progress, writer: Writer) -> None:
        """Save a state, then drop the oldest. Raises FloatingPointError, and does neither, on a bad weight."""
        if not finite(self.tensors.values()):
            raise FloatingPointError("weights are not finite; not saved")
        writer.wait()
        writer.do(self.write, checkpoints.snapshot(self.tensors), asdict(progress))

    def write(self, tensors: dict[str, Tensor], header: dict) -> None:
        checkpoints.save(self.folder / f"{header['step']:08}.safetensors", tensors, header)
        for old in self.paths()[KEPT:]:
            old.unlink()

    def restore(self, digest: str) -> Progress:
        """Put back the newest whole state of the run `digest`; return how far it was, step 0 if there is none.

        Other states are refused with a line that names them, and set aside: they must not count among the kept ones.
        """
        for path in self.paths():
            try:
                tensors, progress = self.read(path, digest)
            except checkpoints.Unusable as error:
                say(f"refused a resume state: {error}")
                path.rename(path.with_suffix(".refused"))
                continue
            for name, tensor in self.tensors.items():
                tensor.copy_(tensors[name])
            say(f"resumed from step {progress.step} ({path})")
            return progress
        return Progress(digest)

    def read(self, path: Path, digest: str) -> tuple[dict[str, Tensor], Progress]:
        """Return the tensors and the progress in a file. Raises Unusable where it is damaged or not this run's."""
        tensors, header = checkpoints.load(path)
        if header.keys() != asdict(Progress(digest)).keys():
            raise checkpoints.Unusable(f"{path}: not a state, or one of another version of this program")
        try:
            typed(header, Progress, f"{path}, header")
        except InputError as error:
            raise checkpoints.Unusable(str(error)) from None
        if header["digest"] != digest:
            raise checkpoints.Unusable(f"{path}: state of another experiment: {header['digest']}")
        checkpoints.require(path, self.tensors, tensors)
        return tensors, Progress(**header)


def finite(tensors: Iterable[Tensor]) -> bool:
    """Return whether all numbers are finite. Each device is asked once, as a GPU that is waited for stands still."""
    answers = defaultdict(list)
    for tensor in tensors:
        answers[tensor.device].append(tensor.isfinite().all())
    return all(bool(torch.stack(each).all()) for each in answers.values())
