"""YAML files, and their content as structs. A fault is one line: the place, what is expected, what was found."""

import copy
import difflib
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from reprlib import repr as short
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import inspect

from transformer.files import InputError

Kind = TypeVar("Kind")
LARGEST = 2**63  # that a whole number may have
AT = re.compile(r"(?P<problem>.*?)(?: - at (?P<key>`key` in )?`\$(?P<place>.*)`)?", re.DOTALL)  # an error of msgspec


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """The safe loader, libyaml's where it is installed. A key that comes twice is refused, not overwritten."""

    def get_single_node(self) -> yaml.Node | None:
        """Return the document. Raises InputError naming the file, the line and the key."""
        root = super().get_single_node()
        waiting, seen = [root], set()  # an alias is the same node once more
        while waiting:
            node = waiting.pop()
            if isinstance(node, yaml.MappingNode) and id(node) not in seen:
                keys = set()
                for key, value in node.value:
                    if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in keys:
                        where = f"{key.start_mark.name}: line {key.start_mark.line + 1}"
                        raise InputError(f"{where}: expected each key once in a mapping, found {key.value!r} again")
                    keys.add((key.tag, str(key.value)))
                    waiting.append(value)
            elif isinstance(node, yaml.SequenceNode) and id(node) not in seen:
                waiting += node.value
            seen.add(id(node))
        return root


def read_yaml(path: str | Path) -> Any:
    """Return the content of a YAML file. Raises InputError naming the file."""
    try:
        with open(path, "rb") as file:
            return yaml.load(file, Loader)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: no such day, or a number of thousands of digits
        raise InputError(f"{path}: not YAML: {' '.join(str(error).split())}") from None


def structured(content: Any, kind: type[Kind], where: str | Path) -> Kind:
    """Return the content as a struct. Raises InputError, which begins with `where`."""
    try:
        for place, problem in faults(content):
            raise InputError(f"{where}: {place.removeprefix('.')}: {problem}")
        return msgspec.convert(content, kind)
    except RecursionError:
        raise InputError(f"{where}: nested too deeply") from None
    except msgspec.ValidationError as error:
        raise InputError(": ".join(filter(None, [str(where), *explained(str(error), content, kind)]))) from None


def faults(content: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the place and the problem of each value within `content` that no file of this project holds."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from faults(str(key), f"{place}, a key")
            yield from faults(value, f"{place}.{key}")
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from faults(value, f"{place}[{number}]")
    elif isinstance(content, float):
        if not math.isfinite(content):
            yield place, f"expected a finite number, found {content}"
    elif isinstance(content, int):
        if abs(content) > LARGEST:
            yield place, f"expected a number of at most {LARGEST}, found one of {content.bit_length()} bits"
    elif isinstance(content, str) and not content.isascii():
        try:
            content.encode()
        except UnicodeEncodeError:
            yield place.encode(errors="replace").decode(), f"expected text, found half a character in {short(content)}"


def explained(error: str, content: Any, kind: Any) -> tuple[str, str]:
    """Return the place and the problem of an error of msgspec, which writes [...] for keys that people choose."""
    match = AT.fullmatch(error)
    problem, place = match["problem"].replace("`", ""), []
    whole = here = copy.deepcopy(content)
    for step in re.findall(r"\[\.\.\.\]|[^.\[\]]+", match["place"] or ""):
        if isinstance(here, dict) and step == "[...]":
            step = guilty(error, here, whole, kind)
        place.append(int(step) if isinstance(here, list) else step)
        here = here[place[-1]]
    where, found = ".".join(map(str, place)), guilty(error, here, whole, kind) if match["key"] else here
    if problem[0].islower():  # of a struct's own check
        return where, problem
    expected = kind_at(kind, place)
    if unknown := re.fullmatch("Object contains unknown field (.*)", problem):
        return where, f"unknown key {unknown[1]!r}{hint(unknown[1], [field.encode_name for field in expected.fields])}"
    if missing := re.fullmatch("Object missing required field (.*)", problem):
        return where, f"missing key {missing[1]!r}"
    if problem.startswith("Invalid enum value"):
        kinds = getattr(expected, "types", [expected])
        values = [value for kind in kinds for value in getattr(kind, "values", ["a number"])]
        return where, f"expected {' or '.join(map(str, values))}, found {short(found)}{hint(found, values)}"
    words = problem.partition(", got ")[0].replace("object", "a mapping").replace("array", "list")
    return where, f"{words[0].lower()}{words[1:]}, found {short(found)}"


def guilty(error: str, here: dict, whole: Any, kind: Any) -> Any:
    """Return the key of `here`, a mapping within `whole`, at which the error is; blanks the other entries."""
    entries = dict(here)
    for key, value in entries.items():
        here.clear()
        here.update({key: value} | {other: ... for other in entries if other != key})
        try:
            msgspec.convert(whole, kind)
        except msgspec.ValidationError as other:
            if str(other) == error:
                return key
    raise AssertionError(error)


def kind_at(kind: Any, place: Iterable[str | int]) -> Any:
    """Return msgspec's description of the kind at a place within a kind."""
    kind = inspect.type_info(kind)
    for step in [*place, None]:
        while isinstance(kind, inspect.Metadata):
            kind = kind.type
        if isinstance(kind, inspect.StructType) and step is not None:
            kind = next(field.type for field in kind.fields if field.encode_name == step)
        elif isinstance(kind, inspect.TupleType) and step is not None:
            kind = kind.item_types[step]
        elif step is not None:
            kind = kind.value_type if isinstance(kind, inspect.DictType) else kind.item_type
    return kind


def hint(found: Any, names: Iterable[Any]) -> str:
    """Return the name that is nearest to one that is not there, as the end of a message; or nothing."""
    near = difflib.get_close_matches(str(found), [str(name) for name in names], 1)
    return f"; did you mean {near[0]!r}?" if near else ""
