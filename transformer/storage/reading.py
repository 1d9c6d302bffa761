"""YAML files, and their content as structs. A fault is one line: the place, what is expected, what was found."""

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from reprlib import repr as short
from typing import Annotated, Any, Literal, NotRequired, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import yaml

from transformer.storage.files import InputError

Kind = TypeVar("Kind")
_REPLACED = {"whole_words": "tokenizer"}  # keys of older files, and what took their place
_OF_ROW = re.compile(r"(?P<scale>scales\.[^:]+): [^:]+: (?P<row>[^:]+): (?:\w+: )?(?P<key>\w+): ")
AT = re.compile(r"(?P<problem>.*?)(?: - at (?P<key>`key` in )?`\$(?P<place>.*)`)?", re.DOTALL)  # an error of msgspec


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # the first is faster
    """A safe loader that refuses keys that come twice, of which others take the last without a word."""

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


def located(problem: str, sources: Iterable[tuple[str, str | bytes]]) -> str:
    """Return a problem behind the name and line of the text of YAML that says most of its place, the last of several.

    A problem begins with the place, whose keys dots and colons join; a row of a scale has several, and one will do.
    sources: names and texts, config.yaml first.
    """
    unknown, row = re.match("(?:(.*?): )?unknown key '(.+?)'", problem), re.match(_OF_ROW, problem)
    places = [".".join(filter(None, unknown.groups())) if unknown else problem]
    if row:
        rows = [f"experiments.{row['row']}", f"claims.{row['row']}", "base"]
        places += [f"{scale}{place}.{row['key']}" for scale in ("", f"{row['scale']}.") for place in rows]
    nodes = [(yaml.compose(text, _Loader), name) for name, text in sources]
    found = [(*max(_reach(node, place) for place in places), name) for node, name in nodes]
    if row:  # two keys, as scales.demo, say that a file is about the row, and changes what config.yaml has
        found[:1] = [(min(depth, 2), line, name) for depth, line, name in found[:1]]
    depth, line, name = max(reversed(found), key=lambda one: one[0], default=(0, 0, ""))
    return f"{name}, line {line}: {problem}" if depth else problem


def _reach(node: yaml.Node | None, place: str, depth: int = 0, line: int = 1) -> tuple[int, int]:
    """Return how many keys of a place are there below a node, and the line of the last one."""
    entries = node.value if isinstance(node, yaml.MappingNode) else []
    if isinstance(node, yaml.SequenceNode):
        entries = [(yaml.ScalarNode("", str(index), item.start_mark), item) for index, item in enumerate(node.value)]
    for key, value in sorted(entries, key=lambda entry: -len(str(entry[0].value))):  # a name may have dots
        if within := re.match(rf"{re.escape(str(key.value))}(?:\.|: |$)", place):
            return _reach(value, place[within.end() :], depth + 1, key.start_mark.line + 1)
    return depth, line


def structured(content: Any, kind: type[Kind], where: str | Path) -> Kind:
    """Check that the content is a `kind`, or make a struct, a dataclass or a NamedTuple of it.

    Raises InputError, which begins with `where`.
    """
    try:
        made = msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise InputError(": ".join(filter(None, [str(where), *_explained(str(error), content, kind)]))) from None
    return content if type(made) in (dict, list, tuple) else made  # with the keys that a TypedDict does not name


def _explained(error: str, content: Any, kind: Any) -> tuple[str, str]:
    """Return the place and the problem of an error of msgspec, which writes [...] for keys that people choose."""
    match = AT.fullmatch(error)
    problem, place = match["problem"].replace("`", ""), []
    for step in re.findall(r"\[\.\.\.\]|[^.\[\]]+", match["place"] or ""):
        if isinstance(content, dict) and step == "[...]":
            step = _wrong_key(content, kind)
        place.append(int(step) if isinstance(content, list) else step)
        content, kind = content[place[-1]], _within(kind, place[-1])
    where, found = ".".join(map(str, place)), _wrong_key(content, kind) if match["key"] else content
    if problem[0].islower():  # of a struct's own check
        return where, problem
    if unknown := re.fullmatch("Object contains unknown field (.*)", problem):
        names = [field.encode_name for field in msgspec.structs.fields(kind)]
        return where, f"unknown key {unknown[1]!r}{hint(unknown[1], names)}"
    if missing := re.fullmatch("Object missing required field (.*)", problem):
        return where, f"missing key {missing[1]!r}"
    if problem.startswith("Invalid enum value"):
        kinds = [kind] if get_origin(kind) is Literal else get_args(kind)
        values = [value for one in kinds for value in (get_args(one) if get_origin(one) is Literal else ["a number"])]
        return where, f"expected {' or '.join(map(str, values))}, found {short(found)}{hint(found, values)}"
    words = problem.partition(", got ")[0].replace("object", "a mapping").replace("array", "list")
    return where, f"{words[0].lower()}{words[1:]}, found {short(found)}"


def _wrong_key(mapping: dict, kind: Any) -> Any:
    """Return the first key that msgspec refuses, or whose value it does."""
    for key, value in mapping.items():
        try:
            msgspec.convert({key: value}, kind)
        except msgspec.ValidationError:
            return key


def _within(kind: Any, step: str | int) -> Any:
    """Return the type at a key or an index of a type, without annotations and UNSET."""
    if isinstance(kind, type):
        inner = get_type_hints(kind, include_extras=True).get(step, Any)
    else:
        inner = (get_args(kind) or [Any])[step if get_origin(kind) is tuple else -1]
    while get_origin(inner) in (Annotated, NotRequired) or msgspec.UnsetType in get_args(inner):
        inner = get_args(inner)[0]
    return inner


def hint(found: Any, names: Iterable[Any]) -> str:
    """Return the name that is nearest to one that is not there, as the end of a message; or nothing."""
    names = [str(name) for name in names]
    near = [name for name in names if name == _REPLACED.get(found)] or difflib.get_close_matches(str(found), names, 1)
    return f"; did you mean {near[0]!r}?" if near else ""
