"""Inductor's CUDA code without a GPU: written for an H200, and each Triton kernel compiled by ptxas.

To be imported after support/pretend.py, where `triton` can be imported. Nothing of it runs.
"""

import importlib.util
import re
import sys
import types
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import torch
import torch._dynamo.device_interface
import torch._functorch.config
import torch._inductor.codecache
import torch._inductor.compile_fx
import torch._inductor.config
import torch._inductor.fx_passes.fuse_attention
import torch._inductor.fx_passes.misc_patterns
import torch._inductor.fx_passes.pad_mm
import torch.utils._triton
import triton
from torch._inductor.runtime import triton_helpers
from triton.backends.compiler import GPUTarget

H200 = SimpleNamespace(
    name="NVIDIA H200", type="cuda", index=0, cc=90, major=9, minor=0, multi_processor_count=132, warp_size=32,
    total_memory=150 * 10**9, L2_cache_size=60 * 2**20, regs_per_multiprocessor=2**16, gcnArchName="",
    max_threads_per_multi_processor=2048, shared_memory_per_block=48 * 2**10, shared_memory_per_block_optin=227 * 2**10,
    is_integrated=False, clock_rate=1_980_000, memory_clock_rate=3_200_000, memory_bus_width=6144,
)  # fmt: skip
OPTIONS = {
    "compile_threads": 1,
    "force_disable_caches": True,
    "joint_graph_constant_folding": False,  # it would compute on the device
}
PATTERNS = (  # passes that try their patterns on the device
    (torch._inductor.fx_passes.fuse_attention, "_sfdp_init"),
    (torch._inductor.fx_passes.pad_mm, "_pad_mm_init"),
    (torch._inductor.fx_passes.misc_patterns, "_misc_patterns_init"),
)


class Driver:
    """What Triton asks a driver for."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_device_capability(self, *_) -> tuple[int, int]:
        return (9, 0)

    def get_current_device(self) -> int:
        return 0

    get_current_stream = get_device_capability


class WrittenError(Exception):
    """Both graphs are written, and the first is to be run."""


def end(_: list) -> None:
    raise WrittenError


@contextmanager
def writing(folder: Path) -> Iterator[list[Path]]:
    """Let Inductor write its code into `folder`, and go no further: yield the files, graph by graph."""
    files: list[Path] = []
    load = torch._inductor.codecache.PyCodeCache.load_by_key_path

    def keep(key: str, path: str, *rest, **more):
        code = Path(path).read_text("utf-8")
        if "def call(" not in code:
            return load(key, path, *rest, **more)
        files.append(folder / f"{len(files)}.py")
        files[-1].write_text(code, "utf-8")
        return SimpleNamespace(call=end, __file__=path)

    interface = torch._dynamo.device_interface.CudaInterface
    answers = {
        (torch.cuda, "get_device_properties"): H200,
        (torch.utils._triton, "triton_hash_with_backend"): "none",
        (interface, "raise_if_triton_unavailable"): None,
        (interface, "is_triton_capable"): True,
        (interface, "is_available"): True,
        (interface, "get_compute_capability"): 90,
        (interface, "get_device_properties"): H200,
        (interface.Worker, "get_device_properties"): H200,
    } | dict.fromkeys(PATTERNS)
    answers |= {(module, "has_triton"): True for module in modules_with("has_triton")}
    triton.runtime.driver.set_active(Driver())
    with ExitStack() as stack:
        for place, answer in answers.items():
            stack.enter_context(patch.object(*place, lambda *_, answer=answer, **__: answer))
        stack.enter_context(patch.object(torch._inductor.codecache.PyCodeCache, "load_by_key_path", keep))
        stack.enter_context(torch._inductor.config.patch(OPTIONS))
        stack.enter_context(
            torch._functorch.config.patch(force_non_lazy_backward_lowering=True, enable_autograd_cache=False)
        )
        stack.enter_context(suppress(WrittenError))
        yield files


def modules_with(name: str) -> list[types.ModuleType]:
    """Return PyTorch's modules that have a function of this name, their own or imported."""
    return [x for x in list(sys.modules.values()) if x.__name__.startswith("torch.") and name in vars(x)]


def compile_kernels(files: list[Path], folder: Path) -> int:
    """Compile the Triton kernels in Inductor's code by ptxas, equal ones once; return how many there are."""
    triton.runtime.driver.set_active(Driver())
    done = set()
    for path in files:
        kernels = re.findall(r"async_compile\.triton\('(\w+)', '''(.*?)'''", path.read_text("utf-8"), re.DOTALL)
        for name, source in kernels:
            if (body := source.replace(name, "kernel")) in done:
                continue
            done.add(body)
            place = folder / f"{name}.py"
            place.write_text(source, "utf-8")
            spec = importlib.util.spec_from_file_location(name, place)
            module = importlib.util.module_from_spec(spec)
            with patch.object(triton_helpers, "set_driver_to_gpu", lambda: None):
                spec.loader.exec_module(module)
                getattr(module, name).precompile(warm_cache_only=True)
    return len(done)
