"""Tables, figures and pages, built from the files of runs, and their shared templates."""

import json
from typing import Any

import jinja2
from markupsafe import Markup


def environment() -> jinja2.Environment:
    """Return the template environment. In HTML, it escapes all values except `Markup`."""

    def embedded(data: Any) -> Markup:
        """Return JSON for a <script> element. A `</script>` in a text cannot end the element."""
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        return Markup(text.replace("<", "\\u003c"))

    settings = {"trim_blocks": True, "lstrip_blocks": True, "undefined": jinja2.StrictUndefined}
    loader, escaping = jinja2.PackageLoader("transformer.report"), jinja2.select_autoescape()
    jinja = jinja2.Environment(loader=loader, autoescape=escaping, **settings)
    jinja.filters["embedded"] = embedded
    return jinja
