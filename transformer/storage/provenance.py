"""The origin of a result: code, libraries, machine, time."""

import ast
import hashlib
import importlib.metadata
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import transformer


def identity() -> str:
    """Return the project's name and version, and the commit if it runs in a checkout."""
    here = commit()
    return f"transformer {transformer.__version__}" + (f", commit {here}" if here != "unknown" else "")


def commit() -> str:
    """Return the commit of this checkout, with `+changes` if files outside results/ differ, else `unknown`."""
    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)  # pip may install into somebody else's checkout
        edited = git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(exclude)../../results")
        changes = "+changes" if edited else ""
        return git("rev-parse", "HEAD") + changes
    except (OSError, subprocess.CalledProcessError):  # git is missing, or does not track this file
        return "unknown"


def short(commit: str) -> str:
    """Shorten a commit to 12 digits, and keep `+changes`."""
    name, plus, changes = commit.partition("+")
    return f"{name:.12}{plus}{changes}"


def model_code() -> str:
    """Return a hash of the code in model/ without comments and docstrings: which network the weights belong to."""
    parts = []
    for path in sorted((Path(__file__).parents[1] / "model").glob("*.py")):
        tree = ast.parse(path.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
                node.body[0] = ast.Pass()
        parts.append(ast.unparse(tree))
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def git(*arguments: str) -> str:
    """Return git's output for the folder of this package."""
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def versions() -> dict[str, str]:
    """Return the versions of this project, Python and each library."""
    ours = {"transformer": transformer.__version__, "python": platform.python_version()}
    libraries = ("torch", "numpy", "sentencepiece", "sacremoses", "sacrebleu")
    return ours | {name: importlib.metadata.version(name) for name in libraries}


def hardware(device) -> str:
    """Return the name of a torch.device; for a processor with the number of threads."""
    import torch  # takes seconds

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    info = Path("/proc/cpuinfo")  # Linux lists the processor's name there
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{[*names, platform.machine()][0]}, {torch.get_num_threads()} of {os.cpu_count()} cores"


def now() -> str:
    """Return the time in UTC with seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")
