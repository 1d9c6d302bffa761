"""YAML files and their content as structs. A fault is one line: the place, the expected value, the found value.

msgspec compares content with a type, because it is fast. If it refuses the content, jsonschema finds the place of the
fault, because its errors contain the keys as a list. msgspec's errors contain the keys only in a sentence.
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
_REPLACED = {"whole_words": "tokenizer"}  # old key: current key
Place = tuple[str | int, ...]  # keys and indices of a nested value
_KINDS = {"string": "text", "boolean": "true or false", "object": "a mapping", "array": "a list", "null": "null"}
_BOUNDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "to below"}


class Misfit(InputError):
    """A wrong value at a place in a file's content. key: a wrong key at this place."""

    def __init__(self, where: str | Path, place: Place, problem: str, key: str | None = None):
        super().__init__(": ".join(filter(None, [str(where), ".".join(map(str, place)), problem])))
        self.place, self.problem = (place if key is None else (*place, key)), problem


class Section(Struct, frozen=True, forbid_unknown_fields=True):
    """A mapping of configuration."""

    def faults(self) -> Iterator[tuple[str, str]]:
        """Yield faults of valid keys that do not fit together: the key ("" for the whole mapping) and the problem."""
        yield from ()


# ------------------------------------------------------------------ YAML


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # CSafeLoader is faster
    """A safe loader that refuses duplicate keys. Other loaders silently use the last duplicate."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        keys = [key.value for key, _ in node.value]  # keys of the mapping itself, before merged mappings are added
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
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: invalid date
        raise InputError(f"{path}: not YAML: {' '.join(str(error).split())}") from None


def find_line(text: str | bytes, place: Place) -> tuple[int, int]:
    """Return the number of a place's keys that a YAML text contains, and the line of the last key (from 1)."""
    node, line = yaml.compose(text, _Loader), 1
    for depth, key in enumerate(place):
        entries = dict(_entries(node))
        if str(key) not in entries:
            return depth, line
        mark, node = entries[str(key)]
        line = mark.line + 1
    return len(place), line


def _entries(node: yaml.Node | None) -> Iterator[tuple[str, tuple[yaml.Mark, yaml.Node]]]:
    """Yield keys or indices of a node with position and value. Merged keys precede the mapping's own keys."""
    if isinstance(node, yaml.SequenceNode):
        yield from ((str(index), (item.start_mark, item)) for index, item in enumerate(node.value))
    elif isinstance(node, yaml.MappingNode):
        for key, value in sorted(node.value, key=lambda entry: entry[0].value != "<<"):
            yield from _entries(value) if key.value == "<<" else [(str(key.value), (key.start_mark, value))]


# ------------------------------------------------------------------ structs


def structured(content: Any, kind: type[Kind], where: str | Path) -> Kind:
    """Check that the content is a `kind`, or convert it to a struct, a dataclass or a NamedTuple.

    Raises Misfit. Its message begins with `where`.
    """
    if kind is Any:  # nothing to check; a walk through a record's numbers takes time
        return content
    try:
        made = msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise Misfit(where, *_misfit(content, kind, str(error))) from None
    for place, problem in _own_faults(made):
        raise Misfit(where, place, problem)
    return content if type(made) in (dict, list, tuple) else made  # with keys that the TypedDict lacks


def _own_faults(value: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Yield place and problem of the faults that sections find in themselves."""
    if isinstance(value, Section):
        yield from (((*place, key) if key else place, problem) for key, problem in value.faults())
    for key, each in _parts(value):
        if isinstance(each, Section | dict | list):  # most of a record's values are numbers
            yield from _own_faults(each, (*place, key))


def _parts(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the values of a section, a mapping or a list, with their keys."""
    if isinstance(value, Section):
        return ((field.encode_name, getattr(value, field.name)) for field in msgspec.structs.fields(value))
    return value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())


def _misfit(content: Any, kind: Any, problem: str) -> tuple[Place, str, str | None]:
    """Return place, problem and wrong key (if any) of content that is not a `kind`. problem: msgspec's message."""
    import jsonschema  # takes half a second to import

    numbers = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=numbers)
    errors = validator(msgspec.json.schema(kind)).iter_errors(content)
    error = min(errors, key=lambda each: each.validator == "required", default=None)  # a wrong key before a missing key
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
    """Yield place and problem of content that YAML allows and JSON does not. A schema does not check such content."""
    if isinstance(content, float) and not math.isfinite(content):
        yield place, f"expected a finite number, found {content}"
    for key, value in _parts(content):
        if isinstance(content, dict) and not isinstance(key, str):
            yield place, f"expected text as a key, found {key!r}: quote the key, because YAML reads `no` as false"
        yield from _no_json(value, (*place, key))


def _closest(error: "ValidationError") -> "ValidationError | None":
    """Return the error of the alternative with the right type, if content fits none of several alternatives."""
    others = {each.schema_path[0] for each in error.context if not each.path and each.validator in ("type", "enum")}
    return next((each for each in error.context if each.schema_path[0] not in others), None)


def _explained(error: "ValidationError") -> str:
    """Describe the expected and the found value of an error."""
    found, schema = error.instance, error.schema
    if error.validator == "required":
        return f"missing key {next(key for key in schema['required'] if key not in found)!r}"
    choices = (error.context and [each.schema for each in error.context]) or [schema]
    names = [name for choice in choices for name in choice.get("enum", ())]
    expected = " or ".join(dict.fromkeys(in_words(choice) for choice in choices if choice.get("type") != "null"))
    return f"expected {expected}, found {short(found)}{hint(found, names)}"


def in_words(schema: dict[str, Any]) -> str:
    """Describe the values that a JSON schema of a value, a list or a mapping accepts."""
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
    """Return the end of an error message: the known name most similar to an unknown name, or an empty text."""
    found, names = str(found), [str(name) for name in names]
    near = [name for name in names if name == _REPLACED.get(found)] or difflib.get_close_matches(found, names, 1)
    return f"; did you mean {near[0]!r}?" if near else ""
