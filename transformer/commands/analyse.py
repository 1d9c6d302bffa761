"""The commands `analyse` and `attend`: the analyses of trained models for Table 5 and Figures 3 to 5."""

from dataclasses import asdict, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter
from cyclopts.types import File, PositiveInt

from transformer.evaluation.analyses import ANALYSES
from transformer.storage.files import InputError
from transformer.storage.reading import structured
from transformer.storage.records import parse_json, write_json

_MOST_TOKENS = 80  # maximum number of tokens in a picture of attention


def _options() -> type:
    """Return a dataclass with the settings of all analyses as the options of `analyse`. Defaults are None."""
    users = {}
    for name, analysis in ANALYSES.items():
        for field in msgspec.structs.fields(analysis.Settings):
            users.setdefault((field.name, field.type), []).append(name)
    options = []
    for (option, kind), names in users.items():
        about = next(meta.description for meta in kind.__metadata__ if meta.description)
        options.append((option, Annotated[kind | None, Parameter(help=f"{', '.join(names)}: {about}")], None))
    return make_dataclass("Settings", options, frozen=True, namespace={"__module__": __name__})


_Settings = _options()
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
    r"""Analyse a trained run for the claims in Table 5 that need no further training.

        python -m transformer analyse smoothing --run results/demo/runs/en-de/base/1 --beams 1 4 20 \
            --source resources/corpora/grammar-dev.en --target resources/corpora/grammar-dev.de --sentences 200 \
            --output smoothing.json

    Args:
        name: the analysis
        run: folder of a trained run
        source: raw text of the dev set
        target: references of the dev set, line by line
        output: JSON file to write
        data: folder of the encoded training text (only for lengths, and for averaging with batch normalisation)
        threads: processor threads; default: all
    """
    analysis = ANALYSES[name]
    given = {option: value for option, value in asdict(settings).items() if value is not None}
    chosen = structured(given, analysis.Settings, name)
    from transformer.device import use_threads  # here, because importing torch takes seconds
    from transformer.evaluation.evaluated_run import open_run

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
    r"""Write the attention weights of all heads in a sentence as pictures and JSON, or in several sentences as JSON.

        python -m transformer attend "A king sees a dog." --run results/demo/runs/en-de/base/1

    This draws attention.svg, .png and .pdf with the attention of the encoder, of the decoder, and between the two, from
    the words of the translation to the words of the sentence. attention.json contains the weights.

        python -m transformer attend --run results/demo/runs/en-de/base/1 --text resources/corpora/grammar-test.en \
            --count 6 --longest 24 --output attention.json

    Args:
        sentence: sentence to translate
        run: folder of a trained run or of an export
        target: translation of the sentence; default: the model's translation
        layer: number of the layer to draw, from 1; default: five sixths of the way up
        head: number of the head to draw, from 1; default: the mean of all heads
        text: instead of a sentence: file with one sentence a line; no picture is drawn
        count: number of sentences chosen from --text; default: the first sentence only
        longest: maximum number of tokens in a chosen sentence; default: the maximum in a picture
        output: JSON file to write; the pictures have the same name with other endings
        weights: file of weights; default: RUN/average.safetensors
        figures: JSON: for each figure its text, and the words `from` and `to`
        threads: processor threads; default: all
    """
    given = locals()
    if (sentence is None) == (text is None):
        raise InputError("give either a sentence or --text, not both")
    for name in ("target", "layer", "head") if text else ("count", "longest", "figures"):
        if given[name] is not None:
            raise InputError(f"--{name}: expected only with {'a sentence, not with --text' if text else '--text'}")
    shown = parse_json(figures or "{}", dict[str, dict], "--figures")
    from transformer.device import use_threads  # here, because importing torch takes seconds
    from transformer.evaluation.attention import weights_in, weights_in_text
    from transformer.translation.translator import open_translator

    use_threads(threads)
    translator = open_translator(run, weights)
    if text is None:
        from transformer.report.figures.attention import grids
        from transformer.report.figures.style import save_pictures

        measured = weights_in(translator, [({"title": sentence, "figures": {}}, sentence, target)])
        save_pictures(grids(measured, layer, head), output.with_suffix(""))
    else:
        measured = weights_in_text(translator, text, count or 1, longest or _MOST_TOKENS, shown)
    _publish(measured, output, f"{len(measured['sentences'])} sentences" if text else "drawn as .svg, .png and .pdf")


def _publish(measured: dict[str, Any], output: Path, what: str) -> None:
    write_json(output, measured, ensure_ascii=False, separators=(",", ":"))
    print(f"{output}: {what}, {output.stat().st_size:,} bytes")
