"""YAML files, in which no key may stand twice."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from transformer.files import InputError, readable
from transformer.records import faults

MOST = 100_000  # values of a file; aliases of lists of aliases could make more than any memory holds


class Loader(yaml.SafeLoader):
    """PyYAML's safe loader, but of two equal keys in one mapping it does not take the last in silence."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Return the mapping that begins here. Raises InputError naming the file, the line and the key."""
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if (key.tag, key.value) in seen:
                where = f"{self.name}: line {key.start_mark.line + 1}"
                raise InputError(f"{where}: expected each key once in a mapping, found {key.value!r} again")
            seen.add((key.tag, key.value))
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge the mappings that `<<` names into `node`, each of their keys once however often an alias repeats it."""
        super().flatten_mapping(node)
        node.value = list({id(key): (key, value) for key, value in node.value}.values())


def read_yaml(path: str | Path) -> Any:
    """Return the content of a YAML file. Raises InputError naming the file."""
    try:
        with open(readable(path), "rb") as file:
            content = yaml.load(file, Loader)
        if next(islice(values(content), MOST, None), None):
            raise InputError(f"{path}: expected at most {MOST:,} values, found more")
        for place, problem in faults(content):
            raise InputError(f"{path}: {place.removeprefix('.')}: {problem}")
        return content
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: no such day, or a number of thousands of digits
        raise InputError(f"{path}: not YAML: {' '.join(str(error).split())}") from None


def values(content: Any) -> Iterator[str]:
    """Yield the kind of each value within `content`, and of itself: of an aliased one at each of its places."""
    waiting = [content]
    while waiting:
        value = waiting.pop()
        yield type(value).__name__
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, (list, tuple, set)):
            waiting += value
