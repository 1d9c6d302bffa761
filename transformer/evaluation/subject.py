"""A trained run under analysis: averaging (§6.1), label smoothing (§5.4), and the length of sentences (§3.5)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, product
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import torch

from transformer.config.experiment import POSITIONS
from transformer.data.corpus import TOKEN, TokenArray
from transformer.evaluation.analyses import Analysis, Averaging, GroupedByLength, Smoothing, Tuning
from transformer.evaluation.bleu import measure, paper_reference, paper_tokens, token_bleu
from transformer.evaluation.scores import describe
from transformer.evaluation.significance import bleu_draws, draws, limits
from transformer.layout import Data, Run
from transformer.model.transformer import Transformer
from transformer.model.weights import average, require
from transformer.storage.checksums import read_manifest, require_sums
from transformer.storage.files import InputError, draw, read_pairs, require_file, sha256
from transformer.storage.records import averaged_steps
from transformer.training.batches import ParallelText, batch_budgets, fits, longest_sentence, open_text, plan_batches
from transformer.training.loss import CHUNK, CHUNK_CUDA, perplexity
from transformer.translation.translator import Translator, open_translator

BATCH = 4 * POSITIONS  # tokens on a side that are decoded together under teacher forcing; changes speed only
_BINS = 10  # of confidence, equally wide
_GROUPS = 4  # of single sentences, by length


@dataclass(frozen=True)
class Subject:
    """A trained run with its average, and sentence pairs of raw text."""

    header: Analysis  # with the language, too
    translator: Translator
    sources: list[str]
    references: list[str]

    @cached_property
    def text(self) -> ParallelText:
        """Encode the pairs as the dev set of a training: both sides end in EOS."""
        target = [self.translator.target.tokenize(line) for line in self.references]
        sides = self.translator.encode(self.sources), self.translator.vocabulary.encode(target)
        arrays = (TokenArray(np.concatenate(ids).astype(TOKEN), np.cumsum([0, *map(len, ids)])) for ids in sides)
        return ParallelText(*arrays)

    def score(self, translator: Translator, **search: float) -> dict:
        """Translate the sources and score them with `bleu_of`. search: another beam or alpha."""
        hypotheses = [best.text for best in translator.translate(self.sources, **search)]
        return bleu_of(hypotheses, self.references, self.header["language"])


def open_subject(input: SimpleNamespace, params: SimpleNamespace) -> Subject:
    """Open the run and at most `sentences` pairs of the raw dev set, drawn from it at equal distances.

    input: `source` and `target`, the dev set. params: `run`, a folder; `sentences`. Raises InputError if the two files
    differ in length, if the weights are another training's, and on a pair that the model has too few positions for. A
    pair with a blank side is left out.
    """
    require_file(input.target)
    origin = describe(params.run, None)
    numbered = enumerate(read_pairs(input.source, input.target), start=1)
    pairs = [(number, pair) for number, pair in numbered if all(map(str.strip, pair))]
    if not pairs:
        raise InputError(f"{input.source} and {input.target}: expected pairs of sentences, found blank lines")
    numbers, drawn = zip(*draw(pairs, len(pairs), params.sentences), strict=True)
    translator = open_translator(params.run)
    header = {"run": origin, "language": translator.experiment.target, "sentences": len(drawn)}
    header |= {"target_sha256": sha256(input.target)}
    subject = Subject(header, translator, *map(list, zip(*drawn, strict=True)))
    sides = zip((input.source, input.target), subject.text.lengths, (translator.longest, POSITIONS), strict=True)
    for path, lengths, most in sides:
        if (longest := lengths.max()) > most:
            line = numbers[lengths.argmax()]
            raise InputError(f"{path}, line {line}: expected {most} subwords at most, found {longest}")
    return subject


def bleu_of(hypotheses: list[str], references: list[str], language: str) -> dict:
    """Return the paper's BLEU of plain text, as in `analyses.Bleu`, and "length_ratio".

    Raises InputError if no reference has a word.
    """
    words = paper_tokens(hypotheses, language), paper_reference(references, language)
    written, expected = (sum(len(line.split()) for line in side) for side in words)
    if not expected:
        raise InputError(f"BLEU: expected words in the references, found {len(references)} blank lines")
    resampled = bleu_draws(*words)
    low, high = limits(resampled)
    bleu = measure(token_bleu(), *words)["score"]
    return {"bleu": bleu, "low": low, "high": high, "draws": resampled, "length_ratio": written / expected}


# Averaging and smoothing ---------------------------------------------------------------------------------------------


def averaging(input: SimpleNamespace, params: SimpleNamespace) -> Averaging:
    """Measure the last checkpoint alone, and averages of the last few.

    params: `checkpoints`, how many to average; more than the run has kept are left out. Raises InputError if it has
    kept too few, or those of another training.
    """
    subject = open_subject(input, params)
    folder, device = Run(params.run).checkpoints, subject.translator.model.embedding.weight.device
    paths = sorted(folder.glob("*.safetensors"))
    counts = [count for count in params.checkpoints if count <= len(paths)]
    if not counts:
        raise InputError(f"{folder}: expected {min(params.checkpoints)} checkpoints at least, found {len(paths)}")
    steps = [step for path in paths for step in averaged_steps(path, subject.header["run"]["digest"])]
    model = Transformer(subject.translator.experiment.model).to(device).eval()
    averages = []
    for count in counts:
        tensors, _ = average(paths[-count:])
        require(folder, model.state_dict(), tensors)
        model.load_state_dict(tensors)
        found = {"checkpoints": count, "steps": steps[-count:], "perplexity": predict(model, subject.text).perplexity}
        averages.append(found | subject.score(replace(subject.translator, model=model)))  # it lays out the new weights
    return subject.header | {"averages": averages}


def smoothing(input: SimpleNamespace, params: SimpleNamespace) -> Smoothing:
    """Measure perplexity and calibration, and BLEU with each of `params.beams`; the rest is the run's."""
    subject = open_subject(input, params)
    predictions, offsets = predict(subject.translator.model, subject.text), subject.text.target.offsets
    of_sentences = np.stack([np.add.reduceat(predictions.losses, offsets[:-1]), np.diff(offsets)], axis=1)
    return subject.header | {
        "epsilon_ls": subject.translator.experiment.training.epsilon_ls,
        "perplexity": predictions.perplexity,
        "perplexity_draws": draws(of_sentences, lambda sums: perplexity(sums[0] / sums[1])),
        "beams": [{"beam": beam} | subject.score(subject.translator, beam=beam) for beam in params.beams],
        "calibration": calibration(predictions.confidence, predictions.correct),
    }


def tuning(input: SimpleNamespace, params: SimpleNamespace) -> Tuning:
    """Measure BLEU with each of `params.beams` and each of `params.alphas`, as §6.1 chose both on the dev set."""
    subject = open_subject(input, params)
    searches = [{"beam": beam, "alpha": alpha} for beam, alpha in product(params.beams, params.alphas)]
    return subject.header | {"searches": [search | subject.score(subject.translator, **search) for search in searches]}


def calibration(confidence: np.ndarray, correct: np.ndarray) -> dict:
    """Return the expected calibration error of the most probable token (Guo et al. 2017, equation 3).

    confidence: [tokens] its probability. correct: [tokens] 1 where it is the true token. "error" is the mean over all
    tokens of |accuracy - confidence| of the token's bin. "bins" are of confidence in (0, 0.1], (0.1, 0.2] and so on; an
    empty one has neither confidence nor accuracy. "confidence" and "accuracy" at the top are means over all tokens.
    """
    bin_of_token = np.clip(np.ceil(confidence * _BINS) - 1, 0, _BINS - 1)
    bins = []
    for number in range(_BINS):
        members = bin_of_token == number
        means = [float(column[members].mean()) if members.any() else None for column in (confidence, correct)]
        bins.append({"tokens": int(members.sum()), "confidence": means[0], "accuracy": means[1]})
    gaps = [bin["tokens"] * abs(bin["accuracy"] - bin["confidence"]) for bin in bins if bin["tokens"]]
    means = {"confidence": float(confidence.mean()), "accuracy": float(correct.mean())}
    return {"error": sum(gaps) / len(confidence)} | means | {"bins": bins}


class _Predictions(NamedTuple):
    """A model's predictions of all target tokens, each made from the true tokens before it: arrays [tokens]."""

    losses: np.ndarray  # -log p of the true token, in nats, unsmoothed
    confidence: np.ndarray  # p of the most probable token
    correct: np.ndarray  # 1 if that is the true token, else 0

    @property
    def perplexity(self) -> float:
        """Return the perplexity per subword, as Table 3 has it."""
        return perplexity(float(self.losses.mean()))


@torch.inference_mode()
def predict(model: Transformer, text: ParallelText) -> _Predictions:
    """Predict the tokens of `text.target`, in their order (§3.1), by a model in evaluation mode."""
    device, offsets = model.embedding.weight.device, text.target.offsets
    columns = torch.empty(len(_Predictions._fields), len(text.target.ids), dtype=torch.float64)
    weight, chunk = model.output_weight(), CHUNK_CUDA if device.type == "cuda" else CHUNK
    for indices in plan_batches(0, 0, text.lengths, (BATCH, BATCH)):
        batch = text.batch(indices, device)
        places = np.concatenate([np.arange(offsets[index], offsets[index + 1]) for index in indices])
        output, parts = model(batch.source, batch.target), []
        for x, label in zip(output.split(chunk), batch.labels.split(chunk), strict=True):
            logits = x @ weight.T  # few of the [n, V] logits exist at once
            log_total = logits.logsumexp(dim=1)
            best = logits.max(dim=1)
            loss = log_total - logits.gather(1, label[:, None])[:, 0]
            parts.append(torch.stack([loss, (best.values - log_total).exp(), best.indices == label]))
        columns[:, places] = torch.cat(parts, dim=1).double().cpu()
    return _Predictions(*columns.numpy())


# Length --------------------------------------------------------------------------------------------------------------


class LongSentence(NamedTuple):
    """A sentence pair, or several joined, and the number of source tokens."""

    source: str
    reference: str
    tokens: int


def lengths(input: SimpleNamespace, params: SimpleNamespace) -> GroupedByLength:
    """Measure BLEU of single sentences in groups by length, and of neighbours joined to long ones.

    params: `data`, the folder with the encoded training text; `times`, the multiples of its longest source sentence, of
    the `quantile` with the shortest, as the longest of millions is no measure. Raises InputError if there are fewer
    sentences than groups.
    """
    subject = open_subject(input, params)
    translator = subject.translator
    data = Data(params.data)
    require_sums(data.manifest, read_manifest(data.manifest)["files"], data.arrays("train"))
    both, training = open_text(data, "train").lengths, translator.experiment.training
    trained = both[0, fits(both, batch_budgets(training), longest_sentence(training))]  # others are left out
    longest = int(np.quantile(trained, params.quantile, method="higher"))
    rows = zip(subject.sources, subject.references, subject.text.source.lengths.tolist(), strict=True)
    sentences = [LongSentence(*row) for row in rows]
    groups: list[tuple[int | None, list[LongSentence]]] = [(None, group) for group in groups_by_length(sentences)]
    skipped = 0
    for times in params.times:
        way = join_within if times == 1 else join_until
        joined = way(sentences, times * longest, lambda text: len(translator.encode([text])[0]))
        fitting = [sentence for sentence in joined if sentence.tokens <= translator.longest]
        skipped += len(joined) - len(fitting)
        groups += [(times, fitting)] if fitting else []
    # All are translated together, as short sentences fill up batches.
    translations = iter(translator.translate([sentence.source for _, group in groups for sentence in group]))
    entries = []
    for times, group in groups:
        hypotheses = [best.text for best in islice(translations, len(group))]
        tokens = sum(sentence.tokens for sentence in group) / len(group)
        bleu = bleu_of(hypotheses, [sentence.reference for sentence in group], translator.experiment.target)
        entries.append({"times": times, "sentences": len(group), "tokens": tokens} | bleu)
    found = {"positions": translator.experiment.model.positions, "longest": longest, "quantile": params.quantile}
    return subject.header | found | {"skipped": skipped, "groups": entries}


def groups_by_length(sentences: list[LongSentence]) -> list[list[LongSentence]]:
    """Return the sentences in _GROUPS groups of equal number, the shortest first."""
    if len(sentences) < _GROUPS:
        raise InputError(f"expected {_GROUPS} sentences at least, one for each group, found {len(sentences)}")
    ordered = sorted(sentences, key=lambda sentence: sentence.tokens)
    return [[ordered[index] for index in part] for part in np.array_split(range(len(ordered)), _GROUPS)]


def join_until(sentences: list[LongSentence], least: int, count: Callable[[str], int]) -> list[LongSentence]:
    """Join neighbours until each source has `least` tokens by `count`; a rest with less is dropped.

    The tokens of the whole are counted, as they may differ from the sum of the parts'.
    """
    joined, parts = [], []
    for sentence in sentences:
        parts.append(sentence)
        if (whole := _merged(parts, count)).tokens >= least:
            joined.append(whole)
            parts = []
    return joined


def join_within(sentences: list[LongSentence], most: int, count: Callable[[str], int]) -> list[LongSentence]:
    """Join neighbours, as many as have `most` tokens together; single sentences are dropped.

    They are as unlike the training's sentences as other joined ones are, but no longer.
    """
    joined: list[list[LongSentence]] = []
    for sentence in sentences:
        if joined and _merged([*joined[-1], sentence], count).tokens <= most:
            joined[-1].append(sentence)
        else:
            joined.append([sentence])
    return [_merged(parts, count) for parts in joined if len(parts) > 1]


def _merged(parts: list[LongSentence], count: Callable[[str], int]) -> LongSentence:
    source = " ".join(part.source for part in parts)
    return LongSentence(source, " ".join(part.reference for part in parts), count(source))
