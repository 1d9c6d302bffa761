"""The control groups that limit this process: a container's, or a batch system's. No torch here."""

from pathlib import Path


def granted() -> list[int]:
    """Return the memory limits in bytes of this process's control group and of those around it, if there are any."""
    limits = [file.read_text().strip() for file in group_files("memory.max")]
    return [int(limit) for limit in limits if limit != "max"]


def group_files(name: str) -> list[Path]:
    """Return the existing files `name` of this process's control group and of those around it."""
    own = Path("/proc/self/cgroup")
    groups = [line.split("::")[1] for line in own.read_text().splitlines() if "::" in line] if own.exists() else []
    files = [
        Path("/sys/fs/cgroup", folder.relative_to("/"), name)
        for group in groups
        for folder in (Path(group), *Path(group).parents)
    ]
    return [file for file in files if file.exists()]
