"""The dev scores of a model during training: perplexity and BLEU."""

from dataclasses import dataclass

import numpy as np
import torch

from transformer.config.experiment import POSITIONS, Decoding, Experiment
from transformer.data.corpus import Subwords
from transformer.model.seq2seq import Seq2Seq
from transformer.training.batches import ParallelText, plan_batches
from transformer.training.distributed import World
from transformer.training.loss import batch_losses, perplexity
from transformer.translation.translator import search

# Greedy search is the fastest search. Its BLEU shows whether a model translates; no table contains this BLEU.
_GREEDY = Decoding(beam_size=1, length_penalty=0.0, extra_length=50, max_tokens=4096)


@dataclass(frozen=True)
class Evaluation:
    """Metrics on `dev`. The processes share the work, and all of them get the results."""

    experiment: Experiment
    dev: ParallelText
    vocabulary: Subwords | None  # for BLEU, and for positions "words"
    world: World

    @torch.no_grad()
    def perplexity(self, model: Seq2Seq, dtype: torch.dtype) -> float:
        """Return the perplexity per subword: exp of the unsmoothed cross-entropy, base e."""
        total = torch.zeros((), dtype=torch.float64)
        model.eval()
        batches = plan_batches(0, 0, self.dev.lengths, self.experiment.training.budgets)
        for indices in batches[self.world.rank :: self.world.size]:
            total += batch_losses(model, self.dev.batch(indices, self.world.device), 0.0, dtype)[1].item()
        model.train()
        return perplexity(self.world.all_reduce(total.to(self.world.device)).item() / self.dev.lengths[1].sum())

    def bleu(self, model: Seq2Seq) -> float:
        """Return BLEU of greedy search against decoded references. It shows progress; do not compare it with papers."""
        from transformer.evaluation.bleu import cut, multi_bleu  # sacrebleu and sacremoses take half a second to load

        chosen = np.flatnonzero(self.dev.lengths[0] <= POSITIONS - _GREEDY.extra_length)
        mine = chosen[: self.experiment.logging.bleu_sentences][self.world.rank :: self.world.size]
        model.eval()
        sources = [self.dev.source[index].tolist() for index in mine]
        translations = [ids for ((ids, _),) in search(model, len(self.vocabulary), sources, _GREEDY)]
        model.train()
        pairs = list(zip(translations, (self.dev.target[index].tolist() for index in mine), strict=True))
        all_pairs = [pair for part in self.world.gather(pairs) for pair in part]
        sides = (self.vocabulary.decode([pair[side] for pair in all_pairs]) for side in (0, 1))
        return multi_bleu(*(cut(side, self.experiment.target) for side in sides), "dev")["score"]
