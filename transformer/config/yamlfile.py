"""YAML files, in which no key may stand twice."""

from pathlib import Path
from typing import Any

import yaml

from transformer.common.files import InputError, readable
from transformer.common.records import faults


class Loader(yaml.SafeLoader):
    """PyYAML's safe loader, but of two equal keys in one mapping it does not take the last in silence."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Return the mapping that begins here. Raises InputError naming the file, the line and the key."""
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if (key.tag, str(key.value)) in seen:
                where = f"{self.name}: line {key.start_mark.line + 1}"
                raise InputError(f"{where}: expected each key once in a mapping, found {key.value!r} again")
            seen.add((key.tag, str(key.value)))
        return node


def read_yaml(path: str | Path) -> Any:
    """Return the content of a YAML file. Raises InputError naming the file."""
    try:
        with open(readable(path), "rb") as file:
            content = yaml.load(file, Loader)
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
