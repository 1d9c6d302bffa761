"""How fast a model translates, beside CTranslate2, JoeyNMT and Hugging Face's Transformers with the same weights.

    python -m benchmarks.decode --run results/multi30k/runs/en-de/base/1 --data results/multi30k/data/en-de

Takes sentences of the dev set, cut into subwords already, in batches of some sentences, and of the run's own
`batch_tokens`. Every system translates a batch before any goes on to the next, in one process on the same machine.
Then all are compared: how many outputs are this project's, greedy and by the run's beam, and BLEU.
"""

import argparse
import os
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks.decoders import CTranslate2, CTranslate2Int8, Ours, Trained
from benchmarks.joey_decoder import JoeyDecoder
from benchmarks.marian import Marian
from benchmarks.results import circumstances, leave, markdown, open_systems, parser_of, ratio
from benchmarks.timing import timed
from transformer.bleu import multi_bleu
from transformer.checkpoints import load_model
from transformer.config import Decoding, load
from transformer.corpus import SIDES, TokenArray
from transformer.model import best_device
from transformer.subwords import Subwords

SYSTEMS = {
    "ours": Ours,
    "ctranslate2": CTranslate2,
    "ctranslate2-int8": CTranslate2Int8,
    "joeynmt": JoeyDecoder,
    "transformers": Marian,
}
TOKENS = "tokens"  # the batch size that is the run's own
GREEDY = 1  # beam


@dataclass
class Translated:
    """What one system made of the sentences: ids by their indices, and the seconds that each batch took."""

    outputs: dict[int, list[int]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)


def main(argv: list[str] | None = None) -> None:
    """Measure each batch size, compare, write, print."""
    args = parse(argv)
    torch.set_num_threads(args.threads)
    trained = open_run(args)
    sources, references = (side(args.data, name, args.sentences) for name in SIDES)
    with TemporaryDirectory() as folder:
        systems, left_out = open_systems(SYSTEMS, args.systems, trained, Path(folder))
        warm_up(systems, sources, trained.decoding.beam)
        runs = {size: rounds(systems, sources, size, trained.decoding) for size in [*args.batches, TOKENS]}
        greedy = all_of(systems, sources, GREEDY, trained.decoding)
    by_beam = {name: taken.outputs for name, taken in runs[TOKENS].items()}
    label = f"{load(args.run / 'experiment.yaml').scale}-{args.run.parent.name}"
    torch.set_num_threads(args.threads)
    result = circumstances("decode", args) | {
        "label": label,
        "beam": trained.decoding.beam,
        "sentences": len(sources),
        "left_out": left_out,
        "names": {name: SYSTEMS[name].name for name in systems},
        "batches": {str(size): speeds(taken) for size, taken in runs.items()},
        "quality": quality(by_beam, greedy, references, trained.vocabulary),
    }
    leave(result, table(result), args, label)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = parser_of("decode", __doc__)
    parser.add_argument("--run", type=Path, required=True, help="a trained run")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="RUN/average.safetensors if not given")
    parser.add_argument("--data", type=Path, required=True, help="the folder of its data")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), metavar="SYSTEM")
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 8, 64, 512], help="sentences in a batch")
    parser.add_argument("--sentences", type=int, default=512, help="the dev set's first ones")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    return parser.parse_args(argv)


def open_run(args: argparse.Namespace) -> Trained:
    experiment = load(args.run / "experiment.yaml")
    model = load_model(args.weights or args.run / "average.safetensors", experiment.model).to(best_device())
    vocabulary = Subwords(args.data / "vocabulary.model")
    return Trained(model, vocabulary, load(args.run / "decoding.yaml", Decoding), args.run, args.data, args.threads)


def side(data: Path, name: str, count: int) -> list[list[int]]:
    """The dev set's first sentences on one side, as ids that end in EOS."""
    array = TokenArray.open(*(data / f"dev.{name}.{kind}" for kind in ("ids", "offsets")))
    return [array[index].tolist() for index in range(min(count, len(array)))]


def warm_up(systems: dict, sources: list[list[int]], beam: int) -> None:
    """Whatever is done but once is done here."""
    for system in systems.values():
        system.translate(sources[:8], beam)


def rounds(systems: dict, sources: list[list[int]], size: int | str, decoding: Decoding) -> dict[str, Translated]:
    """Every system on every batch of this size, batch by batch."""
    taken = {name: Translated() for name in systems}
    for batch in batches(sources, size, decoding.batch_tokens):
        for name, system in systems.items():
            translate(system, taken[name], sources, batch, decoding.beam)
    return taken


def all_of(systems: dict, sources: list[list[int]], beam: int, decoding: Decoding) -> dict[str, dict[int, list[int]]]:
    """Every system's outputs by this beam."""
    taken = {name: Translated() for name in systems}
    for name, system in systems.items():
        for batch in batches(sources, TOKENS, decoding.batch_tokens):
            translate(system, taken[name], sources, batch, beam)
    return {name: each.outputs for name, each in taken.items()}


def translate(system, taken: Translated, sources: list[list[int]], batch: list[int], beam: int) -> None:
    """One batch by one system."""
    torch.set_num_threads(system.trained.threads)  # CTranslate2 sets it to one
    seconds, outputs = timed(lambda: system.translate([sources[index] for index in batch], beam))
    taken.seconds.append(seconds)
    taken.outputs |= dict(zip(batch, outputs, strict=True))


def batches(sources: list[list[int]], size: int | str, batch_tokens: int) -> list[list[int]]:
    """Indices of the sentences, sorted by length, so many in a batch; by tokens, at most `batch_tokens` padded ones."""
    found: list[list[int]] = []
    for index in sorted(range(len(sources)), key=lambda index: -len(sources[index])):
        most = max(1, batch_tokens // len(sources[found[-1][0]])) if size == TOKENS and found else size
        if found and len(found[-1]) < most:
            found[-1].append(index)
        else:
            found.append([index])
    return found


def speeds(taken: dict[str, Translated]) -> dict[str, dict]:
    """Of one batch size, the speed of each system: over all its batches, and beside the first system's."""
    first = next(iter(taken.values()))
    return {
        name: {
            "seconds": sum(each.seconds),
            "tokens": sum(map(len, each.outputs.values())) + len(each.outputs),
            "sentences_per_second": len(each.outputs) / sum(each.seconds),
            "tokens_per_second": (sum(map(len, each.outputs.values())) + len(each.outputs)) / sum(each.seconds),
            "times_slower": ratio(each.seconds, first.seconds),
        }
        for name, each in taken.items()
    }


def quality(by_beam: dict, greedy: dict, references: list[list[int]], vocabulary: Subwords) -> dict[str, dict]:
    """BLEU of each system's outputs, on tokens, and how many of them are the first system's, word for word."""
    truth = vocabulary.decode(references)
    return {
        name: {
            "bleu": multi_bleu(vocabulary.decode([outputs[i] for i in range(len(truth))]), truth, "dev")["score"],
            "same_by_beam": same(outputs, by_beam),
            "same_greedy": same(greedy[name], greedy),
        }
        for name, outputs in by_beam.items()
    }


def same(outputs: dict[int, list[int]], of_all: dict[str, dict[int, list[int]]]) -> float:
    """The part of the outputs that are the first system's."""
    first = next(iter(of_all.values()))
    return sum(first[index] == ids for index, ids in outputs.items()) / len(outputs)


def table(result: dict) -> str:
    """The result in Markdown."""
    rows = [row(name, title, result) for name, title in result["names"].items()]
    title = f"Translating {result['sentences']} sentences with a beam of {result['beam']}: sentences/s by batch"
    return markdown(title, rows, result)


def row(name: str, title: str, result: dict) -> dict:
    """A line of the table."""
    ours = next(iter(result["names"].values()))
    of_sizes = {size: systems[name] for size, systems in result["batches"].items()}
    best = max(result["batches"][size][name]["sentences_per_second"] for size in of_sizes)
    first = max(next(iter(systems.values()))["sentences_per_second"] for systems in result["batches"].values())
    found = result["quality"][name]
    return {
        "System": title,
        **{heading(size): f"{each['sentences_per_second']:,.1f}" for size, each in of_sizes.items()},
        "Tokens/s by tokens": f"{of_sizes[TOKENS]['tokens_per_second']:,.0f}",
        f"{ours.capitalize()} is faster": f"{first / best:.2f} x",
        "BLEU": f"{found['bleu']:.2f}",
        "Same by beam": f"{found['same_by_beam']:.1%}",
        "Same greedy": f"{found['same_greedy']:.1%}",
    }


def heading(size: str) -> str:
    return "By tokens" if size == TOKENS else f"{size} a batch"


if __name__ == "__main__":
    main()
