"""Templates of HTML, where what a text holds is shown as it is and never read as HTML, and of plain text."""

import json
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

SETTINGS = {"trim_blocks": True, "lstrip_blocks": True, "undefined": jinja2.StrictUndefined}


def environment(templates: Path) -> jinja2.Environment:
    """Return the environment of a folder's HTML: it escapes all but `Markup`, and sets JSON by `embedded`."""
    jinja = jinja2.Environment(loader=jinja2.FileSystemLoader(templates), autoescape=True, **SETTINGS)
    jinja.filters["embedded"] = embedded
    return jinja


def text_environment(templates: Path) -> jinja2.Environment:
    """Return the environment of a folder's plain text, such as Markdown: it escapes nothing."""
    return jinja2.Environment(loader=jinja2.FileSystemLoader(templates), keep_trailing_newline=True, **SETTINGS)


def embedded(data: Any) -> Markup:
    """Return JSON that no `</script>` in a text can end."""
    return Markup(json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"))
