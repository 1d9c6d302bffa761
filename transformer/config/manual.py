"""The manual of config.yaml, config/README.md, as the schema says it.

    python -m transformer.config.manual

writes the file again.
"""

import html
import sys
from collections.abc import Iterator

from transformer.config.checks import CONFIG, SCHEMA
from transformer.config.yamlfile import read_yaml
from transformer.files import replacing

MANUAL = SCHEMA.parents[2] / "config/README.md"
INTRODUCTION = """\
# Configuration

[config.yaml](../config.yaml) holds everything that a result depends on. To change settings, write only the changes to
a file of your own, and name it with `--configfile`; `--config scale=multi30k` changes a single key. A workflow that
uses this one as a module gives its changes in `config:`; they are laid over config.yaml in the same way. Before
anything runs, a wrong, unknown or missing key is refused in one line that names it.

[Your own corpus](../docs/own-corpus.md) shows a whole configuration, and [the workflow](../docs/workflow.md) how
another workflow uses it. Every key is below, with its values and whether it is needed. `NAME` stands for a name that
you choose. Sections (§) are those of "Attention Is All You Need".

<!-- From workflow/schemas/config.schema.yaml, by `python -m transformer.config.manual`. -->
"""
WHOLE = "All keys"  # the first section
HEADER = "| Key | Meaning | Value | Needed |\n| --- | --- | --- | --- |\n"


class Manual:
    """The sections of the manual, each of which describes one mapping."""

    def __init__(self, schema: dict):
        """Begin with the whole configuration; further sections follow as keys name them."""
        self.shared = schema["$defs"]
        self.sections = {WHOLE: schema}

    def write(self) -> str:
        """Return the manual in Markdown."""
        parts = [INTRODUCTION]
        written = 0
        while written < len(self.sections):
            title, node = list(self.sections.items())[written]
            rows = [self.row(key, schema, needed, title) for key, schema, needed in self.keys(node)]
            parts.append(f"\n## {title}\n\n{HEADER}{''.join(dict.fromkeys(rows))}")
            written += 1
        return "".join(parts)

    def row(self, key: str, schema: dict, needed: str, title: str) -> str:
        """Return a key's line in the table of a section."""
        value = self.value(schema, key if title == WHOLE else f"{key} of {title[0].lower()}{title[1:]}")
        if "$ref" in schema and "required" in schema:
            free = [other for other, *_ in self.keys(self.target(schema)) if other not in schema["required"]]
            value += f", of which {'all keys' + ' but ' * bool(free) + listed(free, 'and')} are needed"
        return f"| `{key}` | {html.escape(schema['description'], quote=False)} | {value} | {needed} |\n"

    def keys(self, node: dict, conditions: tuple[str, ...] = ()) -> Iterator[tuple[str, dict, str]]:
        """Yield the keys of a mapping with their schemas and when each is needed; `conditions` hold for all of them."""
        if "$ref" in node:
            yield from self.keys(self.target(node), conditions)
        for key, schema in node.get("properties", {}).items():
            when = " and ".join(condition for condition in conditions if condition != f"with `{key}`")
            if key in node.get("required", []):
                yield key, schema, when or "yes"
            else:
                yield key, schema, f"no, only {when}" if when else "no"
        for branch, word in (("then", "with"), ("else", "without")):
            if branch in node:
                (asked,) = node["if"]["required"]
                yield from self.keys(node[branch], (*conditions, f"{word} `{asked}`"))

    def value(self, node: dict, place: str) -> str:
        """Return in words which values a key takes; of a mapping, the link to its section, which is added."""
        shared = self.target(node) if "$ref" in node else {}
        kind = shared | {key: value for key, value in node.items() if key != "$ref"}
        match kind.get("type"):
            case "object" if {"properties", "if", "$ref"} & kind.keys():
                title = shared.get("title", place)
                self.sections.setdefault(title, shared or kind)
                return f"keys as in [{title}](#{title.lower().replace(' ', '-')})"
            case "object":
                return f"by `NAME`: {self.value(kind['additionalProperties'], place)}"
            case "boolean":
                return "true or false"
            case "array":
                return f"list, each {self.value(kind['items'], place)}"
            case "integer" | "number":
                return f"a {'whole ' * (kind['type'] == 'integer')}number{bounds(kind)}"
            case "string":
                return kind.get("title", "text")
        if "if" in kind:
            return f"{self.value(kind['then'], place)} or {self.value(kind['else'], place)}"
        return listed(kind.get("enum", [str(kind.get("const")).lower()]), "or")

    def target(self, node: dict) -> dict:
        """Return the shared schema that a schema refers to."""
        return self.shared[node["$ref"].removeprefix("#/$defs/")]


def listed(names: list[str], word: str) -> str:
    """Return names as a sentence lists them, with `word` before the last."""
    names = [f"`{name}`" for name in names]
    return f" {word} ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def bounds(node: dict) -> str:
    """Return the bounds of a number in words."""
    words = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
    return "".join(f" {word} {node[key]:,}" for key, word in words.items() if key in node)


def manual() -> str:
    """Return what config/README.md should say."""
    return Manual(read_yaml(SCHEMA)).write()


def main() -> None:
    """Write the manual. Exits with one line where the package does not lie in the project's folder."""
    expected = MANUAL.parents[1] / CONFIG
    if not expected.exists():
        sys.exit(f"{expected}: no such file: expected the package in the project's folder, beside config/")
    with replacing(MANUAL) as file:
        file.write(manual())


if __name__ == "__main__":
    main()
