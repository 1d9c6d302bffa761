"""The set-up of runs: their settings, each experiment as its differences from the first run, and how they decoded."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from transformer.report.page.accounts import UNRECORDED, Account, Began
from transformer.report.page.datasets import Tried
from transformer.report.tables.render import Grid

SECTIONS = ("model", "training")


def first_run(accounts: list[Account]) -> Account | None:
    """Return the first run that has settings; None where none has."""
    return next((account for account in accounts if account.settings), None)


def settings_grid(account: Account) -> Grid:
    """Return the settings of a run."""
    return Grid(("Setting", "Value"), [{"Setting": f"`{k}`", "Value": shown(v)} for k, v in flat(account).items()])


def differences_grid(accounts: list[Account]) -> Grid:
    """Return how each experiment differs from the first run that has settings, seeds apart."""
    first = first_run(accounts)
    base = flat(first) if first else {}
    ways = {account.name: changed(base, flat(account)) if account.settings else UNRECORDED for account in accounts}
    return ways_grid("Differences", ways)


def tried_grid(tried: list[Tried]) -> Grid:
    """Return the settings that people tried, each with what came of it."""
    rows = [
        {"Tried": entry["setting"], "Outcome": entry["outcome"], "Chosen": "yes" if entry.get("chosen") else ""}
        for entry in tried
    ]
    return Grid(("Tried", "Outcome", "Chosen"), rows)


def flat(account: Account) -> dict[str, Any]:
    """Return the settings of model and training by name."""
    return {key: value for section in SECTIONS for key, value in account.settings[section].items()}


def changed(base: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return `h 1, d_k 512` of the settings whose values are others, or `none`."""
    keys = dict.fromkeys([*base, *other])
    values = {key: other.get(key, UNRECORDED) for key in keys if base.get(key) != other.get(key)}
    return listed(values) or "none"


def decoding_grid(accounts: list[Account]) -> Grid:
    """Return the ways of decoding, each with its runs."""
    return ways_grid(
        "Beam search", {run.name: listed(asdict(run.decoding)) if run.decoding else UNRECORDED for run in accounts}
    )


def preparation_grid(accounts: list[Account]) -> Grid:
    """Return the ways of preparing text, each with its runs."""
    return ways_grid(
        "Preparation",
        {run.name: listed(run.settings["preparation"]) if run.settings else UNRECORDED for run in accounts},
    )


def software_grid(accounts: list[Account]) -> Grid:
    """Return the versions that trainings ran on, at any of their starts, each with its runs."""
    return starts_grid("Versions", accounts, lambda start: listed(start.get("versions", {})))


def commits_grid(accounts: list[Account]) -> Grid:
    """Return the commits that trainings ran at, at any of their starts, each with its runs."""
    return starts_grid("Commit", accounts, lambda start: start.get("commit", ""))


def hardware_grid(accounts: list[Account]) -> Grid:
    """Return the machines, and the type that they multiplied matrices in, each with its runs."""

    def machine(start: Began) -> str:
        products = start.get("products", UNRECORDED)
        return f"{start.get('processes', UNRECORDED)} × {start['hardware']}; number type of products: {products}"

    return starts_grid("Processes × hardware", accounts, machine)


def starts_grid(heading: str, accounts: list[Account], told: Callable[[Began], str]) -> Grid:
    """Return what the starts of runs tell, each text with the runs that have it at one of their starts."""
    texts = {run.name: dict.fromkeys(told(start) or UNRECORDED for start in run.starts) for run in accounts}
    return grouped(heading, [(text, name) for name, own in texts.items() for text in own], len(accounts))


def ways_grid(heading: str, ways: dict[str, str]) -> Grid:
    """Return each way once, with its runs."""
    return grouped(heading, [(way, name) for name, way in ways.items()], len(ways))


def grouped(heading: str, pairs: list[tuple[str, str]], total: int) -> Grid:
    """Return a row for each text, with the names of its runs, or `all` of the total."""
    names: dict[str, list[str]] = {}
    for text, name in pairs:
        names.setdefault(text, []).append(name)
    rows = [{heading: text, "Runs": "all" if len(runs) == total else ", ".join(runs)} for text, runs in names.items()]
    return Grid((heading, "Runs"), rows)


def listed(values: Mapping[str, Any]) -> str:
    """Return `beam 4, alpha 0.6`."""
    return ", ".join(f"{key} {shown(value)}" for key, value in values.items())


def shown(value: Any) -> str:
    """Return a value as config.yaml writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
