r"""Write who attends to whom in some sentences: the weights of every head of a trained run.

    python -m transformer attend --run results/demo/runs/en-de/base/1 --text resources/corpora/grammar-test.en \
        --count 6 --longest 24 --figures '{"figure5": {"text": "The dog sleeps."}}' --output attention.json

Translates the sentences of Figures 3 to 5, which --figures names, and COUNT sentences of TEXT at equal distances, from
those with at most LONGEST tokens. OUTPUT is JSON: run, label, layers, heads, and for each sentence its title, its
tokens, and the weights of "encoder", "decoder" and "cross" by layer, head, query and key.
"""

import argparse
import json
import os
from pathlib import Path

from msgspec.structs import asdict

from transformer.commandline import json_object, positive, stage_parser
from transformer.config.experiment import Decoding, Experiment, load
from transformer.data.subwords import Subwords
from transformer.data.tokenization import Moses
from transformer.files import InputError, replacing
from transformer.text import draw, read_lines

# What loads torch or pandas is imported where it is used: a sentence that cannot be read is refused at once.


def main(argv: list[str] | None = None) -> None:
    """Choose sentences, translate them, and write the weights of all heads."""
    args = parse(argv)
    experiment = load(args.run / "experiment.yaml")
    vocabulary = Subwords(args.run / "vocabulary.model").fitting(experiment.model.embedding_rows)
    sentences = of_figures(args.figures) + of_text(args, experiment, vocabulary)
    if not sentences:
        raise InputError(f"{args.text}: expected a sentence of at most {args.longest} tokens, found none")
    from transformer.evaluation.records import run_name

    content = {
        "run": run_name(asdict(experiment)),
        "label": experiment.label,
        "layers": experiment.model.N,
        "heads": experiment.model.h,
        "sentences": described(args, experiment, vocabulary, sentences),
    }
    with replacing(args.output) as file:
        json.dump(content, file, ensure_ascii=False, separators=(",", ":"))
    print(f"{args.output}: {len(sentences)} sentences, {args.output.stat().st_size:,} bytes")


def of_figures(figures: dict) -> list[dict]:
    """Return the sentences of the figures; figures of one sentence share it."""
    sentences = []
    for text in dict.fromkeys(entry["text"] for entry in figures.values()):
        own = {name: entry for name, entry in figures.items() if entry["text"] == text}
        title = " and ".join(name.replace("figure", "Figure ") for name in own)
        sentences.append({"title": title, "text": text, "figures": own})
    return sentences


def of_text(args: argparse.Namespace, experiment: Experiment, vocabulary: Subwords) -> list[dict]:
    """Return the sentences of --text."""
    lines = list(read_lines(args.text))
    lengths = map(len, encode(experiment, vocabulary, lines))
    short = [number for number, length in enumerate(lengths) if 1 < length <= args.longest]  # 1 is a blank line
    return [
        {"title": f"Sentence {number + 1} of {args.text.name}", "text": lines[number], "figures": {}}
        for number in draw(short, len(short), args.count)
    ]


def encode(experiment: Experiment, vocabulary: Subwords, texts: list[str]) -> list[list[int]]:
    """Return raw sentences as ids, each ending in EOS."""
    moses = Moses(experiment.source, experiment.preparation)
    return vocabulary.encode([moses.tokenize(text) for text in texts])


def described(
    args: argparse.Namespace, experiment: Experiment, vocabulary: Subwords, sentences: list[dict]
) -> list[dict]:
    """Return the sentences with their tokens and weights."""
    import torch

    from transformer.model.weights import load_model
    from transformer.report.figures.attention import describe
    from transformer.runtime.device import best_device
    from transformer.translation.translator import search

    torch.set_num_threads(args.threads)
    model = load_model(args.weights or args.run / "average.safetensors", experiment.model).to(best_device())
    sources = encode(experiment, vocabulary, [sentence["text"] for sentence in sentences])
    translations = search(model, len(vocabulary), sources, load(args.run / "decoding.yaml", Decoding))
    return [
        sentence | describe(model, vocabulary, source, target)
        for sentence, source, (target, _) in zip(sentences, sources, translations, strict=True)
    ]


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = stage_parser("attend", __doc__)
    parser.add_argument("--run", required=True, type=Path, help="folder of a trained run")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="RUN/average.safetensors if not given")
    parser.add_argument(
        "--figures", type=json_object, default={}, metavar="JSON", help="by name of figure: text, and from and to"
    )
    parser.add_argument("--text", required=True, type=Path, metavar="FILE", help="more sentences, one a line")
    parser.add_argument("--count", required=True, type=int, help="how many of them")
    parser.add_argument("--longest", required=True, type=int, help="tokens that one of them has at most")
    parser.add_argument("--output", required=True, type=Path, metavar="FILE", help="the JSON to write")
    parser.add_argument("--threads", type=positive, default=os.cpu_count(), help="processor threads; all if not given")
    return parser.parse_args(argv)
