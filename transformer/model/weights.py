"""Weights and resume states on disk: whole or absent, read as data only (safetensors), and averaged (§6.1)."""

import hashlib
import json
from contextlib import nullcontext
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from transformer.config.experiment import Model
from transformer.files import InputError, replacing
from transformer.model.cost import parameters
from transformer.model.header import KEY, Header, Unusable, origin, read_about
from transformer.model.rounded import restored
from transformer.model.transformer import Transformer


def save(path: str | Path, tensors: dict[str, Tensor], header: dict) -> None:
    """Write tensors, with `header` as JSON and their checksum in the file's own header."""
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
    """Return the tensors and the header that `save` wrote.

    Raises Unusable on a damaged or foreign file, another InputError on one that cannot be opened.
    """
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            header, expected = read_about(path, file.metadata())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    except SafetensorError as error:
        raise Unusable(f"{path}: truncated, or not a checkpoint of this project ({error})") from None
    if checksum(tensors) != expected:
        raise Unusable(f"{path}: damaged: its tensors do not have the checksum in its header")
    return tensors, header


def load_model(path: str | Path, config: Model) -> Transformer:
    """Return a model in evaluation mode, in float32, with the weights at `path`. Raises InputError if they do not fit.

    Recorded ones are in 8 bits (rounded.py).
    """
    tensors = restored(load(path)[0])
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
    """Raise Unusable where the `tensors` of a file are not like the `model`'s in names, shapes and types, or finite."""
    for name in sorted(model.keys() | tensors.keys()):
        expected, actual = model.get(name), tensors.get(name)
        shapes = [None if tensor is None else tuple(tensor.shape) for tensor in (expected, actual)]
        if shapes[0] != shapes[1]:
            raise Unusable(f"{path}: {name}: expected shape {shapes[0]}, found {shapes[1]}")
        if expected.dtype != actual.dtype:
            raise Unusable(f"{path}: {name}: expected {expected.dtype}, found {actual.dtype}")
        if not actual.isfinite().all():
            raise Unusable(f"{path}: {name}: expected finite numbers, found others")


def average(paths: list[Path]) -> tuple[dict[str, Tensor], dict]:
    """Return the mean of each parameter over checkpoints of one run, summed in float64 (§6.1).

    The second value is a header, {"digest", "steps"}. Raises InputError on a step that comes twice or on mixed runs.
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
