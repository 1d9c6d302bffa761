"""An estimate of the electricity that trainings took: hours × watts × PUE. Nothing of it is measured."""

from collections.abc import Iterable
from typing import NamedTuple

from transformer.report.page.summary import Work

KILO = 1000


class Power(NamedTuple):
    """The assumptions: watts of one unit at work, the data centre's total power over that of its machines (PUE)."""

    watts: dict[str, float]  # by unit, which is core or GPU
    pue: float
    estimate: str  # its name
    source: str

    def kwh(self, work: Work) -> float:
        """Return the kilowatt-hours of a training."""
        return work.hours * self.watts[work.unit] * self.pue / KILO


class Total(NamedTuple):
    """Trainings on one kind of unit."""

    unit: str
    runs: int
    hours: float
    watts: float
    kwh: float


def totals(works: Iterable[Work], power: Power) -> list[Total]:
    """Return the sums by unit."""
    of_unit: dict[str, list[Work]] = {}
    for one in works:
        of_unit.setdefault(one.unit, []).append(one)
    return [
        Total(unit, len(same), sum(one.hours for one in same), power.watts[unit], sum(map(power.kwh, same)))
        for unit, same in sorted(of_unit.items())
    ]


def number_text(number: float) -> str:
    """Return hours or kilowatt-hours: three decimals, or three digits of a number below 1."""
    return f"{number:,.3f}" if number >= 1 else f"{number:.3g}"
