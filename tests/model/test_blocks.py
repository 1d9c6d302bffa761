"""A GPU's way of training, tested on a processor: attention in blocks, the compiled step, the step ahead.

No processor leaves blocks out, so their tables are compared with PyTorch's own, made from the mask.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import toy
from support.toy import CPU, TEXT, make_experiment, model_config
from torch import Tensor
from torch._dynamo.utils import counters
from torch.nn.attention import flex_attention

from transformer.config.experiment import PAD
from transformer.model.attention import fits_blocks
from transformer.model.packed import (
    BLOCK,
    MULTIPLE,
    SPARE,
    blocks_of,
    padded_sizes,
    padding_lengths,
)
from transformer.model.transformer import Transformer
from transformer.process import Interrupted, StopSignals
from transformer.training import step
from transformer.training.batches import plan_batches
from transformer.training.loop import TrainingRun
from transformer.training.loss import batch_losses, compiled

LIKE_HEADS = {"h": 2, "d_k": 8, "d_v": 8, "d_model": 16, "P_drop": 0.0}
FORMS = {  # the paper's, and Table 5's that attention in blocks knows
    "paper": {},
    "pre-norm": {"norm": "pre"},
    "no residual": {"residual": False},
    "not scaled": {"scaled": False},
    "no positions": {"positions": "none"},
    "untied": {"tied": False},
    "narrow keys": {"d_k": 4},  # Table 3, row B
}
COMPILER_ERROR = "process 0: RuntimeError: Failed to find C compiler."
INDICES = np.arange(20)
ROOM = (300, 200)


@pytest.fixture(autouse=True)
def without_gpu(monkeypatch):
    """Let FlexAttention, uncompiled, learn on a processor: it takes all products, and masks them."""
    monkeypatch.setattr(flex_attention, "_validate_device", lambda *_: None)
    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)


def gradients(compute, model: Transformer, indices: np.ndarray, in_blocks: bool) -> list[Tensor]:
    """Return both losses, and the gradient of the smoothed one."""
    losses = compute(model, TEXT.batch(indices, CPU, ROOM if in_blocks else None), 0.1, torch.float32)
    parts = torch.autograd.grad(losses[0] / TEXT.lengths[1, indices].sum(), list(model.parameters()))
    return [*(loss.detach() for loss in losses), torch.cat([each.flatten() for each in parts])]


def make_model(**changes) -> Transformer:
    """Return a model without a zero vector: after LayerNorm, rounding is all that is left of one."""
    torch.manual_seed(1)
    model = Transformer(model_config(**LIKE_HEADS | changes))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter += 0.1 * torch.randn(parameter.shape) * name.endswith("bias")
    return model


# The layout.


def test_a_batch_laid_flat():
    """Two pairs, and what fills them up: three sentences on either side, of a hundred tokens and of sixty."""
    batch = TEXT.batch(np.array([3, 5]), CPU, (300, 100))
    for side, lengths, size in ((batch.source, TEXT.lengths[0], 384), (batch.target, TEXT.lengths[1], 256)):
        n = int(lengths[[3, 5]].sum())
        fillers = [(size - n) // 3 + (i < (size - n) % 3) for i in range(3)]
        ids = np.repeat(np.arange(5), [lengths[3], lengths[5], *fillers])
        assert side.sentences.tolist() == ids.tolist()
        assert side.positions.tolist() == [i for length in (lengths[3], lengths[5], *fillers) for i in range(length)]
        assert side.ids[n:].tolist() == [PAD] * (size - n)
        assert (side.slots, side.mask) == (None, None)
    n = int(TEXT.lengths[1, [3, 5]].sum())
    assert batch.labels[:n].tolist() == [*TEXT.target[3], *TEXT.target[5]]
    assert batch.labels[n:].tolist() == [PAD] * (256 - n)


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=1), st.tuples(*[st.integers(1, 9999)] * 2)
)
def test_batches_within_the_room_have_one_size(pairs, room):
    lengths = np.array(pairs).T
    full = padded_sizes(lengths, room)
    if (lengths.sum(axis=1) <= room).all():
        assert (full == padded_sizes(np.ones((2, 1), int), room)).all()
    fillers = padding_lengths(lengths, room)
    assert (lengths.sum(axis=1) + fillers.sum(axis=1) == full).all()
    assert fillers.min() > 0
    # As many on both sides, so that a side with little room may have shorter ones, and the other longer ones.
    assert fillers.max() <= max(MULTIPLE, math.ceil(full.max() / SPARE))
    assert (full <= np.maximum(lengths.sum(axis=1), room) + SPARE + MULTIPLE).all()
    assert (full % MULTIPLE == 0).all()


# Attention in blocks.


def masks(lengths: list[list[int]], causal: bool) -> list[Tensor]:
    """Return which blocks of keys each block of queries sees, and the reverse: as PyTorch finds, and by our tables."""
    ids = [np.repeat(np.arange(len(side)), side) for side in lengths]
    first, second = map(torch.from_numpy, ids)

    def seen(_batch, _head, query, key):
        return (first[query] == second[key]) & ((query >= key) if causal else True)

    sizes = [len(side) for side in ids]
    theirs = flex_attention.create_block_mask(seen, 1, 1, *sizes, device="cpu", BLOCK_SIZE=BLOCK)
    blocks = blocks_of(*map(np.array, lengths), causal, CPU)
    tables = [(blocks.key_counts, blocks.keys), (blocks.query_counts, blocks.queries)]
    ours = [flex_attention.BlockMask.from_kv_blocks(*table, compute_q_blocks=False).to_dense() for table in tables]
    return [theirs.to_dense(), theirs.to_dense().mT, *ours]


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=1, max_size=12))
def test_tables_of_any_batch_are_those_of_its_mask(pairs):
    lengths = np.array(pairs).T
    lengths = np.concatenate([lengths, padding_lengths(lengths, (1, 1))], axis=1)
    expected, transposed, *found = masks(lengths.tolist(), False)
    assert (found[0] == expected).all()
    assert (found[1] == transposed).all()


def test_every_attention_of_a_step_has_the_tables_of_its_mask(monkeypatch):
    """The encoder's, the decoder's and that to the memory, in both directions."""
    calls, attend = [], flex_attention.flex_attention

    def heard(*heads, block_mask, **options):
        calls.append(block_mask)
        return attend(*heads, block_mask=block_mask, **options)

    monkeypatch.setattr(flex_attention, "flex_attention", heard)
    model = make_model(N=1)
    batch = TEXT.batch(INDICES, CPU, ROOM)
    model(batch.source, batch.target)
    assert len(calls) == 3
    for mask in calls:
        theirs = flex_attention.create_block_mask(
            mask.mask_mod, 1, 1, *mask.seq_lengths, device="cpu", BLOCK_SIZE=BLOCK
        )
        ours = [(mask.kv_num_blocks, mask.kv_indices), (mask.q_num_blocks, mask.q_indices)]
        dense = [flex_attention.BlockMask.from_kv_blocks(*table, compute_q_blocks=False).to_dense() for table in ours]
        assert (dense[0] == theirs.to_dense()).all()
        assert (dense[1] == theirs.to_dense().mT).all()


# Packed and padded are the same.


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_loss_and_gradients_are_the_padded_ones(form):
    model = make_model(**form)
    padded, flat = (gradients(batch_losses, model, INDICES, in_blocks) for in_blocks in (False, True))
    torch.testing.assert_close(flat, padded, rtol=1e-5, atol=1e-5)
    assert padded[2].abs().max() > 0.01


@pytest.mark.parametrize(
    "indices", [INDICES, np.flatnonzero(TEXT.lengths[0] == TEXT.lengths[0, 0])], ids=["padded", "full"]
)
def test_pad_up_to_a_multiple_changes_nothing(indices):
    """Padded attention's batches, whose grids have padding of their own or none."""
    model = make_model().double()
    outputs = []
    for multiple in (1, 64):
        batch = TEXT.batch(indices, CPU, multiple=multiple)
        assert len(batch.source.ids) % multiple == len(batch.labels) % multiple == 0
        output = model(batch.source, batch.target)[: TEXT.lengths[1, indices].sum()]
        gradients = torch.autograd.grad(output.square().sum(), list(model.parameters()))
        outputs.append([output, *gradients])
    torch.testing.assert_close(*outputs, rtol=1e-10, atol=1e-10)


def start(folder, in_blocks: bool, running: dict | None = None) -> TrainingRun:
    run = toy.start(folder, make_experiment(model=LIKE_HEADS, running=running, steps=13))
    run.learner.capacity = run.learner.largest_piece(run.learner.batches_of(0)) if in_blocks else None
    return run


def test_models_that_attention_in_blocks_knows():
    known = {"h": 8, "d_k": 64, "d_v": 64}
    cuda, half = torch.device("cuda"), torch.bfloat16
    forms = [*(form for name, form in FORMS.items() if name != "narrow keys"), {"d_k": 16}, {"d_v": 24}]
    assert all(fits_blocks(model_config(**known | form), cuda, half) for form in forms)
    wide, narrow = ({"d_k": width, "d_v": width} for width in (512, 8))
    for other in ({"d_v": 8}, wide, narrow, {"P_drop_attention": 0.1}, {"attention": "additive"}):
        assert not fits_blocks(model_config(**known | other), cuda, half)
    assert not fits_blocks(model_config(**known), cuda, torch.float32)
    assert not fits_blocks(model_config(**known), CPU, half)


# The compiled step.


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # of PyTorch, by itself
@pytest.mark.parametrize("form", [{}, {"norm": "pre", "tied": False, "positions": "none", "scaled": False}], ids=str)
def test_one_graph_serves_batches_of_any_number_of_sentences(monkeypatch, form):
    """Model, loss and the chunks of logits are one graph, and do not change what comes out."""
    monkeypatch.setattr(torch, "compile", lambda f, **how: compile_(f, backend="aot_eager", **how))
    torch._dynamo.reset()
    counters.clear()
    model, compute = make_model(**form), compiled()
    batches = plan_batches(1, 0, TEXT.lengths, (60, 60))[:4]
    assert len({len(batch) for batch in batches}) > 1
    for batch in batches:
        expected = gradients(batch_losses, model, batch, False)
        torch.testing.assert_close(gradients(compute, model, batch, True), expected, rtol=1e-5, atol=1e-5)
    assert counters["stats"]["unique_graphs"] == 1


compile_ = torch.compile


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_where_nothing_can_be_compiled_the_training_goes_on(monkeypatch, tmp_path, caplog):
    """As on a node without a C compiler. The same steps follow, and the run says why they took longer."""

    def fails(graph, inputs):
        raise RuntimeError("Failed to find C compiler.\nPlease specify via CC environment variable.")

    monkeypatch.setattr(torch, "compile", lambda f, **how: compile_(f, backend=fails, **how))
    runs = [start(tmp_path / name, False) for name in ("compiled", "not")]
    torch._dynamo.reset()
    runs[0].learner.compile()
    assert runs[0].learner.compiled is None
    assert f"the step runs uncompiled, which takes longer: {COMPILER_ERROR}" in caplog.messages
    for run in runs:
        run.train(StopSignals(), "a commit")
    assert [run.progress.starts[0].get("compiler_error") for run in runs] == [COMPILER_ERROR, None]
    assert not runs[0].progress.starts[0]["compiled"]
    torch.testing.assert_close(*(run.learner.model.state_dict() for run in runs), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda smoothed, plain, _: (1.2 * smoothed, plain), "smoothed loss: expected about "),
        (lambda smoothed, plain, weight: (smoothed + weight.sum() - weight.sum().detach(), plain), "gradient of "),
        (lambda smoothed, plain, _: (smoothed, plain * math.nan), "plain loss: expected about "),
    ],
    ids=["loss", "gradient", "nan"],
)
def test_a_compiled_step_that_computes_something_else_is_not_used(monkeypatch, tmp_path, caplog, wrong, message):
    def compute(model, *rest):
        return wrong(*batch_losses(model, *rest), model.decoder[1].cross_attention.query.weight)

    monkeypatch.setattr(step, "compiled", lambda: compute)
    run = start(tmp_path, True)
    run.learner.compile()
    assert (run.learner.compiled, run.learner.capacity) == (None, None)
    assert run.circumstances("a commit")["compiler_error"].startswith(f"process 0: {message}")
    assert "as uncompiled, found" in caplog.text


# The step ahead.


def test_a_step_ahead_changes_nothing(tmp_path):
    """Neither the weights, nor what is logged, nor what is saved."""
    results = []
    for ahead in (0, 1):
        run = start(tmp_path / str(ahead), False)
        run.ahead = ahead
        run.train(StopSignals(), "a commit")
        lines = (tmp_path / str(ahead) / "metrics.jsonl").read_text().splitlines()
        logged = [line.partition('"seconds"')[0] for line in lines]
        states = sorted(path.name for path in (tmp_path / str(ahead)).rglob("*.safetensors"))
        results.append((run.learner.model.state_dict(), logged, states))
    torch.testing.assert_close(results[0][0], results[1][0], rtol=0, atol=0)
    assert results[0][1:] == results[1][1:]
    assert len(results[0][1]) > 2


def test_a_stop_is_heard_a_step_late(tmp_path):
    """Also in a step after which nothing is due; the run goes on where it left off."""
    seldom = {"log_every": 50, "evaluate_every": 50, "save_every": 50}
    run = start(tmp_path, False, seldom)
    run.ahead = 1
    update = run.update

    def stopped(indices, stop):
        stop.received = "SIGTERM" if run.progress.step >= 4 else None
        return update(indices, stop)

    run.update = stopped
    with pytest.raises(Interrupted, match=r"^SIGTERM: saved at step 6$"):
        run.train(StopSignals(), "a commit")
    assert start(tmp_path, False, seldom).progress.step == 6
