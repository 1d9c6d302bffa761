"""What averaging checkpoints (§6.1) and label smoothing (§5.4) bring: perplexity, calibration and BLEU."""

from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import torch
from msgspec import structs
from torch import Tensor

from transformer.evaluation.analyses import Averaging, Smoothing
from transformer.evaluation.scores import averaged_steps
from transformer.evaluation.significance import draws
from transformer.evaluation.subject import open_subject
from transformer.files import InputError
from transformer.model.packed import POSITIONS
from transformer.model.transformer import Transformer
from transformer.model.weights import average, require
from transformer.training.batches import ParallelText, plan
from transformer.training.loss import CHUNK, CHUNK_CUDA, perplexity
from transformer.translation.translator import Translator

BATCH = 4 * POSITIONS  # tokens on a side that are decoded together under teacher forcing; changes speed only
BINS = 10  # of confidence, equally wide


def averaging(input: SimpleNamespace, params: SimpleNamespace) -> Averaging:
    """Measure the last checkpoint alone, and averages of the last few.

    params: `checkpoints`, how many to average; more than the run has kept are left out. Raises InputError if it has
    kept too few, or those of another training.
    """
    subject = open_subject(input, params)
    folder, device = subject.run.checkpoints, subject.translator.model.embedding.weight.device
    paths = sorted(folder.glob("*.safetensors"))
    counts = [count for count in params.checkpoints if count <= len(paths)]
    if not counts:
        raise InputError(f"{folder}: expected {min(params.checkpoints)} checkpoints at least, found {len(paths)}")
    steps = [step for path in paths for step in averaged_steps(path, subject.header["run"]["digest"])]
    model = Transformer(subject.experiment.model).to(device).eval()
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
    predictions = predict(subject.translator.model, subject.text)

    def with_beam(beam: int) -> Translator:
        return replace(subject.translator, decoding=structs.replace(subject.translator.decoding, beam=beam))

    beams = [{"beam": beam} | subject.score(with_beam(beam)) for beam in params.beams]
    return subject.header | {
        "epsilon_ls": subject.experiment.training.epsilon_ls,
        "perplexity": predictions.perplexity,
        "perplexity_draws": predictions.perplexity_draws(subject.text.target.offsets),
        "beams": beams,
        "calibration": calibration(predictions.confidence, predictions.correct),
    }


def calibration(confidence: np.ndarray, correct: np.ndarray) -> dict:
    """Return the expected calibration error of the most probable token (Guo et al. 2017, equation 3).

    confidence: [tokens] its probability. correct: [tokens] 1 where it is the true token. "error" is the mean over all
    tokens of |accuracy - confidence| of the token's bin. "bins" are of confidence in (0, 0.1], (0.1, 0.2] and so on; an
    empty one has neither confidence nor accuracy. "confidence" and "accuracy" at the top are means over all tokens.
    """
    bin_of_token = np.clip(np.ceil(confidence * BINS) - 1, 0, BINS - 1)
    bins = []
    for number in range(BINS):
        members = bin_of_token == number
        means = [float(column[members].mean()) if members.any() else None for column in (confidence, correct)]
        bins.append({"tokens": int(members.sum()), "confidence": means[0], "accuracy": means[1]})
    gaps = [bin["tokens"] * abs(bin["accuracy"] - bin["confidence"]) for bin in bins if bin["tokens"]]
    return {
        "error": sum(gaps) / len(confidence),
        "confidence": float(confidence.mean()),
        "accuracy": float(correct.mean()),
        "bins": bins,
    }


class Predictions(NamedTuple):
    """A model's predictions of all target tokens, each made from the true tokens before it: arrays [tokens]."""

    losses: np.ndarray  # -log p of the true token, in nats, unsmoothed
    confidence: np.ndarray  # p of the most probable token
    correct: np.ndarray  # 1 if that is the true token, else 0

    @property
    def perplexity(self) -> float:
        """Return the perplexity per subword, as Table 3 has it."""
        return perplexity(float(self.losses.mean()))

    def perplexity_draws(self, offsets: np.ndarray) -> list[float]:
        """Return the perplexity on resampled test sets, of sentences that begin at `offsets` (significance.py)."""
        losses = np.add.reduceat(self.losses, offsets[:-1])
        return draws(np.stack([losses, np.diff(offsets)], axis=1), lambda sums: perplexity(sums[0] / sums[1]))


@torch.inference_mode()
def predict(model: Transformer, text: ParallelText) -> Predictions:
    """Predict the tokens of `text.target`, in their order (§3.1), by a model in evaluation mode.

    Sentence i has the entries from `text.target.offsets[i]` to `[i + 1]`.
    """
    device, offsets = model.embedding.weight.device, text.target.offsets
    columns = torch.empty(len(Predictions._fields), len(text.target.ids), dtype=torch.float64)
    for indices in plan(0, 0, text.lengths, (BATCH, BATCH)):
        batch = text.batch(indices, device)
        places = np.concatenate([np.arange(offsets[index], offsets[index + 1]) for index in indices])
        output = model(batch.source, batch.target)
        columns[:, places] = judged(output, model.output_weight(), batch.labels).double().cpu()
    return Predictions(*columns.numpy())


def judged(output: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    """Return the columns of `Predictions` for the decoder's output: [3, n]. Few of the [n, V] logits exist at once.

    output: [n, d_model]. weight: [V, d_model], of the softmax. labels: [n] the true tokens.
    """
    parts = []
    size = CHUNK_CUDA if output.is_cuda else CHUNK
    for x, label in zip(output.split(size), labels.split(size), strict=True):
        logits = x @ weight.T
        log_total = logits.logsumexp(dim=1)
        best = logits.max(dim=1)
        loss = log_total - logits.gather(1, label[:, None])[:, 0]
        parts.append(torch.stack([loss, (best.values - log_total).exp(), best.indices == label]))
    return torch.cat(parts, dim=1)
