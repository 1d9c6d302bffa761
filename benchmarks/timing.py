"""The time that work takes, and the speed of matrix products to compare it with."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch

from transformer.runtime.device import best_device

PRODUCT = {"cuda": (8192, 8), "cpu": (1536, 1)}  # rows of a square matrix, and how often it is multiplied


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Run `action`; return the seconds until the device has done it, and its value."""
    synchronize()
    started = perf_counter()
    value = action()
    synchronize()
    return perf_counter() - started, value


def synchronize() -> None:
    """Wait for the GPU where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def product_speed(dtype: torch.dtype) -> float:
    """Return the floating-point operations a second in the product of two large square matrices."""
    device = best_device()
    size, times = PRODUCT[device.type]
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    seconds, _ = timed(lambda: [a @ b for _ in range(times)])
    return 2 * size**3 * times / seconds
