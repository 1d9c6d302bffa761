"""A training set cut into parts that jobs prepare independently: their lines, their files, and the whole."""

from collections.abc import Iterator
from pathlib import Path

from transformer.files import InputError, replacing
from transformer.text import count_pairs, read_blocks, read_lines

Part = tuple[int, int]  # (k, n): the k-th, from 1, of n
WHOLE = (1, 1)


def part_path(path: Path, part: Part) -> Path:
    """Return where a part of the file `path` lies: in `parts/K-of-N` beside it. The whole is `path` itself."""
    return path if part == WHOLE else path.parent / "parts" / f"{part[0]}-of-{part[1]}" / path.name


def part_paths(path: Path, number: int) -> list[Path]:
    """Return the paths of all `number` parts of a file, in order."""
    return [part_path(path, (k, number)) for k in range(1, number + 1)]


def part_range(total: int, part: Part) -> tuple[int, int]:
    """Return which of `total` lines belong to a part, as start and stop; the parts' sizes differ by one at most.

    Raises InputError where there is no such part.
    """
    k, n = part
    if not 1 <= k <= n:
        raise InputError(f"expected a part from 1 to {n}, found {k}")
    return total * (k - 1) // n, total * k // n


def read_part(corpora: list[tuple[Path, Path]], part: Part) -> Iterator[tuple[str, str]]:
    """Yield a part of the sentence pairs of several corpora, (source, target) files, taken end to end.

    Raises InputError where any corpus has sides of unequal length, even one that this part does not touch.
    """
    counts = [count_pairs(*files) for files in corpora]
    start, stop = part_range(sum(counts), part)
    for files, count in zip(corpora, counts, strict=True):
        first, last = max(start, 0), min(stop, count)
        if first < last:
            yield from zip(*(read_lines(path, first, last) for path in files), strict=True)
        start, stop = start - count, stop - count


def join(paths: list[Path], output: Path) -> None:
    """Write the bytes of `paths` end to end. Raises InputError naming the one that cannot be read."""
    with replacing(output, "wb") as whole:
        for path in paths:
            whole.writelines(read_blocks(path))
