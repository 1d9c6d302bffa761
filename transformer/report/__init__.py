"""The tables, the figures and the pages, made from the files of runs; and the templates that they share."""

import json
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

_TEMPLATES = Path(__file__).parent / "templates"


def environment(templates: Path = _TEMPLATES, autoescape: bool = True) -> jinja2.Environment:
    """Return the environment of a folder's HTML, which escapes all but `Markup`, or of its plain text."""

    def embedded(data: Any) -> Markup:
        """Return JSON that no `</script>` in a text can end."""
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        return Markup(text.replace("<", "\\u003c"))

    settings = {"trim_blocks": True, "lstrip_blocks": True, "undefined": jinja2.StrictUndefined}
    loader = jinja2.FileSystemLoader(templates)
    jinja = jinja2.Environment(loader=loader, autoescape=autoescape, keep_trailing_newline=not autoescape, **settings)
    jinja.filters["embedded"] = embedded
    return jinja
