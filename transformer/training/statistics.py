"""§6.1 Batch normalisation statistics for averaged weights. Averages of running statistics do not fit them."""

import torch
from torch import Tensor

from transformer.config.experiment import Experiment
from transformer.layout import Data
from transformer.model.architectures import build
from transformer.model.batch_norm import batch_norms
from transformer.storage.files import InputError
from transformer.training.batches import open_text, plan_batches

BATCHES = 50


@torch.no_grad()
def with_statistics(
    tensors: dict[str, Tensor], experiment: Experiment, data: Data | None, device: torch.device
) -> dict[str, Tensor]:
    """Return averaged weights with recomputed statistics. Models without batch normalisation stay unchanged.

    The statistics are means over the first BATCHES whole batches of the training data, in float32 without dropout.
    """
    if experiment.model.norm != "batch":
        return tensors
    if data is None:
        raise InputError("data: expected the folder of the training data (batch normalisation needs it), found none")
    model = build(experiment.model).to(device).eval()
    model.load_state_dict(tensors)
    text, training, norms = open_text(data, "train"), experiment.training, batch_norms(model)
    batches = plan_batches(experiment.seed, 0, text.lengths, training.budgets, training.longest)
    for number, indices in enumerate(batches[:BATCHES], start=1):
        for norm in norms:
            norm.train().momentum = 1 / number
        batch = text.batch(indices, device)
        model(batch.source, batch.target)
    return model.state_dict()
