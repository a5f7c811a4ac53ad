"""How a tensor- and pipeline-parallel group divides a model, as vLLM's layers do (model_executor/layers/linear.py)."""

from math import prod

from msgspec import Struct

from oomph.errors import CannotPlan
from oomph.facts.vllm.structure import WHOLE_ON_ONE_STAGE
from oomph.ir import Experts, Linear, Module, Param, Part, Tower
from oomph.units import round_up


class Layout(Struct, frozen=True):
    """The parallel sizes of one deployment, and which rank is looked at."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    pcp: int = 1
    expert_parallel: bool = False
    tp_rank: int = 0
    pp_rank: int = 0
    redundant_experts: int = 0
    partition: tuple[int, ...] = ()  # VLLM_PP_LAYER_PARTITION
    data_parallel_towers: bool = False  # --mm-encoder-tp-mode data

    sequence_parallel_moe: bool = False  # config/parallel.py use_sequence_parallel_moe

    @property
    def moe_ranks(self) -> int:
        """Ranks that share a layer's experts: tensor, data and prefill-context parallel groups flattened."""
        return self.tp * self.dp * self.pcp


def stage_sizes(count: int, pp: int) -> list[int]:
    """How many layers each pipeline stage has (distributed/utils.py get_pp_indices): what does not divide goes to the
    stages before the last, backwards, one each."""
    return [count // pp + (0 < pp - 1 - stage <= count % pp) for stage in range(pp)]


def stage_layers(count: int, layout: Layout) -> range:
    """The decoder layers of one pipeline stage."""
    sizes = list(layout.partition) or stage_sizes(count, layout.pp)
    if len(sizes) != layout.pp or sum(sizes) != count:
        raise CannotPlan(f"VLLM_PP_LAYER_PARTITION {sizes} does not split {count} layers into {layout.pp} stages")
    start = sum(sizes[: layout.pp_rank])
    return range(start, start + sizes[layout.pp_rank])


def tower_parts(tower: Tower, tp: int, habits: frozenset[str]) -> tuple[int, int]:
    """Ranks that share an encoder's attention, and the rest of it; 0 = vLLM refuses heads that do not divide."""
    split = any(_is_split(module) for _, block in tower.blocks for module in block.modules if _is_attention(module))
    if tower.num_heads % tp == 0 or not split:
        return tp, tp
    if tower.alone == "attention":  # intern_vit.py:169 (0.21.0)
        return 1, tp
    # vision.py:141 (0.26.0) is_vit_use_data_parallel with a number of heads; qwen3_omni_moe_thinker.py:211 (0.29.0)
    which = "audio encoders" if tower.modality == "audio" else "encoders"
    return (1, 1) if tower.alone and f"{which} alone where heads do not divide" in habits else (0, 0)


def _is_attention(module: Module) -> bool:
    return "attn" in module.name or "attention" in module.name or "qkv" in module.name


def _is_split(module: Module) -> bool:
    if isinstance(module, Linear):
        return module.shard != "replicated"
    return isinstance(module, Param) and module.shard_dim is not None


def tower_module_ranks(module: Module, parts: tuple[int, int]) -> int:
    return parts[0] if _is_attention(module) else parts[1]


def part_out(part: Part, linear: Linear, tp: int) -> int:
    """Output features of one part on one rank; parts with heads keep whole heads and at least one."""
    if linear.shard != "column" or tp == 1:
        return part.out_features
    if part.heads:
        return part.out_features // part.heads * max(1, part.heads // tp)
    return part.out_features // tp


def linear_ranks(linear: Linear, layout: Layout, habits: frozenset[str]) -> int:
    """Ranks that share one linear layer: with sequence-parallel experts each rank has its own tokens, so that some
    classes give each of them the shared experts whole (deepseek_v2.py DeepseekV2MLP, disable_tp)."""
    whole = layout.sequence_parallel_moe and linear.whole_by in habits
    return 1 if whole and (layout.pp == 1 or linear.whole_by not in WHOLE_ON_ONE_STAGE) else layout.tp


def experts_share(experts: Experts, layout: Layout, habits: frozenset[str]) -> int:
    """Intermediate features of one rank, before a kernel pads them."""
    if layout.expert_parallel:
        return experts.intermediate
    whole, (habit, least) = experts.intermediate, experts.least_share
    if layout.tp > 1 and habit in habits and whole // layout.tp < least:
        whole = least * layout.tp
    return whole // layout.moe_ranks


def outs(linear: Linear, tp: int, habits: frozenset[str] = frozenset()) -> list[int]:
    sizes = [part_out(p, linear, tp) for p in linear.parts if is_created(p, habits)]
    if linear.apart_by and linear.apart_by % tp:
        sizes = [sum(sizes)]
    if linear.shard != "column" or not _in_whole_blocks(linear, habits):
        return sizes
    assert linear.scheme is not None
    return [round_up(size, linear.scheme.block[0]) for size in sizes]


def is_created(part: Part | Param, habits: frozenset[str]) -> bool:
    return part.created and (not part.only or part.only in habits)


def in_features(linear: Linear, tp: int, habits: frozenset[str] = frozenset()) -> int:
    if linear.shard != "row":
        return linear.in_features
    size = linear.in_features // tp
    if linear.scheme is not None and _in_whole_blocks(linear, habits):
        return round_up(size, linear.scheme.block[1])
    return size


def _in_whole_blocks(linear: Linear, habits: frozenset[str]) -> bool:
    return linear.whole_blocks in habits and linear.scheme is not None and all(linear.scheme.block)


def param_elements(param: Param, tp: int) -> int:
    n = prod(param.shape)
    if param.shard_dim is None or tp == 1:
        return max(n, param.at_least)
    share = n // param.heads * max(1, param.heads // tp) if param.heads else n // tp
    return max(share, param.at_least)


def local_experts(count: int, layout: Layout) -> int:
    """Experts on this rank (fused_moe/layer.py determine_expert_map): the first ranks take the remainder."""
    total = count + layout.redundant_experts
    if not layout.expert_parallel or layout.moe_ranks == 1:
        return total
    base, extra = divmod(total, layout.moe_ranks)
    return base + (layout.tp_rank < extra)
