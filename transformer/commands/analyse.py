"""The commands `analyse` and `attend`: measurements on trained models for Table 5 and Figures 3 to 5."""

from dataclasses import asdict, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
from cyclopts import Parameter
from cyclopts.types import File, PositiveInt

from transformer.commands import require_separate
from transformer.evaluation.analyses import ANALYSES
from transformer.storage.files import InputError
from transformer.storage.reading import structured
from transformer.storage.records import parse_json, read_summed, with_sum, write_json

_LONGEST_SHOWN = 80  # maximum number of tokens in a picture of attention


_Figure = TypedDict("_Figure", {"text": str, "from": NotRequired[str], "to": NotRequired[list[str]]})


def _settings_type() -> type:
    """Return a dataclass with the settings of all analyses, as options of `analyse`. An omitted option is None."""
    users = {}
    for name, analysis in ANALYSES.items():
        for field in msgspec.structs.fields(analysis.Settings):
            users.setdefault((field.name, field.type), []).append(name)
    options = []
    for (option, kind), names in users.items():
        about = next(meta.description for meta in kind.__metadata__ if meta.description)
        options.append((option, Annotated[kind | None, Parameter(help=f"{', '.join(names)}: {about}")], None))
    return make_dataclass("Settings", options, frozen=True, namespace={"__module__": __name__})


_Settings = _settings_type()
_NO_SETTINGS = _Settings()


def analyse(
    name: Literal[tuple(ANALYSES)],
    /,
    *,
    run: Path,
    source: Path,
    target: Path,
    output: File,
    data: Path | None = None,
    threads: PositiveInt | None = None,
    settings: Annotated[_Settings, Parameter(name="*")] = _NO_SETTINGS,
) -> None:
    r"""Analyse a trained run for the rows of Table 5 that need no further training.

        python -m transformer analyse smoothing --run results/demo/runs/en-de/base/1 --beams 1 4 20 \
            --source resources/corpora/grammar-dev.en --target resources/corpora/grammar-dev.de --sentences 200 \
            --output smoothing.json

    Args:
        name: analysis to run
        run: folder of a trained run
        source: source side of the dev set, raw text
        target: references, one for each line of the source
        output: JSON file to write
        data: folder of the encoded training text, for lengths and for averaging with batch normalisation
        threads: number of CPU threads; default: all
    """
    analysis = ANALYSES[name]
    if data and not analysis.needs_data:
        raise InputError(f"--data: {name} reads no training text; omit this option")
    given = {option: value for option, value in asdict(settings).items() if value is not None}
    chosen = structured(given, analysis.Settings, name)
    from transformer.device import use_threads  # a late import, because torch takes seconds to load
    from transformer.evaluation.evaluated_run import open_run

    require_separate({"--output": output}, {"--source": [source], "--target": [target]}, run)
    use_threads(threads)
    opened = open_run(run, source, target, chosen.sentences, data)
    measured = opened.header | analysis.measure(opened, chosen)
    _publish(measured, output, f"{name}, {measured['sentences']} sentences")


def attend(
    sentence: str | None = None,
    /,
    *,
    run: Path,
    target: str | None = None,
    layer: PositiveInt | None = None,
    head: PositiveInt | None = None,
    text: Path | None = None,
    count: PositiveInt | None = None,
    longest: PositiveInt | None = None,
    output: File = Path("attention.json"),
    weights: Path | None = None,
    figures: str | None = None,
    threads: PositiveInt | None = None,
) -> None:
    r"""Write the attention weights of all heads of a trained run, for one sentence or for a text.

        python -m transformer attend "A king sees a dog." --run results/demo/runs/en-de/base/1

    This command writes attention.json, and draws attention.svg, .png and .pdf. The picture shows the self-attention of
    the encoder and of the decoder, and the attention from the translation's words to the words of the sentence.

        python -m transformer attend --run results/demo/runs/en-de/base/1 --text resources/corpora/grammar-test.en \
            --count 6 --longest 24 --output attention.json

    Args:
        sentence: sentence to analyse
        run: folder of a trained run, or an export
        target: translation of the sentence; default: the model's translation
        layer: number of the layer to draw, from 1; default: five sixths of the way up
        head: number of the head to draw, from 1; default: the mean of all heads
        text: file with one sentence per line, instead of a sentence; no picture is drawn
        count: number of sentences to choose from the text; default: 1
        longest: maximum number of tokens in a chosen sentence; default: 80, the maximum for a picture
        output: JSON file to write; pictures have the same name with another ending
        weights: weights file; default: RUN/average.safetensors
        figures: JSON object with `text`, `from` and `to` for each figure
        threads: number of CPU threads; default: all
    """
    given = locals()
    if (sentence is None) == (text is None):
        raise InputError("expected either a sentence or --text FILE, found " + ("both" if text else "neither"))
    for name in ("target", "layer", "head") if text else ("count", "longest", "figures"):
        if given[name] is not None:
            raise InputError(f"--{name}: this option requires {'a sentence, not --text' if text else '--text FILE'}")
    if sentence is not None and not sentence.strip():
        raise InputError("expected a sentence, found a blank one")
    shown = parse_json(figures or "{}", dict[str, _Figure], "--figures")
    from transformer.device import use_threads  # a late import, because torch takes seconds to load
    from transformer.evaluation.attention import weights_in, weights_in_text
    from transformer.translation.translator import open_translator

    output, pictures = (output, {}) if text else _with_pictures(given["output"])
    besides = {output, *pictures.values()} - {given["output"]}
    foreign = [] if _was_drawn(output) else sorted(besides)
    require_separate({"--output": output} | pictures, {"--text": [text], "--weights": [weights]}, run, foreign)
    use_threads(threads)
    translator = open_translator(run, weights)
    if text is None:
        from transformer.report.figures.attention import grids, require_drawable
        from transformer.report.figures.style import save_pictures

        require_drawable(len(translator.encode([sentence])[0]))  # first, because a long translation takes minutes
        measured = weights_in(translator, [({"title": sentence, "figures": {}}, sentence, target)])
        figure = grids(measured, layer, head)
        _publish(measured, output, "drawn as .svg, .png and .pdf")  # first, as evidence that the pictures are ours
        save_pictures(figure, pictures["--output, the .svg"].with_suffix(""))
    else:
        measured = weights_in_text(translator, text, count or 1, longest or _LONGEST_SHOWN, shown)
        _publish(measured, output, f"{len(measured['sentences'])} sentences")


def _with_pictures(output: Path) -> tuple[Path, dict[str, Path]]:
    """Return the JSON and the pictures of an --output. It may end in .json, .svg, .png or .pdf, or have no ending."""
    kinds = (".svg", ".png", ".pdf")
    name = output.stem if output.suffix in (".json", *kinds) else output.name
    pictures = {f"--output, the {kind}": output.with_name(name + kind) for kind in kinds}
    return output.with_name(f"{name}.json") if output.suffix in kinds else output, pictures


def _was_drawn(path: Path) -> bool:
    """Return whether `attend` wrote this JSON file. It does so for a single sentence, beside the pictures."""
    try:
        content = read_summed(path, dict)
    except InputError:
        return False
    sentences = content.get("sentences", [])
    return {"layers", "heads"} <= content.keys() and len(sentences) == 1 and not sentences[0]["figures"]


def _publish(measured: dict[str, Any], output: Path, what: str) -> None:
    write_json(output, with_sum(measured), ensure_ascii=False, separators=(",", ":"))
    print(f"{output}: {what}, {output.stat().st_size:,} bytes")
