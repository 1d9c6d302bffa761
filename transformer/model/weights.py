"""Weights and resume states on disk: whole or absent, read as data only (safetensors); averaged (§6.1); in 8 bits.

A file's own header has one key, KEY, with our header as JSON and the checksum of the tensors.
"""

import hashlib
import json
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TypedDict

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from transformer.config.experiment import Model
from transformer.files import InputError, replacing
from transformer.model.cost import parameters
from transformer.model.transformer import Transformer
from transformer.records import Checksum, Count, Steps, parse_json

KEY = "about"
LEVELS = 127  # of int8 weights: a row's numbers are multiples, up to this one, of its step
STEP = ".step"  # ends the name of the steps of a matrix' rows
SMALLEST = torch.finfo(torch.float32).tiny  # the step of a row of zeros


class Unusable(InputError):
    """A file that can be read but is not what it should be."""


class Header(TypedDict, total=False):
    """The origin of weights: an average of "steps", or a checkpoint or a resume state of one "step"."""

    digest: Checksum  # of the training
    step: Count
    steps: Steps
    rounded: bool  # int8 weights, not those that were trained


def save(path: str | Path, tensors: dict[str, Tensor], header: dict) -> None:
    """Write tensors and their header."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # One key: with more, equal checkpoints would not be equal files, as safetensors writes them in any order.
    data = safetensors.torch.save(tensors, {KEY: json.dumps([header, checksum(tensors)])})
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


def load(path: str | Path) -> tuple[dict[str, Tensor], Header]:
    """Return the tensors and the header of a file.

    Raises Unusable on a damaged or foreign file, another InputError on one that cannot be opened.
    """
    with opened(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        header, expected = read_about(path, file.metadata())
    if checksum(tensors) != expected:
        raise Unusable(f"{path}: damaged: its tensors do not have the checksum in its header")
    return tensors, header


def read_header(path: str | Path) -> Header:
    """Return the header alone. Raises InputError naming the file."""
    with opened(path) as file:
        return read_about(path, file.metadata())[0]


@contextmanager
def opened(path: str | Path):
    """Open a file of tensors; errors name it."""
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    except SafetensorError as error:
        raise Unusable(f"{path}: truncated, or not a checkpoint of this project ({error})") from None


def read_about(path: str | Path, metadata: dict[str, str] | None) -> tuple[Header, str]:
    """Return the header and the checksum from safetensors' metadata. Raises Unusable naming the file."""
    where = f"{path}: truncated, or not a checkpoint of this project"
    if KEY not in (metadata or {}):
        raise Unusable(f"{where}: no {KEY!r} in its header")
    try:
        return parse_json(metadata[KEY], tuple[Header, str], f"{where}: header")
    except InputError as error:
        raise Unusable(str(error)) from None


def origin(path: str | Path, header: Header) -> tuple[str, list[int]]:
    """Return the training's digest, and the steps of an average or the one step of a checkpoint.

    Raises Unusable, naming the file, if the header lacks them.
    """
    steps = header["steps"] if "steps" in header else [header["step"]] if "step" in header else []
    if "digest" not in header or not steps:
        found = ", ".join(header) or "nothing"
        raise Unusable(f"{path}, header: expected a digest, and a step or steps, found {found}")
    return header["digest"], steps


def load_model(path: str | Path, config: Model) -> Transformer:
    """Return a model in evaluation mode, in float32, with weights that may be int8. Raises InputError on a misfit."""
    tensors = from_int8(load(path)[0])
    # What cannot fit is described without memory: its sizes may be anything. It takes seconds to load what that needs.
    with nullcontext() if resembles(config, tensors) else torch.device("meta"):
        model = Transformer(config)
    require(path, model.state_dict(), tensors)
    model.load_state_dict(tensors)
    return model.eval()


def resembles(config: Model, tensors: dict[str, Tensor]) -> bool:
    """Return whether the model is about as large as a file's tensors: the embedding's size, and no more parameters."""
    embedding, numbers = tensors.get("embedding.weight"), sum(tensor.numel() for tensor in tensors.values())
    same = embedding is not None and embedding.shape == (config.embedding_rows, config.d_model)
    return same and parameters(config) <= numbers


def require(path: str | Path, model: dict[str, Tensor], tensors: dict[str, Tensor]) -> None:
    """Raise Unusable if a file's tensors differ from the model's in names, shapes or types, or are not finite."""
    for name in sorted(model.keys() | tensors.keys()):
        expected, actual = model.get(name), tensors.get(name)
        shapes = [None if tensor is None else tuple(tensor.shape) for tensor in (expected, actual)]
        if shapes[0] != shapes[1]:
            raise Unusable(f"{path}: {name}: expected shape {shapes[0]}, found {shapes[1]}")
        if expected.dtype != actual.dtype:
            raise Unusable(f"{path}: {name}: expected {expected.dtype}, found {actual.dtype}")
        if not actual.isfinite().all():
            raise Unusable(f"{path}: {name}: expected finite numbers, found others")


def average(paths: list[Path]) -> tuple[dict[str, Tensor], Header]:
    """Return the mean of each parameter over checkpoints of one run, summed in float64 (§6.1), and its header.

    Raises InputError on a step that comes twice or on mixed runs.
    """
    total: dict[str, Tensor] = {}
    first: dict[str, Tensor] = {}
    digests, steps = set(), []
    for path in paths:
        tensors, header = load(path)
        digest, own = origin(path, header)
        digests.add(digest)
        steps += own
        if len(digests) != 1 or len(set(steps)) != len(steps):
            raise InputError(f"{path.parent}: expected different steps of one run, found steps {steps} of {digests}")
        first = first or tensors
        require(path, first, tensors)
        for name, tensor in tensors.items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    mean = {name: (tensor / len(paths)).float() for name, tensor in total.items()}
    return mean, {"digest": digests.pop(), "steps": steps}


def to_int8(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return each matrix [m, n] in 8 bits, with its rows' steps [m, 1]; vectors as they are.

    A record keeps these: a quarter of the size, for a loss that its model card states.
    """
    result = {}
    for name, tensor in tensors.items():
        if tensor.dim() == 2:
            step = (tensor.abs().amax(dim=1, keepdim=True) / LEVELS).clamp(min=SMALLEST)
            result |= {name: (tensor / step).round().to(torch.int8), name + STEP: step}
        else:
            result[name] = tensor
    return result


def from_int8(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return weights in 32 bits, int8 ones within half a step; others as they are."""
    fits = {name for name, tensor in tensors.items() if is_int8(tensor, tensors.get(name + STEP))}
    whole = {name: tensor for name, tensor in tensors.items() if name.removesuffix(STEP) not in fits}
    return whole | {name: tensors[name].float() * tensors[name + STEP] for name in fits}


def is_int8(tensor: Tensor, step: Tensor | None) -> bool:
    rows = step is not None and tensor.dim() == 2 and (step.dtype, step.shape) == (torch.float32, (len(tensor), 1))
    return rows and tensor.dtype == torch.int8
