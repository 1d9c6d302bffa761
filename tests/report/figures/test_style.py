"""Files are reproducible, and colours are distinguishable."""

import json
import math
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.image import imread

from transformer.report.figures import COLORS
from transformer.report.figures.style import Drawing, _steady_svg, new, save_drawing
from transformer.storage.records import Description

# Linear sRGB seen without one kind of cones: Machado, Oliveira and Fernandes (2009), severity 1.
SIGHTS = {
    "usual": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])  # of linear sRGB


def test_files_are_the_same_each_time(tmp_path):
    for folder in ("one", "other"):
        figure, axes = new(2, 1)
        axes.plot([1, 2], [3, 4], marker="o")
        axes.set_xlabel("α")
        save_drawing(Drawing(figure, "C", "A"), "T", tmp_path / folder / "name")
    names = {"name.pdf", "name.png", "name.svg", "name.json"}
    assert {path.name for path in (tmp_path / "one").iterdir()} == names
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    svg = (tmp_path / "one/name.svg").read_text()
    assert "<text" not in svg  # text as outlines, which need no font
    assert "<dc:date>" not in svg
    assert imread(tmp_path / "one/name.png").shape[:2] == (300, 600)
    about = json.loads((tmp_path / "one/name.json").read_text())
    assert about == Description(title="T", caption="C", alt="A", inches=2)


def test_letters_are_drawn_in_a_font_that_has_them_or_named(tmp_path, caplog):
    """Most text is in DejaVu Sans, but ᶁ is only in STIX. Without both fonts, a line names the missing letter."""
    figure, axes = new(2, 1)
    axes.set(title="aᶁ\n我", xlabel="a")
    save_drawing(Drawing(figure, "C", "A"), "T", tmp_path / "name")
    assert axes.title.get_family()[:2] == ["DejaVu Sans", "STIXGeneral"]
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("transformer")]
    assert [line.removeprefix(str(tmp_path)) for line in lines] in (
        ["/name: no font here has 我: install one, such as Noto (fonts-noto-core, -cjk)"],
        [],  # if a font has the letter
    )


def test_ids_and_coordinates_of_an_svg_do_not_depend_on_the_last_digits():
    """The next digit decides how 0.0625 is rounded to three. A colour and an external reference stay."""
    one = '<path id="a1f" d="M 0.0625 -7.123456"/><use xlink:href="#a1f" style="fill: #a1f000" clip-path="url(#c)"/>'
    other = one.replace('a1f"', 'b2"').replace("0.0625", "0.062499").replace("456", "457")
    assert _steady_svg(one) == _steady_svg(other)
    assert '<path id="i0" d="M 0.063 -7.123"/><use xlink:href="#i0" style="fill: #a1f000"' in _steady_svg(one)


def linear(color: str) -> np.ndarray:
    parts = np.array(to_rgba(color)[:3])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """Return the CIELAB of linear sRGB."""
    t = XYZ @ rgb.clip(0, 1) / XYZ.sum(axis=1)
    x, y, z = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_colours_have_contrast_to_white():
    """WCAG: (1 + 0.05) / (Y + 0.05) is 3 or more, except for yellow."""
    assert len(set(COLORS)) == 8
    assert all(1.05 / ((XYZ @ linear(color))[1] + 0.05) >= 3 for color in COLORS)


@pytest.mark.parametrize("sight", SIGHTS)
def test_colour_blind_readers_distinguish_colours(sight):
    """Okabe and Ito's eight colours are 16 apart in this vision. A difference of 2 is just visible."""
    seen = [lab(SIGHTS[sight] @ linear(color)) for color in COLORS]
    assert min(math.dist(one, other) for one, other in combinations(seen, 2)) > 16
