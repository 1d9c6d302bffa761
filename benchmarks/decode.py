"""The benchmark of translation speed: this project, CTranslate2 and Hugging Face's Transformers, same weights."""

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

TOKENS = "tokens"  # a batch size: the number of tokens in the run's settings
ANY = 10**9  # maximum of tokens that puts all sentences of a call into one batch
Ids = list[list[int]]
# Arguments: sentences (ids with EOS), beam size, maximum of padded tokens in a batch. Result: ids without EOS.
System = Callable[[Ids, int, int], Ids]


def ours(model: Seq2Seq, rows: int, decoding: Decoding) -> System:
    """Open this project's search."""
    decoders = model.incremental()

    def translate(sentences: Ids, beam: int, tokens: int) -> Ids:
        own = structs.replace(decoding, beam_size=beam, max_tokens=tokens)
        return [ids for ((ids, _),) in search(model, rows, sentences, own, decoders=decoders)]

    return translate


def marian(folder: Path, decoding: Decoding) -> System:
    """Open an exported folder with Transformers. A batch uses its largest length limit; outputs are cut to theirs."""
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
    """Open CTranslate2's search with converted weights. Many sentences are translated in parallel, one per thread."""
    require("ctranslate2")
    if best_device().type != "cpu":
        raise LeftOut("this comparison runs only on the processor")
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
system: System | None = None  # set only in worker processes


def start(name: str, folder: Path, run: Run, data: Data, threads: int) -> None:
    """Open a system in this worker. Raises LeftOut if it cannot translate with this model."""
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


def translate(*arguments: Any) -> tuple[float, Ids]:
    """Translate in this worker; return the seconds and the outputs."""
    return timed(lambda: system(*arguments))


def apart(name: str, stack: ExitStack, *work: Any) -> Callable[..., tuple[float, Ids]]:
    """Open a system in its own process, separate from other systems' threads. Return its `translate`."""
    pool = stack.enter_context(ProcessPoolExecutor(1, get_context("spawn")))
    pool.submit(start, name, *work).result()
    return lambda *sentences: pool.submit(translate, *sentences).result()


@dataclass
class Translated:
    """One system's outputs by sentence index, and their total time in seconds."""

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
        data: folder of the run's data
        batches: numbers of sentences in a batch; default: 1, 8, 64 and 512; batches by tokens come last
        sentences: number of sentences, from the beginning of the dev set
        output: JSON file to write; default: results/decode-LABEL.json
    """
    trained, prepared = Run(run), Data(data)
    decoding, experiment = load(trained.decoding, Decoding), load(trained.experiment)
    arrays = (TokenArray.open(prepared.ids("dev", name), prepared.offsets("dev", name)) for name in SIDES)
    sources, references = ([each[index].tolist() for index in range(min(sentences, len(each)))] for each in arrays)
    # With the default policy, OpenMP's threads would spin for milliseconds and slow the next system down.
    os.environ["OMP_WAIT_POLICY"] = "passive"
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
    """Translate each chunk with all systems in turn. A chunk is one batch, or with TOKENS one batch per thread."""
    if size == TOKENS:
        tokens, chunks = decoding.max_tokens, by_length(sources, decoding.max_tokens * threads)
    else:
        order = sorted(range(len(sources)), key=lambda index: -len(sources[index]))
        tokens, chunks = ANY, [order[at : at + size] for at in range(0, len(order), size)]
    taken = {name: Translated() for name in workers}
    for chunk in chunks:
        for name, worker in workers.items():
            seconds, outputs = worker([sources[index] for index in chunk], decoding.beam_size, tokens)
            taken[name].seconds += seconds
            taken[name].outputs |= dict(zip(chunk, outputs, strict=True))
    return taken


def numbers(name: str, taken: dict, greedy: dict, references: Ids, vocabulary: Subwords) -> dict[str, float]:
    """Return a system's speed by batch size and its BLEU. Compare its best time and outputs with the first system."""
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
