"""YAML files, and their content as structs. A fault is one line: the place, what is expected, what was found."""

import copy
import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from reprlib import repr as short
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import inspect

from transformer.files import InputError

Kind = TypeVar("Kind")
_LARGEST = 2**63  # that a whole number may have
AT = re.compile(r"(?P<problem>.*?)(?: - at (?P<key>`key` in )?`\$(?P<place>.*)`)?", re.DOTALL)  # an error of msgspec


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """The safe loader, libyaml's where it is installed. It refuses keys that come twice, and impossible values."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Refuse a key that comes twice, before those of merged mappings join the node's own."""
        keys = set()
        for key, _ in () if hasattr(node, "flat") else node.value:
            if (found := (key.tag, str(key.value))) in keys:
                raise InputError(f"{_line_of(key)}: expected each key once in a mapping, found {key.value!r} again")
            keys.add(found)
        node.flat = True
        super().flatten_mapping(node)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Refuse numbers that no file of this project holds."""
        value = super().construct_object(node, deep)
        if isinstance(value, float | int) and not abs(value) <= _LARGEST:
            raise InputError(f"{_line_of(node)}: expected a number of at most {_LARGEST}, found {short(node.value)}")
        return value


def _line_of(node: yaml.Node) -> str:
    return f"{node.start_mark.name}: line {node.start_mark.line + 1}"


def read_yaml(path: str | Path) -> Any:
    """Return the content of a YAML file. Raises InputError naming the file."""
    try:
        with open(path, "rb") as file:
            return yaml.load(file, _Loader)
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
        return msgspec.convert(content, kind)
    except RecursionError:
        raise InputError(f"{where}: nested too deeply") from None
    except msgspec.ValidationError as error:
        raise InputError(": ".join(filter(None, [str(where), *_explained(str(error), content, kind)]))) from None


def _explained(error: str, content: Any, kind: Any) -> tuple[str, str]:
    """Return the place and the problem of an error of msgspec, which writes [...] for keys that people choose."""
    match = AT.fullmatch(error)
    problem, place, expected = match["problem"].replace("`", ""), [], inspect.type_info(kind)
    whole = here = copy.deepcopy(content)
    for step in re.findall(r"\[\.\.\.\]|[^.\[\]]+", match["place"] or ""):
        if isinstance(here, dict) and step == "[...]":
            step = _guilty(error, here, whole, kind)
        place.append(int(step) if isinstance(here, list) else step)
        here, expected = here[place[-1]], within(expected, place[-1])
    where, found = ".".join(map(str, place)), _guilty(error, here, whole, kind) if match["key"] else here
    if problem[0].islower():  # of a struct's own check
        return where, problem
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


def _guilty(error: str, here: dict, whole: Any, kind: Any) -> Any:
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


def within(kind: inspect.Type, step: str | int) -> inspect.Type:
    """Return msgspec's description of the kind at a key or an index of a kind."""
    match kind:
        case inspect.StructType(fields=fields):
            kind = next(field.type for field in fields if field.encode_name == step)
        case inspect.TupleType(item_types=kinds):
            kind = kinds[step]
        case inspect.DictType(value_type=inner) | inspect.ListType(item_type=inner):
            kind = inner
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def hint(found: Any, names: Iterable[Any]) -> str:
    """Return the name that is nearest to one that is not there, as the end of a message; or nothing."""
    near = difflib.get_close_matches(str(found), [str(name) for name in names], 1)
    return f"; did you mean {near[0]!r}?" if near else ""
