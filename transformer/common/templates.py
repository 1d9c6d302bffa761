"""Templates of HTML: what a text holds is shown as it is, never read as HTML."""

import json
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup


def environment(templates: Path) -> jinja2.Environment:
    """Return the environment of a folder's templates: it escapes all but `Markup`, and sets JSON by `embedded`."""
    jinja = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    jinja.filters["embedded"] = embedded
    return jinja


def embedded(data: Any) -> Markup:
    """Return JSON that no `</script>` in a text can end."""
    return Markup(json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"))
