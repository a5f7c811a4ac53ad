"""The bytes of vLLM's LoRA slots, beside the shapes of the layers written out by hand."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from oomph.answers.plan import load
from oomph.engines.common.created import Build
from oomph.engines.common.shard import Layout
from oomph.engines.vllm.resolve.plain_flags import Lora
from oomph.engines.vllm.weights.lora import slots
from oomph.facts.vllm.facts import at
from oomph.ir import Model

FACTS = at("0.21.0")
DENSE, ROUTED = "Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B"
BUFFERS = {"qkv_proj": 3, "gate_up_proj": 2}  # matrices that one layer is made of


def sums(model: Model, layout: Layout, lora: Lora) -> dict[str, int]:
    """Bytes by the last word of a module's name."""
    build = Build(FACTS.creation, layout, "BF16")
    total: Counter[str] = Counter()
    for name, size in slots(model, build, lora, FACTS.lora, 2048, 8):
        total[name.rpartition(".")[2]] += size
    return dict(total)


def linear(inputs: int, outputs: tuple[int, ...], rank: int, tp: int, split: str, sharded: bool) -> int:
    """Elements of both matrices of an adapter: the input of a row layer is split, the output of a column layer is; who
    shards fully splits the other one too."""
    if split == "column":
        return len(outputs) * (rank // tp if sharded else rank) * inputs + sum(outputs) // tp * rank
    return rank * inputs // tp + (sum(outputs) // tp if sharded else sum(outputs)) * rank


@pytest.mark.parametrize(
    ("tp", "pp", "rank", "loras", "sharded"), [*product((1, 2, 4), (1, 2), (16, 64), (1, 3), (False, True))]
)
def test_every_layer_of_a_dense_model(tp: int, pp: int, rank: int, loras: int, sharded: bool) -> None:
    lora = Lora(loras, rank, "auto", sharded, None, 0)
    own = sums(load(DENSE), Layout(tp=tp, pp=pp, pp_rank=pp - 1), lora)
    unit = 36 // pp * loras * 2
    hidden, heads, kv, inner = 4096, 32 * 128, 8 * 128, 12288
    assert own["qkv_proj"] == unit * linear(hidden, (heads, kv, kv), rank, tp, "column", sharded)
    assert own["o_proj"] == unit * linear(heads, (hidden,), rank, tp, "row", sharded)
    assert own["gate_up_proj"] == unit * linear(hidden, (inner, inner), rank, tp, "column", sharded)
    assert own["down_proj"] == unit * linear(inner, (hidden,), rank, tp, "row", sharded)
    assert own["logits_processor"] == loras * 2 * rank * (hidden + 151936)


@pytest.mark.parametrize(
    ("tp", "rank", "parallel", "sharded"), [*product((1, 4), (16, 64), (False, True), (False, True))]
)
def test_every_expert_of_a_rank_has_slots(tp: int, rank: int, parallel: bool, sharded: bool) -> None:
    lora = Lora(2, rank, "float32", sharded, None, 0)
    own = sums(load(ROUTED), Layout(tp=tp, expert_parallel=parallel), lora)
    experts, inner, hidden = 128 // (tp if parallel else 1), 768 // (1 if parallel else tp), 2048
    shared = tp if sharded else 1
    in_and_out = 2 * (rank // shared * hidden + inner * rank)  # of the gate and of what goes up
    down = inner * rank + hidden // shared * rank
    assert own["experts"] == 48 * 2 * 4 * experts * (in_and_out + down)


def test_named_targets_alone_have_slots() -> None:
    model, layout = load(DENSE), Layout()
    everything = sums(model, layout, Lora(1, 16, "auto", False, None, 0))
    some = sums(model, layout, Lora(1, 16, "auto", False, frozenset(("o_proj",)), 0))
    assert some == {name: size for name, size in everything.items() if name in ("o_proj", "punica_wrapper")}
    more = sums(model, layout, Lora(1, 16, "auto", False, None, 256))
    assert more["logits_processor"] - everything["logits_processor"] == 2 * 16 * 256


@pytest.mark.parametrize("loras", [1, 5])
def test_what_says_which_adapter_a_token_belongs_to(loras: int) -> None:
    """Five rows of the batch and three of the requests in 64 bits, and twice two of the batch in 32."""
    own = sums(load(DENSE), Layout(), Lora(loras, 16, "auto", False, None, 0))
    assert own["punica_wrapper"] == 8 * (5 * 2048 + 3 * 8) + 2 * 4 * (2 * 2048 + 3 * loras + 4)


def test_the_vocabulary_stands_on_the_first_stage_and_the_head_on_the_last() -> None:
    model, lora = load("meta-llama/Llama-3.2-1B-Instruct"), Lora(1, 16, "auto", False, None, 256)
    first, last = (sums(model, Layout(pp=2, pp_rank=rank), lora) for rank in (0, 1))
    table = 2 * 16 * (128256 + 256 + 2048)
    assert first["embed_tokens"] == table and "logits_processor" not in first
    assert last["logits_processor"] == table and "embed_tokens" not in last
