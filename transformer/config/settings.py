"""config.yaml, read and checked: the one reader of the workflow, and of the verbs that people ask.

Needs yaml and jsonschema, and no torch: Snakemake imports it at each start, and each of its jobs does.
"""

import sys
from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from transformer.config.checks import CONFIG, check, check_files
from transformer.config.yamlfile import read_yaml
from transformer.files import InputError


def read(files: list[str], entries: list[str]) -> dict:
    """Return config.yaml under other `files` and `key=value` entries, as Snakemake lays --configfile and --config.

    The files of corpora need not be here: `plan` is asked before they are, and `doctor` says more of what is missing.
    Raises InputError naming the file, the entry or the key.
    """
    if not CONFIG.exists():
        raise InputError(f"{CONFIG}: no such file: expected in the working folder, which must be the project's")
    config: dict = {}
    for file in (CONFIG, *files):
        content = read_yaml(file)
        if not isinstance(content, dict):
            raise InputError(f"{file}: expected a mapping, found {type(content).__name__}")
        config = laid_over(config, content)
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not equals:
            raise InputError(f"--config: expected key=value, found {entry}")
        config = laid_over(config, {key: value_of(value, entry)})
    check(config)
    return config


def accept(config: dict, files: Iterable[Path]) -> None:
    """Check what Snakemake has made of these files and its command line. Exits with one line where that is refused.

    Snakemake has read the files by itself, and does not see a key that stands twice.
    """
    try:
        for file in map(Path, files):  # named as people give them: from the working folder, where they lie there
            read_yaml(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)
        if isinstance(config.get("partial"), str):  # from the command line, where `true` is a text to Snakemake
            config["partial"] = value_of(config["partial"], f"partial={config['partial']}")
        check(config)
        check_files(config)
    except InputError as error:
        sys.exit(str(error))


def completed(file: Path, changes: dict) -> dict:
    """Return the configuration in a file with another workflow's changes, which stay as they are.

    Exits with one line where the file cannot be read.
    """
    try:
        return laid_over(read_yaml(file), deepcopy(changes))
    except InputError as error:
        sys.exit(str(error))


def value_of(text: str, entry: str) -> Any:
    """Return a value of the command line, as YAML. Raises InputError naming the entry."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise InputError(f"--config: not YAML: {entry}") from None


def laid_over(below: Any, above: Any) -> Any:
    """Return `above`, and of mappings what `below` says besides."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: laid_over(below.get(key), value) for key, value in above.items()}
