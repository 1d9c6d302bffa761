"""Weights in 8 bits, as a record keeps them: a quarter of the size, for a loss that its model card states."""

import torch
from torch import Tensor

LEVELS = 127  # a row's numbers are whole multiples, up to this one, of its step
STEP = ".step"  # ends the name of the steps of a matrix' rows
SMALLEST = torch.finfo(torch.float32).tiny  # the step of a row of zeros


def rounded(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return each matrix [m, n] in 8 bits, with its rows' steps [m, 1] beside it; vectors as they are."""
    result = {}
    for name, tensor in tensors.items():
        if tensor.dim() == 2:
            step = (tensor.abs().amax(dim=1, keepdim=True) / LEVELS).clamp(min=SMALLEST)
            result |= {name: (tensor / step).round().to(torch.int8), name + STEP: step}
        else:
            result[name] = tensor
    return result


def restored(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return what `rounded` was given, within half a step, in 32 bits; weights that are not rounded as they are."""
    fits = {name for name, tensor in tensors.items() if is_rounded(tensor, tensors.get(name + STEP))}
    whole = {name: tensor for name, tensor in tensors.items() if name.removesuffix(STEP) not in fits}
    return whole | {name: tensors[name].float() * tensors[name + STEP] for name in fits}


def is_rounded(tensor: Tensor, step: Tensor | None) -> bool:
    """Return whether `rounded` may have made the two of one matrix."""
    rows = step is not None and tensor.dim() == 2 and (step.dtype, step.shape) == (torch.float32, (len(tensor), 1))
    return rows and tensor.dtype == torch.int8
