"""Tables, figures and pages, built from the files of runs, and their shared templates."""

import json
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

_TEMPLATES = Path(__file__).parent / "templates"


def environment(templates: Path = _TEMPLATES, autoescape: bool = True) -> jinja2.Environment:
    """Return the template environment of a folder. For HTML, it escapes all values except `Markup`."""

    def embedded(data: Any) -> Markup:
        """Return JSON for a <script> element. A `</script>` in a text cannot end the element."""
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        return Markup(text.replace("<", "\\u003c"))

    settings = {"trim_blocks": True, "lstrip_blocks": True, "undefined": jinja2.StrictUndefined}
    loader = jinja2.FileSystemLoader(templates)
    jinja = jinja2.Environment(loader=loader, autoescape=autoescape, keep_trailing_newline=not autoescape, **settings)
    jinja.filters["embedded"] = embedded
    return jinja
