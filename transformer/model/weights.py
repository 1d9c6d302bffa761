"""Weights and resume states on disk: whole or absent, read as data only (safetensors), and averaged (§6.1)."""

import hashlib
import json
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from transformer.common.files import InputError, readable, replacing
from transformer.config.experiment import Model
from transformer.model.transformer import Transformer


class Unusable(InputError):
    """A file that can be read but is not what it should be."""


def save(path: str | Path, tensors: dict[str, Tensor], header: dict) -> None:
    """Write tensors, with `header` as JSON and their checksum in the file's own header."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # One key: with more, equal checkpoints would not be equal files, as safetensors writes them in any order.
    data = safetensors.torch.save(tensors, {"about": json.dumps([header, checksum(tensors)])})
    with replacing(path, "wb") as file:
        file.write(data)


def snapshot(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copy the tensors into the processor's memory, so that they stay as they are now."""
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}


def checksum(tensors: dict[str, Tensor]) -> str:
    """Return the SHA-256 of the tensors' bytes in the order of their names: a disk may silently give back zeros."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def load(path: str | Path) -> tuple[dict[str, Tensor], dict]:
    """Return the tensors and the header that `save` wrote.

    Raises Unusable on a damaged or foreign file, another InputError on one that cannot be opened.
    """
    try:
        with safe_open(readable(path), framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            header, expected = json.loads((file.metadata() or {})["about"])
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise Unusable(f"{path}: truncated, or not a checkpoint of this project ({error})") from None
    if checksum(tensors) != expected:
        raise Unusable(f"{path}: damaged: its tensors do not have the checksum in its header")
    return tensors, header


def load_model(path: str | Path, config: Model) -> Transformer:
    """Return a model in evaluation mode with the weights at `path`. Raises InputError where they do not fit it."""
    tensors, _ = load(path)
    model = Transformer(config)
    require(path, model.state_dict(), tensors)
    model.load_state_dict(tensors)
    return model.eval()


def require(path: str | Path, model: dict[str, Tensor], tensors: dict[str, Tensor]) -> None:
    """Raise Unusable where the `tensors` of a file do not have the names and shapes of the `model`'s."""
    expected, actual = ({name: tuple(tensor.shape) for name, tensor in each.items()} for each in (model, tensors))
    for name in sorted(expected.keys() | actual.keys()):
        if expected.get(name) != actual.get(name):
            raise Unusable(f"{path}: {name}: expected shape {expected.get(name)}, found {actual.get(name)}")


def average(paths: list[Path]) -> tuple[dict[str, Tensor], dict]:
    """Return the mean of each parameter over checkpoints of one run, summed in float64 (§6.1).

    The second value is a header, {"digest", "steps"}. Raises InputError on a step that comes twice or on mixed runs.
    """
    total: dict[str, Tensor] = {}
    digests, steps = set(), []
    for path in paths:
        tensors, header = load(path)
        digests.add(header["digest"])
        steps.append(header["step"])
        if len(digests) != 1 or len(set(steps)) != len(steps):
            raise InputError(f"{path.parent}: expected different steps of one run, found steps {steps} of {digests}")
        for name, tensor in tensors.items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    mean = {name: (tensor / len(paths)).float() for name, tensor in total.items()}
    return mean, {"digest": digests.pop(), "steps": steps}
