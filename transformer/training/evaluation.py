"""Dev scores of a model in training: perplexity (Table 3), and an early BLEU."""

from dataclasses import dataclass

import numpy as np
import torch

from transformer.config.experiment import Decoding
from transformer.data.subwords import Subwords
from transformer.model.packed import POSITIONS
from transformer.model.transformer import Transformer
from transformer.runtime.distributed import World
from transformer.training.batches import ParallelText, plan
from transformer.training.loss import batch_losses, perplexity
from transformer.translation.translator import search

# The quickest search: it shows whether a model translates, and is in no table.
BEAM_OF_ONE = Decoding(beam=1, alpha=0.0, extra_length=50, batch_tokens=4096)


@dataclass(frozen=True)
class Evaluation:
    """Metrics on `dev`. The processes divide the work, and each gets every answer."""

    dev: ParallelText
    vocabulary: Subwords | None  # None without BLEU
    budgets: tuple[int, int]  # tokens in a batch, source and target
    sentences: int  # translated for BLEU, the first ones; 0 for no BLEU
    world: World

    @torch.no_grad()
    def perplexity(self, model: Transformer, dtype: torch.dtype) -> float:
        """Return the perplexity per subword: exp of the unsmoothed cross-entropy, base e."""
        total = torch.zeros((), dtype=torch.float64)
        model.eval()
        for indices in plan(0, 0, self.dev.lengths, self.budgets)[self.world.rank :: self.world.size]:
            total += batch_losses(model, self.dev.batch(indices, self.world.device), 0.0, dtype)[1].item()
        model.train()
        return perplexity(self.world.sum(total.to(self.world.device)).item() / self.dev.lengths[1].sum())

    def bleu(self, model: Transformer) -> float:
        """Return BLEU with a beam of one on the vocabulary's tokens: to watch, not to compare with papers."""
        from transformer.evaluation.bleu import multi_bleu  # loads sacrebleu and sacremoses, which take half a second

        longest = POSITIONS - BEAM_OF_ONE.extra_length
        chosen = np.flatnonzero(self.dev.lengths[0] <= longest)[: self.sentences]
        mine = chosen[self.world.rank :: self.world.size]
        model.eval()
        sources = [self.dev.source[index].tolist() for index in mine]
        translations = [ids for ids, _ in search(model, len(self.vocabulary), sources, BEAM_OF_ONE)]
        model.train()
        pairs = list(zip(translations, (self.dev.target[index].tolist() for index in mine), strict=True))
        all_pairs = [pair for part in self.world.gather(pairs) for pair in part]
        hypotheses, references = (self.vocabulary.decode([pair[side] for pair in all_pairs]) for side in (0, 1))
        return multi_bleu(hypotheses, references, "dev")["score"]
