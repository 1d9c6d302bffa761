"""Figures of probes: what is drawn is what was measured. Lines, maps and bars are read back from the axes."""

import copy
import json

import numpy as np
import pytest
from support.scored import score

from transformer.commands import figure as stage
from transformer.files import InputError
from transformer.report.figures.importance import head_importance, short
from transformer.report.figures.lengths import bleu_length
from transformer.report.figures.style import GREY, PAGE_INCHES

KINDS = ("encoder", "decoder", "cross")
RUN = "en-de/base/1"


def write(path, content) -> str:
    path.write_text(json.dumps(content))
    return str(path)


def line_data(line) -> list[list[float]]:
    return np.array(line.get_data()).tolist()


def bars(container) -> list[tuple[float, float]]:
    """Return the ends of an error bar's lines."""
    return [tuple(segment[:, 1].tolist()) for segment in container.lines[2][0].get_segments()]


# Heads ----------------------------------------------------------------------------------------------------------------


def probe_of_heads(N: int = 2, h: int = 3) -> dict:
    """Return a probe of which no two numbers are alike; without the second head of the cross attention loss is less."""
    kinds = {}
    for number, kind in enumerate(KINDS):
        table = number + np.arange(N * h).reshape(N, h) / 10
        curve = [{"masked": n, "layer": 1, "head": 1, "loss": number + n} for n in range(1, N * h + 1)]
        kinds[kind] = {"increase": (table / 100).tolist(), "distance": table.tolist()}
        kinds[kind] |= {"equal": number + 7.25, "curve": curve}
    kinds["cross"]["increase"][0][1] = -0.0125
    bleu = [{"kind": None, "masked": 0, "bleu": 30.0, "low": 28.0, "high": 31.0, "draws": [30.0], "length_ratio": 1.0}]
    for number, kind in enumerate(KINDS):
        scores = {"bleu": 20.0 + number, "low": 19.0, "high": 23.5 + number, "draws": [30.0], "length_ratio": 1.0}
        bleu.append({"kind": kind, "masked": 3} | scores)
    content = {
        "run": score(30.0)["run"],
        "target_sha256": "ab",
        "sentences": 1014,
        "layers": N,
        "heads": h,
        "loss": 0.5,
    }
    return content | {"kinds": kinds, "bleu": bleu}


def test_maps_are_the_tables(tmp_path):
    probe = probe_of_heads()
    drawing = head_importance(write(tmp_path / "heads.json", probe))
    panels = [axes for axes in drawing.figure.axes if axes.images]
    assert [axes.get_title() for axes in panels] == ["encoder", "decoder", "decoder to encoder"] * 2
    for axes, (name, kind) in zip(
        panels, [(name, kind) for name in ("increase", "distance") for kind in KINDS], strict=True
    ):
        (image,) = axes.images
        assert np.array_equal(image.get_array(), probe["kinds"][kind][name])
        assert drawing.data[name][kind] == probe["kinds"][kind][name]
        low, high = axes.get_ylim()
        assert low < high  # layers upwards
        decimals = 3 if name == "increase" else 1
        written = {text.get_position(): text.get_text() for text in axes.texts}
        assert written == {
            (head, layer): short(value, decimals) for (layer, head), value in np.ndenumerate(probe["kinds"][kind][name])
        }
    limits = [image.get_clim() for axes in panels for image in axes.images]
    assert limits == [(0, 0.025)] * 3 + [(0, 2.5)] * 3  # one scale a row
    assert drawing.figure.get_figwidth() == PAGE_INCHES


def test_numbers_are_short_and_right():
    numbers = [(0.0314, 3), (-0.0125, 3), (1.26, 3), (-0.0004, 3), (10.44, 1), (0.55, 1), (0.04, 1)]
    assert [short(*number) for number in numbers] == [".031", "−.013", "1.3", "0", "10.4", "0.6", "0"]


def test_many_heads_have_no_numbers(tmp_path):
    drawing = head_importance(write(tmp_path / "heads.json", probe_of_heads(N=6, h=16)))
    panels = [axes for axes in drawing.figure.axes if axes.images]
    assert not any(axes.texts for axes in panels)
    assert [text.get_text() for text in panels[0].get_xticklabels()][:3] == ["1", "3", "5"]


def test_curves_are_the_losses_and_scores(tmp_path):
    drawing = head_importance(write(tmp_path / "heads.json", probe_of_heads()))
    losses, bleu = drawing.figure.axes[-2:]
    for number, line in enumerate(losses.lines):
        assert line_data(line) == [list(range(7)), [0.5, *(number + n for n in range(1, 7))]]
    assert drawing.data["loss"]["cross"] == [0.5, 3, 4, 5, 6, 7, 8]
    for number, container in enumerate(bleu.containers):
        x, y = line_data(container.lines[0])
        assert x == pytest.approx([0, 3], abs=0.1)
        assert y == [30, 20 + number]
        assert bars(container) == [(28, 31), (19, 23.5 + number)]
    assert drawing.data["bleu"][1] == {"kind": "encoder", "masked": 3, "bleu": 20, "low": 19, "high": 23.5}


def test_caption_has_the_run_and_the_mean_of_each_layer(tmp_path):
    """Of the decoder, 1.0, 1.1 and 1.2 have the mean 1.1; 1.3, 1.4 and 1.5 have 1.4."""
    drawing = head_importance(write(tmp_path / "heads.json", probe_of_heads()))
    for text in (
        f"{RUN} at scale multi30k",
        "1,014 sentences",
        "0.500 nats",
        "; decoder 1.1, 1.4 (equal weights: 8.2);",
    ):
        assert text in drawing.caption
    assert drawing.data["mean_distance"]["decoder"] == [1.1, 1.4]
    assert "decoder to encoder: head 3 of layer 2 matters most, 0.025 nats" in drawing.alt


def without(content: dict, *path) -> dict:
    content = copy.deepcopy(content)
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return content


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (["kinds"], "missing key 'kinds'"),
        (["kinds", "cross"], "kinds: missing key 'cross'"),
        (["kinds", "decoder", "equal"], "decoder: missing key 'equal'"),
        (["kinds", "decoder", "curve", 0], "decoder, curve: expected 6 heads, found 5"),
        (["kinds", "cross", "distance", 1], "cross, distance: expected 2 layers of 3 heads, found shape"),
        (["run", "scale"], "run: missing key 'scale'"),
        (["bleu"], "missing key 'bleu'"),
    ],
)
def test_another_file_is_no_probe_of_heads(tmp_path, path, message):
    with pytest.raises(InputError, match=rf"heads.json.*{message}") as error:
        head_importance(write(tmp_path / "heads.json", without(probe_of_heads(), *path)))
    assert "\n" not in str(error.value)


# Lengths --------------------------------------------------------------------------------------------------------------


def probe_of_lengths(positions: str = "sinusoid", skipped: int = 0, longest: int = 40, **run) -> dict:
    """Return a probe of two groups of single sentences and two of joined ones."""
    numbers = [(None, 20, 10.5, 30.0), (None, 20, 20.5, 25.0), (1, 12, 42.0, 20.0), (2, 6, 83.0, 5.0)]
    groups = [
        {"times": times, "sentences": sentences, "tokens": tokens, "bleu": bleu, "low": bleu - 2, "high": bleu + 3}
        | {"draws": [bleu], "length_ratio": 1.0}
        for times, sentences, tokens, bleu in numbers
    ]
    content = {"run": score(30.0, **run)["run"], "target_sha256": "ab", "sentences": 40, "positions": positions}
    return content | {"longest": longest, "skipped": skipped, "groups": groups}


def drawn(tmp_path, *probes, expected=()):
    paths = [write(tmp_path / f"lengths{number}.json", probe) for number, probe in enumerate(probes)]
    return bleu_length(paths, "toy", list(expected))


def test_lines_are_the_groups(tmp_path):
    learned = probe_of_lengths("learned", skipped=3, experiment="learned")
    drawing = drawn(tmp_path, probe_of_lengths(), learned, expected=[RUN, "en-de/none/1"])
    (axes,) = drawing.figure.axes
    assert axes.get_xscale() == "log"
    assert len(axes.containers) == 4
    looks = [
        (c.lines[0].get_color(), c.lines[0].get_linestyle(), c.lines[0].get_markerfacecolor()) for c in axes.containers
    ]
    assert len(set(looks)) == 4
    assert [color for color, _, _ in looks[::2]] == [color for color, _, _ in looks[1::2]]
    for container, (tokens, bleu) in zip(
        axes.containers, [((10.5, 20.5), (30, 25)), ((42, 83), (20, 5))] * 2, strict=True
    ):
        x, y = line_data(container.lines[0])
        assert x == pytest.approx(tokens, rel=0.02)
        assert tuple(y) == bleu
        assert bars(container) == [(each - 2, each + 3) for each in bleu]
    (limit,) = [line for line in axes.lines if line.get_color() == GREY]
    assert list(limit.get_xdata()) == [40, 40]
    assert [text.get_text() for text in drawing.figure.legends[0].get_texts()] == [
        *("sinusoids", "learned positions", "single sentences", "joined sentences", "longest in training")
    ]


def test_caption_and_data_are_those_of_the_runs(tmp_path):
    learned = probe_of_lengths("learned", skipped=3, experiment="learned")
    drawing = drawn(tmp_path, probe_of_lengths(), learned, expected=[RUN, "en-de/none/1"])
    assert "Runs: sinusoids: en-de/base/1; learned positions: en-de/learned/1." in drawing.caption
    assert "joined sentences, 3 of en-de/learned/1." in drawing.caption
    assert "not shown: en-de/none/1." in drawing.caption
    assert "40 tokens" in drawing.caption
    assert drawing.data["gaps"] == ["en-de/none/1"]
    assert [run["run"] for run in drawing.data["runs"]] == [RUN, "en-de/learned/1"]
    keys = ("times", "sentences", "tokens", "bleu", "low", "high")
    groups = [{key: group[key] for key in keys} for group in learned["groups"]]
    assert drawing.data["runs"][1]["groups"] == groups
    assert "joined sentences: 20.0 at 42 tokens, 5.0 at 83 tokens" in drawing.alt


def test_positions_that_count_words_are_one_more_kind(tmp_path):
    kinds = ("sinusoid", "learned", "none", "words")
    drawing = drawn(tmp_path, *(probe_of_lengths(kind, experiment=kind) for kind in kinds))
    (axes,) = drawing.figure.axes
    assert len({container.lines[0].get_color() for container in axes.containers}) == 4
    assert "sinusoids that count words, too: en-de/words/1." in drawing.caption


def test_without_a_run_the_axes_say_so(tmp_path):
    drawing = drawn(tmp_path, expected=[RUN])
    assert [text.get_text() for text in drawing.figure.axes[0].texts] == ["no runs"]
    assert "Runs:" not in drawing.caption
    assert f"not shown: {RUN}" in drawing.caption


@pytest.mark.parametrize(
    ("probes", "message"),
    [
        ([without(probe_of_lengths(), "groups")], "lengths0.json: missing key 'groups'"),
        ([without(probe_of_lengths(), "groups", 1, "low")], r"lengths0.json, groups\[1\]: missing key 'low'"),
        ([without(probe_of_lengths(), "run", "seed")], "lengths0.json, run: missing key 'seed'"),
        ([probe_of_lengths("relative")], "positions: expected one of sinusoid, learned, none, words, found 'relative'"),
        ([probe_of_lengths(), probe_of_lengths()], f"{RUN}: expected one score of a run, found .*0.json, .*1.json"),
        ([probe_of_lengths(), probe_of_lengths(seed=2, scale="demo")], "expected scores of one scale, found"),
    ],
)
def test_files_that_do_not_belong_are_refused(tmp_path, probes, message):
    with pytest.raises(InputError, match=message) as error:
        drawn(tmp_path, *probes)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("head_importance", ["--heads", "heads.json"]),
        ("bleu_length", ["--lengths", "lengths.json", "--label", "toy", "--expected", RUN]),
    ],
)
def test_the_stage_draws_them(tmp_path, monkeypatch, name, options):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "heads.json", probe_of_heads())
    write(tmp_path / "lengths.json", probe_of_lengths())
    stage.main([name, *options, "--output", "drawn"])
    assert {path.name for path in tmp_path.glob("drawn.*")} == {f"drawn.{end}" for end in ("json", "pdf", "png", "svg")}
    assert json.loads((tmp_path / "drawn.json").read_text())["alt"]
