"""Bytes of one token and of one request's state in SGLang's pools, by hand (`make mutants`)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oomph.engines.sglang.kv.cells import Cells, _index_row, _latent, _row, _sparse_index, _with_drafts, state_bytes
from oomph.engines.sglang.kv.deepseek_v4 import v4_pool
from oomph.errors import CannotPlan
from oomph.facts.sglang.facts import at
from oomph.ir.model import Attention, Indexer, State
from oomph.sources.load import load_once


def settings(**values: Any) -> Any:
    usual = {
        "attn_tp_size": 1, "kv_dtype": "BF16", "kv_cache_dtype": "auto", "dtype": "BF16", "draft_layers": 0,
        "sparse_layout": "",
    }  # fmt: skip
    return SimpleNamespace(**{**usual, **values})


def attention(**values: Any) -> Attention:
    return Attention("full", 8, 4, 64, 32, **values)


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, 4 * 96 * 2), ({"attn_tp_size": 2}, 2 * 96 * 2), ({"attn_tp_size": 4}, 96 * 2),
        ({"attn_tp_size": 8}, 96 * 2), ({"kv_dtype": "F8_E4M3"}, 4 * 96),
        ({"kv_dtype": "F8_E4M3", "kv_cache_dtype": "mxfp8"}, 4 * 96 + 4 * 96 // 32),
        ({"kv_dtype": "F4"}, 4 * 96 // 2 + 4 * 96 // 16),
    ],
)  # fmt: skip
def test_keys_and_values_of_one_token(options: dict[str, Any], size: int) -> None:
    assert _row(attention(), settings(**options)) == size


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, (512 + 64) * 2), ({"kv_dtype": "F4"}, (512 + 64) // 2 + (512 + 64) // 16),
        ({"sparse_layout": "packed"}, 512 + 512 // 128 * 4 + 2 * 64), ({"attn_tp_size": 8}, (512 + 64) * 2),
    ],
)  # fmt: skip
def test_the_latent_of_one_token_is_the_same_on_every_rank(options: dict[str, Any], size: int) -> None:
    latent = attention(kv_lora_rank=512, qk_rope_head_dim=64)
    layers: Any = [SimpleNamespace(mixers=(latent,)), SimpleNamespace(mixers=())]
    for states, count in (((), 2), (("a state",), 1)):
        shape: Any = SimpleNamespace(full=latent, states=states, is_sparse=False)
        facts: Any = SimpleNamespace(pools=SimpleNamespace(shared_index_elided=False))
        assert _latent(layers, shape, settings(**options), facts) == Cells(size * count, full_layers=count)


@pytest.mark.parametrize(
    ("own", "elide", "size"), [(True, False, 132), (True, True, 132), (False, False, 66), (False, True, 0)]
)
def test_index_keys_of_a_layer_or_of_the_one_that_it_shares_with(own: bool, elide: bool, size: int) -> None:
    layer: Any = SimpleNamespace(mixers=(attention(indexer=Indexer(1, 128, 8) if own else None),))
    assert _index_row(layer, attention(indexer=Indexer(1, 66, 8)), elide) == size


def test_one_head_of_index_keys_in_the_layers_that_choose() -> None:
    layers: Any = [
        SimpleNamespace(mixers=(attention(indexer=Indexer(4, 128, 8)),)),
        SimpleNamespace(mixers=(attention(),)),
    ]
    assert _sparse_index(layers, settings()) == 128 * 2


@pytest.mark.parametrize(("drafts", "full"), [(0, 110), (1, 110 + 10 + 1), (2, 110 + 20 + 2)])
def test_draft_layers_have_their_part_of_every_token(drafts: int, full: int) -> None:
    cells = Cells(110, full_layers=10, index=10)
    assert _with_drafts(cells, settings(draft_layers=drafts)).full == full
    assert _with_drafts(Cells(110), settings(draft_layers=drafts)).full == 110


@pytest.mark.parametrize(
    ("state", "ranks", "convolution", "recurrent"),
    [
        (State("mamba2", 4, 64, 16, 8, 8, 2), 1, (64 + 2 * 2 * 16) * 3, 8 * 8 * 16),
        (State("mamba2", 4, 64, 16, 8, 8, 2), 2, (64 + 2 * 2 * 16) // 2 * 3, 4 * 8 * 16),
        (State("mamba2", 4, 64, 16, 8, 8, 2), 4, (64 + 2 * 4 * 16) // 4 * 3, 2 * 8 * 16),  # a group for every rank
        (State("gdn", 4, 0, 0, 8, 16, 4, 32), 2, (8 * 16 + 2 * 4 * 32) // 2 * 3, 4 * 16 * 32),
        (State("kda", 4, 0, 0, 8, 16), 2, 3 * (64 + 2 * 64), 4 * 16**2),
        (State("kda", 4, 0, 0, 8, 16, 4, 32), 2, 3 * (64 + 2 * 64), 4 * 16**2),
        (State("kda", 4, 0, 0, 8, 16, 2, 32), 2, 3 * (64 + 2 * 32), 4 * 16**2),
        (State("short_conv", 3, 64), 2, 32 * 2, 0), (State("mamba1", 4, 64, 16), 2, 32 * 3, 32 * 16),
        (State("linear_attention", 0, 0, 0, 8, 16), 2, 0, 4 * 16**2),
    ],
)  # fmt: skip
def test_the_state_of_one_request(state: State, ranks: int, convolution: int, recurrent: int) -> None:
    assert state_bytes(state, ranks, "") == 2 * convolution + 4 * recurrent
    assert state_bytes(state, ranks, "bfloat16") == 2 * convolution + 2 * recurrent


def test_a_state_that_is_not_known_is_refused() -> None:
    unknown: Any = SimpleNamespace(kind="another", conv_kernel=1)
    with pytest.raises(CannotPlan, match="another"):
        state_bytes(unknown, 1, "")


def test_drafts_of_deepseek_v4_have_rings_of_twice_the_size() -> None:
    """get_compress_state_ring_size: 8 tokens at ratio 4, 16 with drafts; a drafter is one layer more."""
    model = load_once("deepseek-ai/DeepSeek-V4-Flash")
    layers, facts = range(len(model.layers)), at("0.5.23")
    pools = {
        drafts: v4_pool(
            model,
            settings(drafts=drafts, page_size=256, swa_full_tokens_ratio=0.1, max_running_requests=8, attn_dp_size=1),
            facts,
            layers,
        )
        for drafts in (False, True)
    }
    mixers = [mixer for layer in model.layers for mixer in layer.mixers if isinstance(mixer, Attention)]
    few = [mixer for mixer in mixers if mixer.compress_ratio == 4]
    index = few[0].indexer.head_dim if few[0].indexer is not None else 0
    state = 4 * (mixers[0].head_dim + index) * 4
    page = 256 if facts.pools.v4_pages_padded else max(mixer.window or 256 for mixer in mixers)
    inflation = (len(mixers) + 1) / len(mixers)
    assert facts.pools.v4_rings_by_request
    added = pools[True].per_window_token / inflation - pools[False].per_window_token
    assert added == pytest.approx(8 / page * state * len(few), rel=1e-9)
