"""GPU training, tested on a processor: attention in blocks, the compiled step, the queued next step.

A processor computes all blocks, so the tables of blocks are compared with PyTorch's tables for the mask.
"""

import re
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import toy
from support.toy import CPU, TABLE_5, TEXT, make_experiment, model_config
from torch import Tensor
from torch._dynamo.utils import counters
from torch.nn.attention import flex_attention

from transformer.model.packed import BLOCK, Blocks, blocks_of, padding_lengths
from transformer.model.transformer import Transformer
from transformer.process import Interrupted, StopSignals
from transformer.training.batches import plan_batches
from transformer.training.loop import TrainingRun
from transformer.training.loss import batch_losses, compiled

LIKE_HEADS = {"h": 2, "d_k": 8, "d_v": 8, "d_model": 16, "P_drop": 0.0}
FORMS = {"paper": {}, "narrow keys": {"d_k": 4}}  # Table 3, row B
# The other forms do not change what blocks see.
FORMS |= {name: TABLE_5[name] for name in ("batch norm", "not scaled", "untied")}
INDICES = np.arange(20)
ROOM = (300, 200)


@pytest.fixture(autouse=True)
def without_gpu(monkeypatch):
    """Let uncompiled FlexAttention train on a processor. It computes all products and masks them."""
    monkeypatch.setattr(flex_attention, "_validate_device", lambda *_: None)
    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)


def gradients(compute, model: Transformer, indices: np.ndarray, in_blocks: bool) -> list[Tensor]:
    """Return both losses, and the gradient of the smoothed loss."""
    losses = compute(model, TEXT.batch(indices, CPU, ROOM if in_blocks else None), 0.1, torch.float32)
    parts = torch.autograd.grad(losses[0] / TEXT.lengths[1, indices].sum(), list(model.parameters()))
    return [*(loss.detach() for loss in losses), torch.cat([each.flatten() for each in parts])]


def make_model(**changes) -> Transformer:
    """Return a model without zero vectors. After LayerNorm, a zero vector would contain only rounding errors."""
    torch.manual_seed(1)
    model = Transformer(model_config(**LIKE_HEADS | changes))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter += 0.1 * torch.randn(parameter.shape) * name.endswith("bias")
    return model


def assert_tables_of(mask: flex_attention.BlockMask, blocks: Blocks) -> None:
    """Compare the visible blocks of each block, in both directions, with PyTorch's blocks for the mask."""
    theirs = flex_attention.create_block_mask(mask.mask_mod, 1, 1, *mask.seq_lengths, device="cpu", BLOCK_SIZE=BLOCK)
    dense = [
        flex_attention.BlockMask.from_kv_blocks(*table, compute_q_blocks=False).to_dense()
        for table in ((blocks.key_counts, blocks.keys), (blocks.query_counts, blocks.queries))
    ]
    assert (dense[0] == theirs.to_dense()).all()
    assert (dense[1] == theirs.to_dense().mT).all()


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=1, max_size=12))
def test_tables_of_any_batch_agree_with_its_mask(pairs):
    lengths = np.array(pairs).T
    lengths = np.concatenate([lengths, padding_lengths(lengths, (1, 1))], axis=1)
    first, second = (torch.from_numpy(np.repeat(np.arange(len(side)), side)) for side in lengths)
    mask = SimpleNamespace(
        mask_mod=lambda _batch, _head, query, key: first[query] == second[key], seq_lengths=(len(first), len(second))
    )
    assert_tables_of(mask, blocks_of(*lengths, False, CPU))


def test_every_attention_of_a_step_has_the_tables_of_its_mask(monkeypatch):
    """The attentions are the encoder's, the decoder's and the attention to the memory. All multiply in bfloat16."""
    masks, attend = [], flex_attention.flex_attention

    def heard(*heads, block_mask, **options):
        masks.append(block_mask)
        assert {each.dtype for each in heads} == {torch.bfloat16}
        return attend(*heads, block_mask=block_mask, **options)

    monkeypatch.setattr(flex_attention, "flex_attention", heard)
    batch = TEXT.batch(INDICES, CPU, ROOM)
    batch_losses(make_model(N=1), batch, 0.1, torch.bfloat16)
    assert len(masks) == 3
    for mask in masks:
        assert_tables_of(mask, Blocks(mask.kv_num_blocks, mask.kv_indices, mask.q_num_blocks, mask.q_indices))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_loss_and_gradients_equal_those_of_padded_attention(form):
    model = make_model(**form)
    padded, flat = (gradients(batch_losses, model, INDICES, in_blocks) for in_blocks in (False, True))
    torch.testing.assert_close(flat, padded, rtol=1e-5, atol=1e-5)
    assert padded[2].abs().max() > 0.01


@pytest.mark.parametrize(
    "indices", [INDICES, np.flatnonzero(TEXT.lengths[0] == TEXT.lengths[0, 0])], ids=["padded", "full"]
)
@pytest.mark.parametrize("norm", ["post", "batch"])
def test_pad_up_to_a_multiple_changes_nothing(indices, norm):
    """The batches are for padded attention, with or without padding in their grids."""
    model = make_model(norm=norm).double()
    outputs = []
    for multiple in (1, 64):
        batch = TEXT.batch(indices, CPU, multiple=multiple)
        assert len(batch.source.ids) % multiple == len(batch.labels) % multiple == 0
        output = model(batch.source, batch.target)[: TEXT.lengths[1, indices].sum()]
        gradients = torch.autograd.grad(output.square().sum(), list(model.parameters()))
        outputs.append([output, *gradients])
    torch.testing.assert_close(*outputs, rtol=1e-10, atol=1e-10)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # a warning inside PyTorch
def test_one_graph_serves_batches_of_any_number_of_sentences(monkeypatch):
    """The model, the loss and the chunks of logits are one graph, and its output is unchanged."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    torch._dynamo.reset()
    counters.clear()
    model, compute = make_model(N=1, norm="pre", tied=False), compiled()
    batches = plan_batches(1, 0, TEXT.lengths, (60, 60))[:4]
    assert len({len(batch) for batch in batches}) > 1
    for batch in batches:
        expected = gradients(batch_losses, model, batch, False)
        torch.testing.assert_close(gradients(compute, model, batch, True), expected, rtol=1e-5, atol=1e-5)
    assert counters["stats"]["unique_graphs"] == 1


def start(folder, logging: dict | None = None) -> TrainingRun:
    return toy.start(folder, make_experiment(model=LIKE_HEADS | {"N": 1}, logging=logging, steps=13))


def no_compiler(graph, inputs):
    raise RuntimeError("Failed to find C compiler.\nPlease specify via CC environment variable.")


def no_gradient(*batch):
    smoothed, plain = batch_losses(*batch)
    return smoothed.detach() + 0 * smoothed, plain


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize(
    ("compiler", "reason"),
    [
        (partial(torch.compile, backend=no_compiler), "RuntimeError: Failed to find C compiler."),
        (lambda *_, **__: no_gradient, r"gradient of .*: expected about \d.* \(the uncompiled result\), found 0"),
    ],
    ids=["none", "wrong"],
)
def test_a_training_continues_without_a_working_compiler(monkeypatch, tmp_path, caplog, compiler, reason):
    """A node without a C compiler takes the same steps, and the run reports why they took longer."""
    monkeypatch.setattr(torch, "compile", compiler)
    runs = [start(tmp_path / name) for name in ("compiled", "not")]
    torch._dynamo.reset()
    runs[0].learner.compile()
    assert (runs[0].learner.compiled, runs[0].learner.capacity) == (None, None)
    for run in runs:
        run.train(StopSignals())
    error, none = (run.progress.starts[0].get("compiler_error") for run in runs)
    assert re.fullmatch(f"process 0: {reason}", error)
    assert none is None
    assert f"the training step is not compiled, so the training takes longer: {error}" in caplog.messages
    torch.testing.assert_close(*(run.learner.model.state_dict() for run in runs), rtol=0, atol=0)


def test_a_right_compiler_is_kept_and_gets_batches_of_one_size(monkeypatch, tmp_path):
    sizes = set()

    def right(model, batch, *options):
        sizes.add((len(batch.source.ids), len(batch.labels)))
        return batch_losses(model, batch, *options)

    monkeypatch.setattr(torch, "compile", lambda *_, **__: right)
    run = start(tmp_path)
    run.learner.compile()
    assert (run.learner.compiled, run.learner.compiler_error) == (right, None)
    run.train(StopSignals())
    assert len(sizes) == 1


def test_a_step_ahead_changes_nothing(tmp_path):
    """The weights, the logs and the saved states do not change."""
    results = []
    for ahead in (0, 1):
        run = start(tmp_path / str(ahead))
        run.ahead = ahead
        run.train(StopSignals())
        lines = (tmp_path / str(ahead) / "metrics.jsonl").read_text().splitlines()
        logged = [line.partition('"seconds"')[0] for line in lines]
        states = sorted(path.name for path in (tmp_path / str(ahead)).rglob("*.safetensors"))
        results.append((run.learner.model.state_dict(), logged, states))
    torch.testing.assert_close(results[0][0], results[1][0], rtol=0, atol=0)
    assert results[0][1:] == results[1][1:]
    assert len(results[0][1]) > 2


def test_a_stop_is_heard_a_step_late(tmp_path):
    """This also holds in a step that is followed by no other work. The run resumes after this step."""
    seldom = {"log_every": 50, "evaluate_every": 50, "save_every": 50}
    run = start(tmp_path, seldom)
    run.ahead = 1
    update = run.update

    def stopped(indices, stop):
        stop.received = "SIGTERM" if run.progress.step >= 4 else None
        return update(indices, stop)

    run.update = stopped
    with pytest.raises(Interrupted, match=r"^SIGTERM: saved at step 6$"):
        run.train(StopSignals())
    assert start(tmp_path, seldom).progress.step == 6
