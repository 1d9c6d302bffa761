"""The speed of translation, beside CTranslate2 and Hugging Face's Transformers with the same weights.

Each system is in a process of its own, because libraries that share one disturb each other's threads. Every system
translates a chunk before any goes on to the next; only one works at a time.
"""

import json
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch
from cyclopts.types import PositiveInt
from msgspec import structs
from torch import nn

from benchmarks.results import LeftOut, command, leave, opened, require, timed
from transformer.config.experiment import EOS, PAD, Decoding, load
from transformer.data.corpus import Subwords, TokenArray
from transformer.device import best_device
from transformer.evaluation.bleu import multi_bleu
from transformer.files import InputError
from transformer.layout import SIDES, Data, Run
from transformer.model.transformer import Transformer
from transformer.model.weights import load_model
from transformer.translation.decoder import Weights
from transformer.translation.marian import save_marian
from transformer.translation.translator import by_length, search

TOKENS = "tokens"  # the batch size that is the run's own
ANY = 10**9  # tokens: all sentences of a call are one batch
THREADS = os.cpu_count() or 1
Ids = list[list[int]]


class Ours:
    """This project's search. Every system turns sentences, ids that end in EOS, into ids without EOS."""

    def __init__(self, model: Transformer, rows: int, decoding: Decoding):
        self.model, self.rows, self.decoding, self.weights = model, rows, decoding, Weights(model)

    def translate(self, sentences: Ids, beam: int, tokens: int) -> Ids:
        """Translate in batches of at most `tokens` padded tokens."""
        decoding = structs.replace(self.decoding, beam=beam, batch_tokens=tokens)
        return [ids for ids, _ in search(self.model, self.rows, sentences, decoding, weights=self.weights)]


class Marian:
    """MarianMTModel of an exported folder, a padded batch at a time."""

    def __init__(self, folder: Path, decoding: Decoding):
        from transformers import MarianMTModel

        self.decoding = decoding
        self.model = MarianMTModel.from_pretrained(folder).to(best_device()).eval()

    @torch.inference_mode()
    def translate(self, sentences: Ids, beam: int, tokens: int) -> Ids:
        """Translate as Ours does. All sentences of a batch get the largest limit; outputs are cut."""
        results, pad = [[]] * len(sentences), self.model.config.pad_token_id
        for batch in by_length(sentences, tokens):
            rows = [torch.tensor(sentences[index]) for index in batch]
            limits = [len(row) + self.decoding.extra_length for row in rows]
            source = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad).to(self.model.device)
            options = {"num_beams": beam, "length_penalty": self.decoding.alpha, "max_new_tokens": max(limits)}
            options["attention_mask"] = (source != pad).long()
            found = self.model.generate(input_ids=source, do_sample=False, **options)[:, 1:].tolist()
            for index, ids, limit in zip(batch, found, limits, strict=True):
                results[index] = (ids[: ids.index(EOS)] if EOS in ids else ids)[:limit]
        return results


class CTranslate2:
    """CTranslate2's own converter and search: with several sentences for each thread, side by side, one a thread."""

    def __init__(self, folder: Path, rows: int, decoding: Decoding, compute_type: str):
        require("ctranslate2")
        if best_device().type != "cpu":
            raise LeftOut("compared on the processor alone")
        import ctranslate2
        from ctranslate2.converters import TransformersConverter

        TransformersConverter(str(folder)).convert(str(folder / "ctranslate2"))
        opened = partial(ctranslate2.Translator, str(folder / "ctranslate2"), compute_type=compute_type)
        self.decoding, self.threads = decoding, torch.get_num_threads()
        self.shared = opened(inter_threads=1, intra_threads=self.threads)
        self.side_by_side = opened(inter_threads=self.threads, intra_threads=1)
        vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        self.ids, self.names = vocabulary, list(vocabulary)
        self.never = [[self.names[row]] for row in (PAD, *range(rows, len(self.names) - 1))]

    def translate(self, sentences: Ids, beam: int, tokens: int) -> Ids:
        limits = [len(sentence) + self.decoding.extra_length for sentence in sentences]
        share = -(-sum(map(len, sentences)) // self.threads)
        engine = self.side_by_side if len(sentences) >= 4 * self.threads else self.shared
        found = engine.translate_batch(
            [[self.names[token] for token in sentence] for sentence in sentences],
            beam_size=beam,
            length_penalty=self.decoding.alpha,
            suppress_sequences=self.never,
            max_input_length=0,
            min_decoding_length=0,
            max_decoding_length=max(limits),
            batch_type="tokens",
            max_batch_size=max(min(share if engine is self.side_by_side else ANY, tokens), *map(len, sentences), 1),
        )
        return [
            [self.ids[name] for name in each.hypotheses[0]][:limit] for each, limit in zip(found, limits, strict=True)
        ]


NAMES = {
    "ours": "this project",
    "ctranslate2": "CTranslate2, float32",
    "ctranslate2-int8": "CTranslate2, int8",
    "transformers": "Transformers (MarianMTModel)",
}
system: Any = None  # of this process, if it is a worker's


def start(name: str, folder: Path, run: Run, data: Data, threads: int) -> None:
    """Open a system in this worker. Raises LeftOut if it cannot translate with this model."""
    global system
    torch.set_num_threads(threads)
    experiment, decoding = load(run.experiment), load(run.decoding, Decoding)
    model, vocabulary = load_model(run.average, experiment.model), Subwords(data.vocabulary)
    if name == "ours":
        system = Ours(model.to(best_device()), len(vocabulary), decoding)
        return
    require("transformers")
    try:
        save_marian(model, vocabulary, experiment, decoding, folder)
    except InputError as refusal:
        raise LeftOut(str(refusal)) from None
    if name == "transformers":
        system = Marian(folder, decoding)
    else:
        system = CTranslate2(folder, len(vocabulary), decoding, "int8" if name.endswith("int8") else "float32")


def translate(*arguments: Any) -> tuple[float, Ids]:
    """Translate in this worker; return the seconds and the outputs."""
    return timed(lambda: system.translate(*arguments))


def apart(name: str, stack: ExitStack, *work: Any) -> Callable[..., tuple[float, Ids]]:
    """Open a system in a process of its own; return its `translate`."""
    pool = stack.enter_context(ProcessPoolExecutor(1, get_context("spawn")))
    pool.submit(start, name, *work).result()
    return lambda *sentences: pool.submit(translate, *sentences).result()


@dataclass
class Translated:
    """One system's outputs, by the sentences' indices, and the seconds that all took."""

    outputs: dict[int, list[int]] = field(default_factory=dict)
    seconds: float = 0.0


def main(
    *,
    run: Path,
    data: Path,
    systems: list[Literal["ours", "ctranslate2", "ctranslate2-int8", "transformers"]] | None = None,
    batches: list[PositiveInt] | None = None,
    sentences: PositiveInt = 512,
    threads: PositiveInt = THREADS,
    output: Path | None = None,
) -> None:
    """Measure the speed of translation beside other systems'.

    python -m benchmarks.decode --run results/multi30k/runs/en-de/base/1 --data results/multi30k/data/en-de

    Args:
        run: A trained run.
        data: The folder of its data.
        batches: Sentences in a batch: 1, 8, 64 and 512 if not given. Batches by tokens come last.
        sentences: How many of the dev set's first.
        output: The JSON file; results/decode-LABEL.json if not given.
    """
    trained, prepared = Run(run), Data(data)
    decoding, experiment = load(trained.decoding, Decoding), load(trained.experiment)
    arrays = (TokenArray.open(prepared.ids("dev", name), prepared.offsets("dev", name)) for name in SIDES)
    sources, references = ([each[index].tolist() for index in range(min(sentences, len(each)))] for each in arrays)
    # OpenMP's threads would spin for milliseconds after a turn, and so into the next system's.
    os.environ["OMP_WAIT_POLICY"] = "passive"
    with TemporaryDirectory() as folder, ExitStack() as stack:
        kinds = {name: partial(apart, name, stack) for name in systems or NAMES}
        workers, left_out = opened(kinds, NAMES, Path(folder), trained, prepared, threads)
        take_turns(workers, sources, [list(range(min(8, len(sources))))], decoding.beam, ANY)  # warm-up
        taken = {
            size: measured(workers, sources, size, decoding, threads, decoding.beam)
            for size in [*(batches or (1, 8, 64, 512)), TOKENS]
        }
        greedy = measured(workers, sources, TOKENS, decoding, threads, beam=1)
    found = {name: {"name": NAMES[name]} | speeds(name, taken, len(sources)) for name in workers}
    for name, scores in quality(taken[TOKENS], greedy, references, Subwords(prepared.vocabulary)).items():
        found[name] |= scores
    about = {"beam": decoding.beam, "sentences": len(sources), "left_out": left_out}
    leave("decode", f"{experiment.scale}-{run.parent.name}", output, found, **about)


def measured(
    workers: dict[str, Callable], sources: Ids, size: int | str, decoding: Decoding, threads: int, beam: int
) -> dict[str, Translated]:
    """Translate all sentences by every system: a batch at a time or, by tokens, a batch for each thread."""
    tokens = decoding.batch_tokens
    if size == TOKENS:
        return take_turns(workers, sources, by_length(sources, tokens * threads), beam, tokens)
    order = sorted(range(len(sources)), key=lambda index: -len(sources[index]))
    return take_turns(workers, sources, [order[at : at + size] for at in range(0, len(order), size)], beam, ANY)


def take_turns(
    workers: dict[str, Callable], sources: Ids, chunks: list[list[int]], beam: int, tokens: int
) -> dict[str, Translated]:
    """Translate each chunk, a list of sentences' indices, by one system after another."""
    taken = {name: Translated() for name in workers}
    for chunk in chunks:
        for name, worker in workers.items():
            seconds, outputs = worker([sources[index] for index in chunk], beam, tokens)
            taken[name].seconds += seconds
            taken[name].outputs |= dict(zip(chunk, outputs, strict=True))
    return taken


def speeds(name: str, taken: dict[int | str, dict[str, Translated]], sentences: int) -> dict[str, float]:
    """Return a system's sentences a second by the size of batches, and its slowness beside the first system at best."""
    best = {each: min(of_size[each].seconds for of_size in taken.values()) for each in next(iter(taken.values()))}
    found = {f"sentences/s, {size} a batch": sentences / each[name].seconds for size, each in taken.items()}
    return found | {"times_slower": best[name] / next(iter(best.values()))}


def quality(taken: dict, greedy: dict, references: Ids, vocabulary: Subwords) -> dict[str, dict]:
    """Return BLEU of each system's outputs, on tokens, and the shares that equal the first system's, word for word."""
    truth = vocabulary.decode(references)

    def same(name: str, of_all: dict[str, Translated]) -> float:
        first = next(iter(of_all.values())).outputs
        return sum(first[index] == ids for index, ids in of_all[name].outputs.items()) / len(first)

    return {
        name: {
            "bleu": multi_bleu(vocabulary.decode([each.outputs[i] for i in range(len(truth))]), truth, "dev")["score"],
            "same_by_beam": same(name, taken),
            "same_greedy": same(name, greedy),
        }
        for name, each in taken.items()
    }


if __name__ == "__main__":
    command(main)
