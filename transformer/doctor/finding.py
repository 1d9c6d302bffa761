"""Findings: a check yields one line for each thing that it looked at."""

from dataclasses import dataclass
from functools import partial

LEVELS = ("ok", "note", "warning", "error")


@dataclass(frozen=True)
class Finding:
    """One of LEVELS, the thing that was looked at, what is true of it, and what mends it."""

    level: str
    subject: str
    message: str
    fix: str = ""

    def __str__(self) -> str:
        """Return the finding as one line."""
        fix = f" Fix: {self.fix}." if self.fix else ""
        return f"{self.level:7} " + " ".join(f"{self.subject}: {self.message}.{fix}".split())


ok = partial(Finding, "ok")  # all is well
note = partial(Finding, "note")  # needs no mending, but is good to know
warning = partial(Finding, "warning")  # a run may be slow, or fail
error = partial(Finding, "error")  # a run will fail or hang, or its results cannot be trusted
