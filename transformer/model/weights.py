"""Weights and resume states on disk (safetensors), averages of weights (§6.1) and int8 weights.

A file is complete or absent, and a reader executes no code. The safetensors header has one key: our header and the
checksum of the tensors, as JSON.
"""

import hashlib
import json
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor

from transformer.config.experiment import Model
from transformer.model.architectures import build
from transformer.model.seq2seq import Seq2Seq
from transformer.storage.files import InputError, replacing
from transformer.storage.records import ABOUT, Unusable, WeightsHeader, read_weights

_INT8_LEVELS = 127  # int8 weights of a row are its step times integers up to ±127
STEP = ".step"  # suffix of the name of a matrix's steps, one per row
_SMALLEST = torch.finfo(torch.float32).tiny  # the step of a row of zeros


def save_tensors(path: str | Path, tensors: dict[str, Tensor], header: dict) -> None:
    """Write tensors and their header."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # One key, because safetensors writes several keys in random order, and equal checkpoints must be equal files.
    data = safetensors.torch.save(tensors, {ABOUT: json.dumps([header, _checksum(tensors)])})
    with replacing(path, "wb") as file:
        file.write(data)


def _checksum(tensors: dict[str, Tensor]) -> str:
    """Return the SHA-256 of the tensors' bytes in order of names. It detects, for example, a disk that reads zeros."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def load_tensors(path: str | Path) -> tuple[dict[str, Tensor], WeightsHeader]:
    """Return tensors and header. Raises Unusable on a damaged or foreign file, InputError if it cannot be opened."""
    tensors, header, expected = read_weights(path, "pt")
    if _checksum(tensors) != expected:
        raise Unusable(f"{path}: damaged: the checksum of its tensors differs from the checksum in its header")
    return tensors, header


def load_model(path: str | Path, config: Model) -> Seq2Seq:
    """Return a model in evaluation mode and float32. Weights may be int8. Raises InputError if they do not fit."""
    tensors, _ = load_tensors(path)
    for name in [name for name in tensors if name.endswith(STEP)]:
        matrix = name.removesuffix(STEP)
        tensors[matrix] = tensors[matrix].float() * tensors.pop(name)
    model = build(config)
    require(path, model.state_dict(), tensors)
    model.load_state_dict(tensors)
    return model.eval()


def require(path: str | Path, model: dict[str, Tensor], tensors: dict[str, Tensor]) -> None:
    """Raise Unusable if a file's tensors differ from the model's in names, shapes or types, or are not finite."""
    for name in sorted(model.keys() | tensors.keys()):
        shapes = [tuple(side[name].shape) if name in side else None for side in (model, tensors)]
        if shapes[0] != shapes[1]:
            raise Unusable(f"{path}: {name}: expected shape {shapes[0]}, found {shapes[1]}")
        if model[name].dtype != tensors[name].dtype:
            raise Unusable(f"{path}: {name}: expected {model[name].dtype}, found {tensors[name].dtype}")
        if not tensors[name].isfinite().all():
            raise Unusable(f"{path}: {name}: expected finite numbers, found infinity or NaN")


def average(paths: list[Path]) -> tuple[dict[str, Tensor], WeightsHeader]:
    """Return the mean of each parameter over checkpoints of one run, computed in float64 (§6.1), and a header."""
    total, first = {}, {}
    digests, steps = set(), []
    for path in paths:
        tensors, header = load_tensors(path)
        digests.add(header["digest"])
        steps.append(header["step"])
        if len(digests) != 1 or len(set(steps)) != len(steps):
            raise InputError(f"{path.parent}: expected different steps of one run, found steps {steps} of {digests}")
        first = first or tensors
        require(path, first, tensors)
        for name, tensor in tensors.items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    mean = {name: (tensor / len(paths)).float() for name, tensor in total.items()}
    return mean, {"digest": digests.pop(), "steps": steps}


def to_int8(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return each matrix [m, n] as int8 with its rows' steps [m, 1], and vectors unchanged. Records use this format."""
    result = dict(tensors)
    for name, tensor in tensors.items():
        if tensor.dim() == 2:
            step = (tensor.abs().amax(dim=1, keepdim=True) / _INT8_LEVELS).clamp(min=_SMALLEST)
            result |= {name: (tensor / step).round().to(torch.int8), name + STEP: step}
    return result
