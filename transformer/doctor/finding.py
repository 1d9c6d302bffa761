"""Findings: a check yields one line for each thing that it looked at."""

from dataclasses import dataclass

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


def ok(subject: str, message: str) -> Finding:
    """Return a finding that all is well."""
    return Finding("ok", subject, message)


def note(subject: str, message: str, fix: str = "") -> Finding:
    """Return a finding that needs no mending but is good to know."""
    return Finding("note", subject, message, fix)


def warning(subject: str, message: str, fix: str) -> Finding:
    """Return a finding because of which a run may be slow, or fail."""
    return Finding("warning", subject, message, fix)


def error(subject: str, message: str, fix: str) -> Finding:
    """Return a finding because of which a run will fail or hang, or its results cannot be trusted."""
    return Finding("error", subject, message, fix)
