"""The device that computes: machines with GPUs that answer, that do not, and without any."""

import warnings
from pathlib import Path

import pytest
import torch

from transformer.files import InputError
from transformer.runtime import device
from transformer.runtime.device import best_device, driver, given_gpu

SAYS = "The NVIDIA driver on your system is too old (found version 12080). Please update\nyour GPU driver."
VERSIONS = {
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 23 2025\nGCC version: gcc 12\n": "570.86.15",
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n": "580.95.05",
}


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in ("CUDA_VISIBLE_DEVICES", device.VARIABLE, *device.SLURM):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def unusable(monkeypatch):
    """Let PyTorch answer as a CUDA build does on a machine whose driver is too old for it."""

    def is_available() -> bool:
        warnings.warn(SAYS, UserWarning, stacklevel=2)
        return False

    monkeypatch.setattr(torch.cuda, "is_available", is_available)
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")


def test_a_gpu_that_answers_is_taken(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert best_device() == torch.device("cuda")
    monkeypatch.setenv(device.VARIABLE, "cpu")
    assert best_device() == torch.device("cpu")


@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", *device.SLURM])
@pytest.mark.usefixtures("unusable")
def test_a_driver_that_is_too_old_is_named_with_the_wheel(monkeypatch, name):
    monkeypatch.setenv(name, "0,1")
    monkeypatch.setattr(device, "driver", lambda: "570.86.15")
    with pytest.raises(InputError) as refusal:
        best_device()
    line = str(refusal.value)
    assert line.startswith(f"expected to use a GPU ({name}=0,1), found: The NVIDIA driver on your system is too old")
    assert f"PyTorch {torch.__version__} for CUDA 13.0, driver 570.86.15" in line
    assert "\n" not in line
    assert "TRANSFORMER_DEVICE=cpu" in line


def test_a_wheel_for_processors_on_a_machine_with_a_gpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-8f6a")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: False)
    with pytest.raises(InputError, match=r"is built for processors alone; install requirements\.lock"):
        best_device()


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles"])
@pytest.mark.usefixtures("unusable")
def test_no_visible_gpu_means_the_processor(monkeypatch, visible):
    """Also where a job has GPUs: who hides them wants the processor."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setenv("SLURM_JOB_GPUS", "0")
    assert best_device() == torch.device("cpu")


def test_a_machines_own_gpus(tmp_path: Path):
    """A driver's other devices are none."""
    for name in ("nvidiactl", "nvidia-uvm", "nvidia-modeset"):
        (tmp_path / name).touch()
    assert given_gpu(tmp_path) is None
    (tmp_path / "nvidia0").touch()
    assert given_gpu(tmp_path) == str(tmp_path / "nvidia0")


def test_another_device_is_refused(monkeypatch):
    monkeypatch.setenv(device.VARIABLE, "gpu")
    with pytest.raises(InputError, match=r"^TRANSFORMER_DEVICE: expected cpu or nothing, found 'gpu'$"):
        best_device()


@pytest.mark.parametrize(("text", "expected"), VERSIONS.items(), ids=VERSIONS.values())
def test_the_drivers_version(tmp_path: Path, text, expected):
    (tmp_path / "version").write_text(text)
    assert driver(tmp_path / "version") == expected
    assert driver(tmp_path / "none") == "none"
