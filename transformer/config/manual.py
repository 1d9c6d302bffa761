"""Generator of the manual of config.yaml (config/README.md) and of its JSON schema, from the structs of schema.py.

`python -m transformer.config.manual` writes both files. Run it in the project's folder.
"""

import html
import json
from pathlib import Path
from typing import Any

import msgspec

from transformer.config.schema import Config
from transformer.storage.files import write
from transformer.storage.reading import in_words

_FOLDER = Path("config")
_INTRODUCTION = """\
# Configuration

[config.yaml](../config.yaml) holds everything that a result depends on. To change settings, put your changes in a YAML
file of your own and pass it with `--configfile`. `--config scale=multi30k` changes a single key. A wrong, unknown or
missing key ends the run before anything starts, with one line that names the key.

[Your own corpus](../docs/own-corpus.md) shows a complete configuration. The tables below list every key, its values and
whether it is needed. `NAME` is a name of your choice. Section numbers (§) refer to "Attention Is All You Need". Editors
with JSON schema support complete and check keys while you type. The first line of config.yaml names the
[schema](schema.json).

<!-- From transformer/config/schema.py, by `python -m transformer.config.manual`. -->
"""
_HEADER = "| Key | Meaning | Value | Needed |\n| --- | --- | --- | --- |\n"


def manual() -> str:
    """Return the manual in Markdown: one table per struct, in the order of the keys that refer to them."""
    sections = msgspec.json.schema(Config)["$defs"]
    titles, parts = ["Config"], [_INTRODUCTION]
    for title in titles:  # _value appends titles during the loop
        section = sections[title]
        parts.append(f"\n## {title}\n\n{html.escape(section['description'], quote=False)}\n\n{_HEADER}")
        for key, node in section["properties"].items():
            needed = "yes" if key in section["required"] else "no"
            meaning = html.escape(node.get("description", ""), quote=False)
            parts.append(f"| `{key}` | {meaning} | {_value(node, titles)} | {needed} |\n")
    return "".join(parts)


def _value(node: dict[str, Any], titles: list[str]) -> str:
    """Describe the values of a key in words. If the value is a section, append its title to `titles`."""
    match node:
        case {"$ref": place} | {"allOf": [{"$ref": place}]}:
            title = place.removeprefix("#/$defs/")
            if title not in titles:
                titles.append(title)
            return f"keys as in [{title}](#{title.lower().replace(' ', '-')})"
        case {"anyOf": choices}:
            return " or ".join(_value(choice, titles) for choice in choices if choice.get("type") != "null")
        case {"enum": values}:
            return " or ".join(f"`{one}`" for one in values)
        case {"type": "object"}:
            return (
                f"by `NAME`: {_value(node['additionalProperties'], titles)}" if len(node) > 1 else "any of these keys"
            )
        case {"type": "array"}:
            count = f" of {len(node['prefixItems'])}" if "prefixItems" in node else ""
            return f"list{count}, each {_value(node.get('items') or node['prefixItems'][0], titles)}"
    return in_words(node)


def schema() -> str:
    """Return the JSON schema for editors. No key is required, because a user's file contains only changes."""

    def loosened(node: Any) -> Any:
        if isinstance(node, list):
            return [loosened(item) for item in node]
        if not isinstance(node, dict):
            return node
        kept = {key: loosened(value) for key, value in node.items() if key != "required" or not isinstance(value, list)}
        if isinstance(pattern := kept.get("pattern"), str):
            kept["pattern"] = pattern.replace(r"\Z", "$")  # JavaScript has no \Z
        return kept

    return json.dumps(loosened(msgspec.json.schema(Config)), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    write(_FOLDER / "README.md", manual())
    write(_FOLDER / "schema.json", schema())
