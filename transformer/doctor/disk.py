"""How much room a scale needs on this machine's disks: what plan.py reckons, less what is there."""

from pathlib import Path

from transformer.doctor.downloads import missing
from transformer.doctor.folders import RESULTS, existing
from transformer.plan import plan, storage
from transformer.plan.speed import Speed

RESOURCES = Path("resources")
NO_SPEED = Speed("GPU", "any", 1.0, "")  # nothing here takes time


def needs(config: dict) -> dict[Path, int]:
    """Bytes that the scale needs in results/ and resources/; where they lie on one disk, all of it in results/."""
    found = plan.make(config, NO_SPEED, units=1)
    tasks = {run.task for run in found.all}
    learned = {run.task for run in found.trained}
    results = storage.arrays(config, learned) + storage.parts(config, learned) + found.disk(found.all) + found.saving
    downloads = sum(about.get("size", 0) for about in missing(config).values())
    here = {
        RESULTS: max(0, results - used(RESULTS / config["scale"])),
        RESOURCES: downloads + storage.text(config, tasks, RESOURCES / "corpora"),
    }
    if len({existing(path).stat().st_dev for path in here}) == 1:
        return {RESULTS: sum(here.values()), RESOURCES: 0}
    return here


def used(folder: Path) -> int:
    """Bytes of all files in a folder; those of several names count once."""
    files = (path.stat(follow_symlinks=False) for path in folder.rglob("*") if path.is_file())
    return sum({of_file.st_ino: of_file.st_size for of_file in files}.values())
