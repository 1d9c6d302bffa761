"""YAML files, and their content as structs. A fault is one line: the place, what is expected, what was found.

msgspec compares content with a type, fast and at each start. Only where it refuses, jsonschema finds the place: its
errors have the keys that lead to a fault as a list, those of msgspec only within a sentence.
"""

import difflib
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from reprlib import repr as short
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import yaml
from msgspec import Struct

from transformer.storage.files import InputError

if TYPE_CHECKING:
    from jsonschema import ValidationError

Kind = TypeVar("Kind")
_REPLACED = {"whole_words": "tokenizer"}  # keys of older files, and what took their place
Place = tuple[str | int, ...]  # the keys and indices that lead to a value
_KINDS = {"string": "text", "boolean": "true or false", "object": "a mapping", "array": "a list", "null": "null"}
_BOUNDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}


class Misfit(InputError):
    """A value that is not what its key takes, at a place of a file's content. key: one that is wrong itself, there."""

    def __init__(self, where: str | Path, place: Place, problem: str, key: str | None = None):
        super().__init__(": ".join(filter(None, [str(where), ".".join(map(str, place)), problem])))
        self.place, self.problem = (place if key is None else (*place, key)), problem


class Section(Struct, frozen=True, forbid_unknown_fields=True):
    """A mapping of configuration."""

    def faults(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with keys that fit one by one: the key, or "" for the whole mapping, and the problem."""
        yield from ()


# ------------------------------------------------------------------ YAML


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # the first is faster
    """A safe loader that refuses keys that come twice. Other loaders take the last one without a word."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        keys = [key.value for key, _ in node.value]  # before those of merged mappings join them
        if again := next((key for key in keys if keys.count(key) > 1 and not hasattr(node, "flat")), None):
            raise ValueError(f"line {node.start_mark.line + 1}: expected each key once, found {again!r} again")
        node.flat = True
        super().flatten_mapping(node)


def read_yaml(path: str | Path) -> Any:
    """Return the content of a YAML file. Raises InputError naming the file."""
    try:
        with open(path, "rb") as file:
            return yaml.load(file, _Loader)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror.lower()}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: no such day
        raise InputError(f"{path}: not YAML: {' '.join(str(error).split())}") from None


def find_line(text: str | bytes, place: Place) -> tuple[int, int]:
    """Return how many keys of a place a text of YAML has, and the line of the last one, from 1."""
    node, line = yaml.compose(text, _Loader), 1
    for depth, key in enumerate(place):
        entries = dict(_entries(node))
        if str(key) not in entries:
            return depth, line
        mark, node = entries[str(key)]
        line = mark.line + 1
    return len(place), line


def _entries(node: yaml.Node | None) -> Iterator[tuple[str, tuple[yaml.Mark, yaml.Node]]]:
    """Yield the keys or indices of a node with their position and value; a mapping's own after those merged into it."""
    if isinstance(node, yaml.SequenceNode):
        yield from ((str(index), (item.start_mark, item)) for index, item in enumerate(node.value))
    elif isinstance(node, yaml.MappingNode):
        for key, value in sorted(node.value, key=lambda entry: entry[0].value != "<<"):
            yield from _entries(value) if key.value == "<<" else [(str(key.value), (key.start_mark, value))]


# ------------------------------------------------------------------ structs


def structured(content: Any, kind: type[Kind], where: str | Path) -> Kind:
    """Check that the content is a `kind`, or make a struct, a dataclass or a NamedTuple of it.

    Raises Misfit, whose message begins with `where`.
    """
    try:
        made = msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise Misfit(where, *_misfit(content, kind, str(error))) from None
    for place, problem in _own_faults(made):
        raise Misfit(where, place, problem)
    return content if type(made) in (dict, list, tuple) else made  # with the keys that a TypedDict does not name


def _own_faults(value: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Yield place and problem of all that sections find wrong with themselves."""
    if isinstance(value, Section):
        yield from (((*place, key) if key else place, problem) for key, problem in value.faults())
    for key, each in _parts(value):
        yield from _own_faults(each, (*place, key))


def _parts(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the values within a section, a mapping or a list, with their keys."""
    if isinstance(value, Section):
        return ((field.encode_name, getattr(value, field.name)) for field in msgspec.structs.fields(value))
    return value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())


def _misfit(content: Any, kind: Any, problem: str) -> tuple[Place, str, str | None]:
    """Return place, problem and wrong key, if any, of content that is no `kind`; `problem`: what msgspec says of it."""
    import jsonschema  # takes half a second to import

    numbers = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=numbers)
    errors = validator(msgspec.json.schema(kind)).iter_errors(content)
    error = min(errors, key=lambda each: each.validator == "required", default=None)  # a wrong key before a missing one
    if error is None:
        return *next(_no_json(content), ((), problem)), None
    while closer := _closest(error):
        error = closer
    place, found, schema = tuple(error.absolute_path), error.instance, error.schema
    if error.validator == "additionalProperties":
        key = next(key for key in found if key not in schema["properties"])
        return place, f"unknown key {key!r}{hint(key, schema['properties'])}", key
    return place, _explained(error), found if "propertyNames" in error.absolute_schema_path else None


def _no_json(content: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Yield place and problem of what YAML can have and JSON cannot, of which a schema says nothing."""
    if isinstance(content, float) and not math.isfinite(content):
        yield place, f"expected a finite number, found {content}"
    for key, value in _parts(content):
        if isinstance(content, dict) and not isinstance(key, str):
            yield place, f"expected text as a key, found {key!r}: put quotes around it, as YAML reads `no` as false"
        yield from _no_json(value, (*place, key))


def _closest(error: "ValidationError") -> "ValidationError | None":
    """Return the error of the alternative that has the right type, where content fits none of several."""
    others = {each.schema_path[0] for each in error.context if not each.path and each.validator in ("type", "enum")}
    return next((each for each in error.context if each.schema_path[0] not in others), None)


def _explained(error: "ValidationError") -> str:
    """Return the expected and the found value at the place of an error, in words."""
    found, schema = error.instance, error.schema
    if error.validator == "required":
        return f"missing key {next(key for key in schema['required'] if key not in found)!r}"
    choices = (error.context and [each.schema for each in error.context]) or [schema]
    names = [name for choice in choices for name in choice.get("enum", ())]
    expected = " or ".join(dict.fromkeys(in_words(choice) for choice in choices if choice.get("type") != "null"))
    return f"expected {expected}, found {short(found)}{hint(found, names)}"


def in_words(schema: dict[str, Any]) -> str:
    """Return in words what a JSON schema of one value, a list or a mapping takes."""
    if "title" in schema and schema.get("type") != "object":
        return schema["title"]
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    kind = schema.get("type")
    if kind in ("integer", "number"):
        bounds = "".join(f" {word} {schema[key]:,}" for key, word in _BOUNDS.items() if key in schema)
        return f"a {'whole ' * (kind == 'integer')}number{bounds}"
    least, most = schema.get("minItems", schema.get("minProperties")), schema.get("maxItems")
    count = f" of {least}" if least and least == most else f" of {least} or more" if least else ""
    return _KINDS.get(kind, "another value") + count


def hint(found: Any, names: Iterable[Any]) -> str:
    """Return the name that is nearest to one that is not there, as the end of a message; or nothing."""
    found, names = str(found), [str(name) for name in names]
    near = [name for name in names if name == _REPLACED.get(found)] or difflib.get_close_matches(found, names, 1)
    return f"; did you mean {near[0]!r}?" if near else ""
