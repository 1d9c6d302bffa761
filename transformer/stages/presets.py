"""Show the readings of the paper that config.yaml's `fidelity` names.

    python -m transformer presets                               each with its settings
    python -m transformer presets --diff paper-text paper-code  what the second changes of the first

The first also lists where both are the authors' code, and what of that code neither imitates.
"""

from dataclasses import asdict

from tabulate import tabulate

from transformer.commandline import stage_parser
from transformer.config.fidelity import NOT_IMITATED, PRESETS, SAME, Difference, differences


def main(argv: list[str] | None = None) -> None:
    """Print one of the two."""
    parser = stage_parser("presets", __doc__)
    parser.add_argument("--diff", nargs=2, metavar="PRESET", help="two presets to compare")
    names = parser.parse_args(argv).diff
    print(difference_table(*names) if names else overview())


def overview() -> str:
    """A paragraph per preset, then what both share and what both lack."""
    sections = {name: asdict(preset) for name, preset in PRESETS.items()}
    sections["The same in their code and in both presets:"] = SAME
    sections["In their code and in no preset:"] = NOT_IMITATED
    width = max(len(key) for settings in sections.values() for key in settings)
    return "\n\n".join(
        "\n".join([title, *(f"  {key:{width}}  {value}" for key, value in settings.items())])
        for title, settings in sections.items()
    )


def difference_table(one: str, other: str) -> str:
    """A row per setting in which they differ."""
    found = differences(one, other)
    if not found:
        return f"{one} and {other} have the same settings"
    headings = dict(zip(Difference._fields, ["setting", one, other, "meaning", "source"], strict=True))
    return tabulate(
        [row._asdict() for row in found],
        headers=headings,
        tablefmt="simple",
        disable_numparse=True,
        maxcolwidths=[None, None, None, 45, 25],
    )
