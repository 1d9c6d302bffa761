"""Benchmark of translation against CTranslate2 and Hugging Face's Transformers, with equal weights."""

import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from typing import Any

import cyclopts
import torch
from cyclopts.types import PositiveInt
from msgspec import structs
from torch import nn

from benchmarks.results import THREADS, LeftOut, leave, opened, require, timed
from transformer.config.experiment import EOS, PAD, Decoding, load
from transformer.data.corpus import Subwords, TokenArray
from transformer.device import best_device
from transformer.evaluation.bleu import multi_bleu
from transformer.layout import SIDES, Data, Run
from transformer.model.seq2seq import Seq2Seq
from transformer.model.weights import load_model
from transformer.storage.files import InputError
from transformer.translation.marian import save_marian
from transformer.translation.translator import by_length, search

PAUSE = 0.3  # seconds before a turn, because OpenMP's threads spin for up to 0.2 seconds after the last one
TURN = 64  # minimum number of sentences per turn
TOKENS = "tokens"  # the batch size in the run's settings
ANY = 10**9  # no limit on tokens: all sentences of a call form one batch
Ids = list[list[int]]
# Arguments: sentences as ids with EOS, the beam size, the maximum of padded tokens in a batch. Result: ids without EOS.
System = Callable[[Ids, int, int], Ids]


def ours(model: Seq2Seq, rows: int, decoding: Decoding) -> System:
    """Open this project's search."""
    decoders = model.incremental()

    def translate(sentences: Ids, beam: int, tokens: int) -> Ids:
        own = structs.replace(decoding, beam_size=beam, max_tokens=tokens)
        return [ids for ((ids, _),) in search(model, rows, sentences, own, decoders=decoders)]

    return translate


def marian(folder: Path, decoding: Decoding) -> System:
    """Open Transformers' model from an export. A batch uses its largest limit; longer outputs are then cut."""
    from transformers import MarianMTModel

    model = MarianMTModel.from_pretrained(folder).to(best_device()).eval()
    pad = model.config.pad_token_id

    @torch.inference_mode()
    def translate(sentences: Ids, beam: int, tokens: int) -> Ids:
        results = [[]] * len(sentences)
        options = {"num_beams": beam, "length_penalty": decoding.length_penalty, "do_sample": False}
        for batch in by_length(sentences, tokens):
            rows = [torch.tensor(sentences[index]) for index in batch]
            limits = [len(row) + decoding.extra_length for row in rows]
            source = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad).to(model.device)
            mask = (source != pad).long()
            found = model.generate(source, attention_mask=mask, max_new_tokens=max(limits), **options)
            for index, ids, limit in zip(batch, found[:, 1:].tolist(), limits, strict=True):
                results[index] = (ids[: ids.index(EOS)] if EOS in ids else ids)[:limit]
        return results

    return translate


def ctranslate2(folder: Path, rows: int, decoding: Decoding, compute_type: str) -> System:
    """Convert an export to CTranslate2 and open its search. It translates many sentences in parallel, one a thread."""
    require("ctranslate2")
    if best_device().type != "cpu":
        raise LeftOut("this benchmark compares CTranslate2 only on the CPU")
    from ctranslate2 import Translator
    from ctranslate2.converters import TransformersConverter

    TransformersConverter(str(folder)).convert(str(folder / "ctranslate2"))
    threads, open_engine = torch.get_num_threads(), partial(Translator, str(folder / "ctranslate2"))
    shared = open_engine(compute_type=compute_type, inter_threads=1, intra_threads=threads)
    side_by_side = open_engine(compute_type=compute_type, inter_threads=threads, intra_threads=1)
    ids_of = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    names = list(ids_of)
    never = [[names[row]] for row in (PAD, *range(rows, len(names) - 1))]

    def translate(sentences: Ids, beam: int, tokens: int) -> Ids:
        limits = [len(sentence) + decoding.extra_length for sentence in sentences]
        engine, most = shared, tokens
        if len(sentences) >= 4 * threads:
            engine, most = side_by_side, min(-(-sum(map(len, sentences)) // threads), tokens)
        options = {"beam_size": beam, "length_penalty": decoding.length_penalty, "suppress_sequences": never}
        options |= {"max_input_length": 0, "min_decoding_length": 0, "max_decoding_length": max(limits)}
        options |= {"batch_type": "tokens", "max_batch_size": max(most, *map(len, sentences), 1)}
        found = engine.translate_batch([[names[token] for token in sentence] for sentence in sentences], **options)
        outputs = ([ids_of[name] for name in each.hypotheses[0]] for each in found)
        return [ids[:limit] for ids, limit in zip(outputs, limits, strict=True)]

    return translate


NAMES = {
    "ours": "this project",
    "ctranslate2": "CTranslate2, float32",
    "ctranslate2-int8": "CTranslate2, int8",
    "transformers": "Transformers (MarianMTModel)",
}
system: System | None = None  # the system of this process, if this is a worker


def start(name: str, folder: Path, run: Run, data: Data, threads: int) -> None:
    """Open a system in this worker. Raises LeftOut if the system cannot translate with this model."""
    global system
    torch.set_num_threads(threads)
    experiment, decoding = load(run.experiment), load(run.decoding, Decoding)
    model, vocabulary = load_model(run.average, experiment.model), Subwords(data.vocabulary)
    if name == "ours":
        system = ours(model.to(best_device()), len(vocabulary), decoding)
        return
    require("transformers")
    try:
        save_marian(model, vocabulary, experiment, decoding, folder)
    except InputError as refusal:
        raise LeftOut(str(refusal)) from None
    if name == "transformers":
        system = marian(folder, decoding)
    else:
        system = ctranslate2(folder, len(vocabulary), decoding, "int8" if name.endswith("int8") else "float32")


def translate(batches: list[Ids], *settings: int) -> tuple[float, Ids]:
    """Translate batches in this worker; return the seconds and the outputs."""
    sleep(PAUSE)
    return timed(lambda: [output for batch in batches for output in system(batch, *settings)])


def apart(name: str, stack: ExitStack, *work: Any) -> Callable[..., tuple[float, Ids]]:
    """Open a system in its own process, where it does not disturb other systems' threads. Return its `translate`."""
    pool = stack.enter_context(ProcessPoolExecutor(1, get_context("spawn")))
    pool.submit(start, name, *work).result()
    return lambda *turn: pool.submit(translate, *turn).result()


@dataclass
class Translated:
    """One system's outputs by the index of the sentence, and their total time."""

    outputs: dict[int, list[int]] = field(default_factory=dict)
    seconds: float = 0.0


def main(
    *,
    run: Path,
    data: Path,
    batches: list[PositiveInt] | None = None,
    sentences: PositiveInt = 512,
    threads: PositiveInt = THREADS,
    output: Path | None = None,
) -> None:
    """Compare the speed of translation with other systems.

    python -m benchmarks.decode --run results/multi30k/runs/en-de/base/1 --data results/multi30k/data/en-de

    Args:
        run: folder of a trained run
        data: folder of the task's data
        batches: batch sizes in sentences; default: 1, 8, 64 and 512; batches by tokens come last
        sentences: number of sentences, from the start of the dev set
        output: JSON file; default: results/decode-LABEL.json
    """
    trained, prepared = Run(run), Data(data)
    decoding, experiment = load(trained.decoding, Decoding), load(trained.experiment)
    arrays = (TokenArray.open(prepared.ids("dev", name), prepared.offsets("dev", name)) for name in SIDES)
    sources, references = ([each[index].tolist() for index in range(min(sentences, len(each)))] for each in arrays)
    with TemporaryDirectory() as folder, ExitStack() as stack:
        kinds = {name: partial(apart, name, stack) for name in NAMES}
        workers, left_out = opened(kinds, NAMES, Path(folder), trained, prepared, threads)
        measured(workers, sources[:8], 8, decoding, threads)  # warm-up
        sizes = [*(batches or (1, 8, 64, 512)), TOKENS]
        taken = {size: measured(workers, sources, size, decoding, threads) for size in sizes}
        greedy = measured(workers, sources, TOKENS, structs.replace(decoding, beam_size=1), threads)
    vocabulary = Subwords(prepared.vocabulary)
    found = {name: {"name": NAMES[name]} | numbers(name, taken, greedy, references, vocabulary) for name in workers}
    about = {"beam": decoding.beam_size, "sentences": len(sources), "left_out": left_out}
    leave("decode", f"{experiment.scale}-{run.parent.name}", output, found, **about)


def measured(
    workers: dict[str, Callable], sources: Ids, size: int | str, decoding: Decoding, threads: int
) -> dict[str, Translated]:
    """Translate each chunk with all systems in turn. A chunk is a batch or, by tokens, a batch per thread."""
    if size == TOKENS:
        tokens, chunks, per_turn = decoding.max_tokens, by_length(sources, decoding.max_tokens * threads), 1
    else:
        order = sorted(range(len(sources)), key=lambda index: -len(sources[index]))
        tokens, chunks = ANY, [order[at : at + size] for at in range(0, len(order), size)]
        per_turn = max(1, TURN // size)
    taken = {name: Translated() for name in workers}
    for at in range(0, len(chunks), per_turn):
        turn = chunks[at : at + per_turn]
        batches = [[sources[index] for index in chunk] for chunk in turn]
        for name, worker in workers.items():
            seconds, outputs = worker(batches, decoding.beam_size, tokens)
            taken[name].seconds += seconds
            taken[name].outputs |= dict(zip(chain.from_iterable(turn), outputs, strict=True))
    return taken


def numbers(name: str, taken: dict, greedy: dict, references: Ids, vocabulary: Subwords) -> dict[str, float]:
    """Return a system's speed by batch size and its BLEU. Compare its best time and outputs with the first system's."""
    first = next(iter(greedy))
    fastest = {each: min(of_size[each].seconds for of_size in taken.values()) for each in (name, first)}
    outputs = [ids for _, ids in sorted(taken[TOKENS][name].outputs.items())]
    found = {f"sentences/s, {size} a batch": len(references) / each[name].seconds for size, each in taken.items()}
    found["times_slower"] = fastest[name] / fastest[first]
    found["bleu"] = multi_bleu(vocabulary.decode(outputs), vocabulary.decode(references), "dev")["score"]
    for key, of_all in (("same_by_beam", taken[TOKENS]), ("same_greedy", greedy)):
        expected = of_all[first].outputs
        found[key] = sum(ids == expected[index] for index, ids in of_all[name].outputs.items()) / len(references)
    return found


if __name__ == "__main__":
    cyclopts.run(main)
