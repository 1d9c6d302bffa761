"""Costs compared with the paper's printed numbers, PyTorch's counters, and sums computed by hand."""

import pytest
import torch
from msgspec.structs import replace
from support.toy import model_config
from torch.utils.flop_counter import FlopCounterMode

from transformer.model.architectures import sketch
from transformer.model.cost import Lengths, single_precision
from transformer.model.packed import Packed
from transformer.model.transformer import Transformer
from transformer.training.loss import smoothed_cross_entropy

BASE = model_config(N=6, d_model=512, d_ff=2048, h=8, d_k=64, d_v=64, embedding_rows=40960)
SMALL = model_config(N=3, d_model=20, d_ff=28, embedding_rows=41, output_rows=37)


def parameters(**changes) -> int:
    """Count the parameters of base with changes."""
    return sketch(replace(BASE, **changes)).parameter_count()


@pytest.mark.parametrize(
    ("changes", "millions", "authors"),
    [
        ({}, 65, 65_126_400),
        ({"d_k": 16}, 58, 58_034_688),
        ({"d_k": 32}, 60, 60_398_592),
        ({"N": 2}, 36, 35_700_736),
        ({"N": 4}, 50, 50_413_568),
        ({"N": 8}, 80, 79_839_232),
        ({"d_model": 256, "d_k": 32, "d_v": 32}, 28, 27_856_896),
        ({"d_model": 1024, "d_k": 128, "d_v": 128}, 168, 167_976_960),
        ({"d_ff": 1024}, 53, 52_531_200),
        ({"d_ff": 4096}, 90, 90_316_800),
        ({"positions": "learned"}, 65, 65_126_400),  # row E has learned positions in addition
    ],
)
def test_parameters_of_table_3(changes, millions, authors):
    """The printed millions, with or without the authors' table of 32 target languages, and the exact count."""
    assert round(parameters(**changes) / 1e6) == millions
    assert parameters(**changes, target_spaces=32) == authors
    assert round(authors / 1e6) == millions


def test_parameters_of_big_are_more_than_printed():
    """The paper's 213 million does not fit any of the conventions for its other ten counts."""
    assert parameters(d_model=1024, d_ff=4096, h=16, target_spaces=32) == 218_333_184


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"norm": "pre"}, 65_110_016 + 2 * 2 * 512),  # a LayerNorm behind each stack
        ({"attention": "additive"}, 65_110_016 + 18 * 8 * 64),  # a vector for each head
        ({"tied": False, "output_rows": 1000}, 65_110_016 + (40960 + 1000) * 512),
    ],
    ids=str,
)
def test_parameters_of_table_5_by_hand(changes, expected):
    assert parameters(**changes) == expected


def packed(sentences: int, length: int) -> Packed:
    """Return sentences of one length without padding."""
    ids = torch.randint(2, SMALL.output_rows, (sentences * length,))
    return Packed(ids, torch.arange(length).repeat(sentences), (sentences, length))


def test_flops_equal_pytorchs_count():
    sentences, L_s, L_t = 5, 13, 17
    source, target = packed(sentences, L_s), packed(sentences, L_t)
    model = Transformer(SMALL)
    with FlopCounterMode(display=False) as counter:
        loss, _ = smoothed_cross_entropy(model(source, target), model.output_weight(), target.ids, 0.1)
        loss.backward()
    sums = [sentences * n for n in (L_s, L_t, L_s * L_s, L_t * L_t, L_s * L_t)]
    assert model.flops(Lengths(*sums)) == counter.get_total_flops()


@pytest.mark.parametrize(
    ("hardware", "tera"),
    [("Tesla K80", 2.8), ("NVIDIA H100 80GB HBM3", 67), ("NVIDIA A100-SXM4-80GB", 19.5), ("NVIDIA GH200 480GB", None)],
)
def test_a_gpu_is_recognised_by_a_word_in_its_name(hardware, tera):
    assert single_precision(hardware) == pytest.approx(1e12 * (tera or float("nan")), nan_ok=True)
