"""The manual of config.yaml, from the structs: `python -m transformer.config.manual > config/README.md`."""

import html
from typing import Any

import msgspec

from transformer.config.schema import Config

INTRODUCTION = """\
# Configuration

[config.yaml](../config.yaml) holds everything that a result depends on. To change settings, write only the changes to
a file of your own, and name it with `--configfile`; `--config scale=multi30k` changes a single key. Before anything
runs, a wrong, unknown or missing key is refused in one line that names it.

[Your own corpus](../docs/own-corpus.md) shows a whole configuration. Every key is below, with its values and whether it
is needed. `NAME` stands for a name that you choose. Sections (§) are those of "Attention Is All You Need".

<!-- From transformer/config/schema.py, by `python -m transformer.config.manual > config/README.md`. -->
"""
HEADER = "| Key | Meaning | Value | Needed |\n| --- | --- | --- | --- |\n"
BOUNDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}


def manual() -> str:
    """Return the manual in Markdown: a table for each struct, in the order in which keys name them."""
    schema = msgspec.json.schema(Config)
    sections = schema["$defs"]
    titles, parts = ["Config"], [INTRODUCTION]
    for title in titles:  # grows meanwhile
        section = sections[title]
        parts.append(f"\n## {title}\n\n{html.escape(section['description'], quote=False)}\n\n{HEADER}")
        for key, node in section["properties"].items():
            needed = "yes" if key in section["required"] else "no"
            meaning = html.escape(node.get("description", ""), quote=False)
            parts.append(f"| `{key}` | {meaning} | {value(node, titles)} | {needed} |\n")
    return "".join(parts)


def value(node: dict[str, Any], titles: list[str]) -> str:
    """Return in words which values a key takes; adds the title of a section that it has."""
    match node:
        case {"$ref": place} | {"allOf": [{"$ref": place}]}:
            title = place.removeprefix("#/$defs/")
            if title not in titles:
                titles.append(title)
            return f"keys as in [{title}](#{title.lower().replace(' ', '-')})"
        case {"anyOf": choices}:
            return " or ".join(value(choice, titles) for choice in choices)
        case {"enum": values}:
            return " or ".join(f"`{one}`" for one in values)
        case {"type": "object"}:
            return f"by `NAME`: {value(node['additionalProperties'], titles)}"
        case {"type": "array", "prefixItems": items}:
            return f"list of {len(items)}, each {value(items[0], titles)}"
        case {"type": "array"}:
            return f"list, each {value(node['items'], titles)}"
        case {"type": "boolean"}:
            return "true or false"
        case {"type": "integer" | "number" as kind}:
            limits = "".join(f" {word} {node[key]:,}" for key, word in BOUNDS.items() if key in node)
            return f"a {'whole ' * (kind == 'integer')}number{limits}"
    return node.get("title", "text")


if __name__ == "__main__":
    print(manual(), end="")
