"""The speed of translation, beside CTranslate2, JoeyNMT and Hugging Face's Transformers with the same weights.

    python -m benchmarks.decode --run results/multi30k/runs/en-de/base/1 --data results/multi30k/data/en-de

The sentences are the dev set's first, already cut into subwords. A chunk of them is one batch or, by the run's own
`batch_tokens`, a batch for each thread. Every system, in a process of its own, translates a chunk before any goes on to
the next; only one works at a time. Then the outputs are compared: how many are the same as this project's, greedy and
by the run's beam, and BLEU.
"""

import argparse
import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks.decoders import ANY, CTranslate2, CTranslate2Int8, Ours, open_run
from benchmarks.joey_decoder import JoeyDecoder
from benchmarks.marian import Marian
from benchmarks.results import circumstances, command, leave, markdown, open_systems, parser_of, ratio
from benchmarks.workers import Apart, Worker
from transformer.config.experiment import Decoding, load
from transformer.data.corpus import TokenArray
from transformer.data.subwords import Subwords
from transformer.evaluation.bleu import multi_bleu
from transformer.layout import SIDES

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
    """One system's outputs by one setting: ids by the sentences' indices, and the seconds of each chunk."""

    setting: str
    outputs: dict[int, list[int]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """Return the number of tokens in the outputs, EOS among them."""
        return sum(map(len, self.outputs.values())) + len(self.outputs)


@dataclass(frozen=True)
class Text:
    """Source sentences, and chunks of their indices to translate together, in batches of at most `tokens` tokens."""

    sources: list[list[int]]
    chunks: list[list[int]]
    tokens: int

    def sentences(self, chunk: list[int]) -> list[list[int]]:
        return [self.sources[index] for index in chunk]


def main(argv: list[str] | None = None) -> None:
    """Measure each batch size, compare the systems, and write and print the result."""
    args = parse(argv)
    torch.set_num_threads(args.threads)
    decoding = load(args.run / "decoding.yaml", Decoding)
    sources, references = (side(args.data, name, args.sentences) for name in SIDES)
    texts = {size: chunked(sources, size, decoding.batch_tokens, args.threads) for size in [*args.batches, TOKENS]}
    with TemporaryDirectory() as folder, ExitStack() as stack:
        work = partial(open_run, args.run, args.data, args.weights, args.threads)
        kinds = {name: Apart(kind, args.threads, stack) for name, kind in SYSTEMS.items()}
        workers, left_out = open_systems(kinds, args.systems, work, Path(folder))
        warm_up(workers, sources, decoding.beam)
        runs = {size: rounds(workers, text, decoding.beam) for size, text in texts.items()}
        greedy = {name: each[0].outputs for name, each in rounds(workers, texts[TOKENS], GREEDY, settings=1).items()}
        steps = {name: count_steps(worker, texts[TOKENS], decoding.beam) for name, worker in workers.items()}
    label = f"{load(args.run / 'experiment.yaml').scale}-{args.run.parent.name}"
    by_beam = {name: fastest(taken) for name, taken in runs[TOKENS].items()}
    result = circumstances("decode", args) | {
        "label": label,
        "beam": decoding.beam,
        "sentences": len(sources),
        "left_out": left_out,
        "names": {name: SYSTEMS[name].name for name in workers},
        "batches": {str(size): speeds(taken) for size, taken in runs.items()},
        "work": work_of(by_beam, steps),
        "quality": quality(by_beam, greedy, references, Subwords(args.data / "vocabulary.model")),
    }
    leave(result, table(result), args, label)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = parser_of("decode", __doc__)
    parser.add_argument("--run", type=Path, required=True, help="a trained run")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="RUN/average.safetensors if not given")
    parser.add_argument("--data", type=Path, required=True, help="the folder of its data")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), metavar="SYSTEM")
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 8, 64, 512], help="sentences in a batch")
    parser.add_argument("--sentences", type=int, default=512, help="the dev set's first ones")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    return parser.parse_args(argv)


def side(data: Path, name: str, count: int) -> list[list[int]]:
    """Return the dev set's first sentences on one side, as ids that end in EOS."""
    array = TokenArray.open(*(data / f"dev.{name}.{kind}" for kind in ("ids", "offsets")))
    return [array[index].tolist() for index in range(min(count, len(array)))]


def chunked(sources: list[list[int]], size: int | str, batch_tokens: int, threads: int) -> Text:
    """Cut the sentences into chunks: by number, of one batch; by tokens, of one batch for each thread."""
    if size == TOKENS:
        return Text(sources, batches(sources, size, batch_tokens * threads), batch_tokens)
    return Text(sources, batches(sources, size, batch_tokens), ANY)


def warm_up(workers: dict[str, Worker], sources: list[list[int]], beam: int) -> None:
    """Translate a few sentences, so that no measurement has the work that is done only once."""
    text = Text(sources, [list(range(min(8, len(sources))))], ANY)
    rounds(workers, text, beam)


def rounds(
    workers: dict[str, Worker], text: Text, beam: int, settings: int | None = None
) -> dict[str, list[Translated]]:
    """Translate every chunk by every system, in turns, with each of its settings or the first `settings` of them."""
    taken = {name: [Translated(each) for each in worker.settings[:settings]] for name, worker in workers.items()}
    for chunk in text.chunks:
        # Systems alternate within a turn, too: what ran just before would find the machine's caches full of its own.
        for number in range(max(map(len, taken.values()))):
            for name, each in taken.items():
                if number < len(each):
                    seconds, outputs = workers[name].timed(
                        "translate", text.sentences(chunk), beam, text.tokens, number
                    )
                    each[number].seconds.append(seconds)
                    each[number].outputs |= dict(zip(chunk, outputs, strict=True))
    return taken


def count_steps(worker: Worker, text: Text, beam: int) -> int:
    """Count the decoder's steps, each of them once for every sentence in it."""
    return sum(worker.timed("steps", text.sentences(chunk), beam, text.tokens)[1] for chunk in text.chunks)


def batches(sources: list[list[int]], size: int | str, batch_tokens: int) -> list[list[int]]:
    """Return batches of the sentences' indices, sorted by length.

    A batch has `size` sentences or, if `size` is TOKENS, at most `batch_tokens` padded tokens.
    """
    groups: list[list[int]] = []
    for index in sorted(range(len(sources)), key=lambda index: -len(sources[index])):
        most = max(1, batch_tokens // len(sources[groups[-1][0]])) if size == TOKENS and groups else size
        if groups and len(groups[-1]) < most:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def fastest(taken: list[Translated]) -> Translated:
    """Return the outputs of the setting that took the least time."""
    return min(taken, key=lambda each: sum(each.seconds))


def speeds(taken: dict[str, list[Translated]]) -> dict[str, dict]:
    """Return each system's speed by its fastest setting: over all chunks, and beside the first system's."""
    best = {name: fastest(settings) for name, settings in taken.items()}
    first = next(iter(best.values()))
    return {
        name: {
            "seconds": sum(each.seconds),
            "tokens": each.tokens,
            "sentences_per_second": len(each.outputs) / sum(each.seconds),
            "tokens_per_second": each.tokens / sum(each.seconds),
            "times_slower": ratio(each.seconds, first.seconds),
            "setting": each.setting,
            "seconds_by_setting": {outputs.setting: sum(outputs.seconds) for outputs in taken[name]},
        }
        for name, each in best.items()
    }


def work_of(by_beam: dict[str, Translated], steps: dict[str, int]) -> dict[str, dict]:
    """Return two means for each system: the decoder's steps and the output's tokens, with EOS, per sentence."""
    return {
        name: {"steps": steps[name] / len(each.outputs), "tokens": each.tokens / len(each.outputs)}
        for name, each in by_beam.items()
    }


def quality(
    by_beam: dict[str, Translated], greedy: dict, references: list[list[int]], vocabulary: Subwords
) -> dict[str, dict]:
    """Return BLEU of each system's outputs, on tokens, and the shares that equal the first system's, word for word."""
    truth = vocabulary.decode(references)
    outputs_of = {name: each.outputs for name, each in by_beam.items()}
    return {
        name: {
            "bleu": multi_bleu(vocabulary.decode([outputs[i] for i in range(len(truth))]), truth, "dev")["score"],
            "same_by_beam": same(outputs, outputs_of),
            "same_greedy": same(greedy[name], greedy),
        }
        for name, outputs in outputs_of.items()
    }


def same(outputs: dict[int, list[int]], of_all: dict[str, dict[int, list[int]]]) -> float:
    """Return the share of the outputs that are the same as the first system's."""
    first = next(iter(of_all.values()))
    return sum(first[index] == ids for index, ids in outputs.items()) / len(outputs)


def table(result: dict) -> str:
    """Return the result in Markdown."""
    rows = [row(name, title, result) for name, title in result["names"].items()]
    title = f"Translating {result['sentences']} sentences with a beam of {result['beam']}: sentences/s by batch"
    return markdown(title, rows, result)


def row(name: str, title: str, result: dict) -> dict:
    """Return a system's line of the table."""
    ours = next(iter(result["names"].values()))
    of_sizes = {size: systems[name] for size, systems in result["batches"].items()}
    best = max(result["batches"][size][name]["sentences_per_second"] for size in of_sizes)
    first = max(next(iter(systems.values()))["sentences_per_second"] for systems in result["batches"].values())
    scores = result["quality"][name]
    return {
        "System": title,
        **{heading(size): f"{each['sentences_per_second']:,.1f}" for size, each in of_sizes.items()},
        f"{ours.capitalize()} is faster": f"{first / best:.2f} x",
        "Steps": f"{result['work'][name]['steps']:.1f}",
        "Tokens": f"{result['work'][name]['tokens']:.1f}",
        "BLEU": f"{scores['bleu']:.2f}",
        "Same by beam": f"{scores['same_by_beam']:.1%}",
        "Same greedy": f"{scores['same_greedy']:.1%}",
    }


def heading(size: str) -> str:
    return "By tokens" if size == TOKENS else f"{size} a batch"


if __name__ == "__main__":
    command(main)
