"""A figure's SVG as part of a page: its ids clash with no other figure's, and nothing is fetched from elsewhere."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from markupsafe import Markup

from transformer.common.files import InputError

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
HREFS = ("href", f"{{{XLINK}}}href")
URL = re.compile(r"url\(\s*['\"]?([^'\")]*)['\"]?\s*\)")

COLUMN = 300  # points: a wider drawing takes both columns of the page

ElementTree.register_namespace("", SVG)  # else every element is written with a prefix, which HTML does not know
ElementTree.register_namespace("xlink", XLINK)


def inline(path: str | Path, name: str, alt: str) -> Markup:
    """The drawing in `path` as an image that reads `alt`; its ids, and what refers to them, begin with `name`.

    Its class is `wide` if it is wider than a column. Raises InputError where the file is no SVG, has no viewBox, holds
    a script, or refers to anything outside itself.
    """
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError) as error:
        raise InputError(f"{path}: cannot be read as SVG: {error}") from error
    if root.tag != f"{{{SVG}}}svg":
        raise InputError(f"{path}: expected an SVG drawing, found <{root.tag}>")
    if len(box := root.get("viewBox", "").split()) != 4:
        raise InputError(f"{path}: expected a viewBox of four numbers, found {root.get('viewBox')!r}")
    for metadata in root.findall(f"{{{SVG}}}metadata"):
        root.remove(metadata)
    for element in root.iter():
        if element.tag == f"{{{SVG}}}script":
            raise InputError(f"{path}: expected a drawing, found a script in it")
        rename(element, name, path)
    root.attrib |= {"role": "img", "aria-label": alt} | ({"class": "wide"} if float(box[2]) > COLUMN else {})
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def rename(element: ElementTree.Element, name: str, path: str | Path) -> None:
    """Put `name` before the element's id and before the ids that it refers to."""

    def referred(target: str) -> str:
        if target.startswith("data:"):
            return target
        if not target.startswith("#"):
            raise InputError(f"{path}: expected references to its own parts only, found {target!r}")
        return f"#{name}-{target[1:]}"

    def in_text(text: str) -> str:
        return URL.sub(lambda url: f"url({referred(url[1])})", text)

    for key, value in element.attrib.items():
        if key == "id":
            element.set(key, f"{name}-{value}")
        else:
            element.set(key, referred(value) if key in HREFS else in_text(value))
    if element.tag == f"{{{SVG}}}style" and element.text:
        element.text = in_text(element.text)
