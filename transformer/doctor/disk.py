"""The disk space that a scale needs on this machine: what transformer.plan reckons, less what is already here."""

from pathlib import Path

from transformer.doctor.downloads import missing
from transformer.doctor.folders import RESULTS, existing
from transformer.plan import storage
from transformer.plan.plan import make_plan
from transformer.plan.speed import Speed

RESOURCES = Path("resources")
NO_SPEED = Speed("GPU", "any", 1.0, "")  # disk space does not depend on it


def needed_space(config: dict) -> dict[Path, int]:
    """Return the bytes that the scale needs in results/ and resources/; all in results/ where both are on one disk."""
    plan = make_plan(config, NO_SPEED, units=1)
    tasks = {run.task for run in plan.all}
    trained = {run.task for run in plan.trained}
    results = storage.array_bytes(config, trained) + storage.part_bytes(config, trained)
    results += plan.disk(plan.all) + plan.saving
    downloads = sum(entry.get("size", 0) for entry in missing(config).values())
    here = {
        RESULTS: max(0, results - used(RESULTS / config["scale"])),
        RESOURCES: downloads + storage.text_bytes(config, tasks, RESOURCES / "corpora"),
    }
    if len({existing(path).stat().st_dev for path in here}) == 1:
        return {RESULTS: sum(here.values()), RESOURCES: 0}
    return here


def used(folder: Path) -> int:
    """Return the bytes of all files in a folder; a file with several names counts once."""
    stats = (path.stat(follow_symlinks=False) for path in folder.rglob("*") if path.is_file())
    return sum({stat.st_ino: stat.st_size for stat in stats}.values())
