"""Which CUDA graphs SGLang captures: decode batch sizes, and prefill token counts where nothing stands against them."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from oomph.engines.sglang.resolve.settings import ModelShape
from oomph.facts.sglang.facts import Facts
from oomph.facts.sglang.memory import decode_sizes, prefill_sizes

Phase = Literal["decode", "prefill"]


def prefill_backend(shape: ModelShape, facts: Facts, flags: Mapping[str, Any]) -> str:
    """The way in which prefill graphs are captured; "disabled" = not at all."""
    rules = facts.prefill_graphs
    explicit = explicit_backend(flags, "prefill")
    if explicit:
        return explicit
    backend = rules.default
    if backend == "asked for":
        return "tc_piecewise" if flags.get("enable_piecewise_cuda_graph") else "disabled"
    if flags.get("enforce_piecewise_cuda_graph"):
        return "tc_piecewise"
    lists, both = facts.architectures, rules.breakable_for_images
    validated = shape.is_multimodal and shape.architecture in lists.multimodal_piecewise
    validated = validated and not (both and shape.architecture in lists.multimodal_breakable)
    if backend == "breakable" and rules.piecewise_for_images and validated:
        backend = "tc_piecewise"
    true = frozenset(_statements(shape, facts, flags))
    off = rules.piecewise_off if backend == "tc_piecewise" else rules.breakable_off
    return "disabled" if any(row.when in true for row in off) else backend


def decode_graphs_on(flags: Mapping[str, Any]) -> bool:
    return explicit_backend(flags, "decode") != "disabled"


def explicit_backend(flags: Mapping[str, Any], phase: Phase) -> str:
    """What the flags say of one phase; "" = nothing."""
    config = flags.get("cuda_graph_config")
    choice = config.get(phase) if isinstance(config, Mapping) else None
    if isinstance(choice, Mapping) and choice.get("backend"):
        return str(choice["backend"])
    if backend := flags.get(_BACKENDS[phase]):
        return str(backend)
    return "disabled" if any(flags.get(field) for field in ("disable_cuda_graph", *_SWITCHES[phase])) else ""


# of one phase: the flag that names its backend, and those that switch its graphs off
_BACKENDS: dict[Phase, str] = {"decode": "cuda_graph_backend_decode", "prefill": "cuda_graph_backend_prefill"}
_SWITCHES: dict[Phase, tuple[str, ...]] = {
    "decode": ("disable_decode_cuda_graph",),
    "prefill": ("disable_prefill_cuda_graph", "disable_piecewise_cuda_graph"),
}


def _statements(shape: ModelShape, facts: Facts, flags: Mapping[str, Any]) -> Iterator[str]:
    """What is true of this deployment, in the words of facts/sglang/graphs.py."""
    lists, name = facts.architectures, shape.architecture
    all_to_all = str(flags.get("moe_a2a_backend") or "none")
    statements = {
        "listed model": name in lists.no_piecewise_graphs,
        "drafts": bool(flags.get("speculative_algorithm")),
        "attention data parallel": attention_groups(flags) > 1,
        "torch compile": bool(flags.get("enable_torch_compile")),
        "pipeline": int(flags.get("pp_size") or 1) > 1,
        "all-to-all": all_to_all != "none",
        "all-to-all, not validated": all_to_all not in facts.prefill_graphs.validated_all_to_all,
        "adapters": bool(flags.get("lora_paths") or flags.get("enable_lora")),
        "images without piecewise": shape.is_multimodal and name not in lists.multimodal_piecewise,
        "images without breakable": shape.is_multimodal and name not in lists.multimodal_breakable,
        "gguf": "gguf" in (flags.get("load_format"), flags.get("quantization")),
        "host memory": bool(flags.get("cpu_offload_gb") or flags.get("enable_hierarchical_cache")),
        "deterministic": bool(flags.get("enable_deterministic_inference")),
        "disaggregated": str(flags.get("disaggregation_mode") or "null") != "null",
        "symmetric memory": bool(flags.get("enable_symm_mem")),
        "expert recorder": bool(flags.get("enable_eplb") or flags.get("expert_distribution_recorder_mode")),
        "context parallel": int(flags.get("attn_cp_size") or 1) > 1,
        "decode context parallel": int(flags.get("dcp_size") or 1) > 1,
        "latent attention": shape.is_latent,
        "latent attention, not sparse": shape.is_latent and not shape.is_sparse,
        "nemotron": name.startswith("NemotronH"),
        "delta attention": shape.has_delta_attention,
        "deepseek v4": shape.is_v4,
        "two batches": bool(flags.get("enable_two_batch_overlap")),
    }
    return (statement for statement, holds in statements.items() if holds)


def attention_groups(flags: Mapping[str, Any]) -> int:
    """Data-parallel groups of the attention: --attn-dp-size, or --dp-size with --enable-dp-attention."""
    if flags.get("attn_dp_size"):
        return int(flags["attn_dp_size"])
    return int(flags.get("dp_size") or 1) if flags.get("enable_dp_attention") else 1


def largest_decode_batch(facts: Facts, flags: Mapping[str, Any], card_mib: int) -> int:
    """cuda_graph_max_bs: from the flags, else by the card and by how many requests may run."""
    sizes = flags.get("cuda_graph_bs") or flags.get("cuda_graph_bs_decode")
    if isinstance(sizes, (list, tuple)) and sizes:
        return max(int(size) for size in sizes)
    largest = flags.get("cuda_graph_max_bs") or flags.get("cuda_graph_max_bs_decode")
    if largest:
        return int(largest)
    tier = next(t for t in facts.memory.tiers if not t.below or card_mib < t.below)
    batch = tier.graph_batch if int(flags.get("tp_size") or 1) < 4 else tier.wide_graph_batch
    requests = flags.get("max_running_requests")
    return min(batch, int(requests)) if facts.memory.graphs_follow_requests and requests else batch


def decode_batches(facts: Facts, flags: Mapping[str, Any], largest: int) -> tuple[int, ...]:
    if not decode_graphs_on(flags):
        return ()
    sizes = flags.get("cuda_graph_bs") or flags.get("cuda_graph_bs_decode")
    if isinstance(sizes, (list, tuple)) and sizes:
        return tuple(sorted(int(size) for size in sizes))
    drafts, padding = bool(flags.get("speculative_algorithm")), not flags.get("disable_cuda_graph_padding")
    return decode_sizes(facts.memory, largest, drafts=drafts, padding=padding)


def prefill_tokens(
    shape: ModelShape, facts: Facts, flags: Mapping[str, Any], chunk: int, model: str
) -> tuple[int, ...]:
    """The token counts of prefill graphs, as the reserve counts them (before attention groups divide the chunk)."""
    memory = facts.memory
    explicit = flags.get("cuda_graph_bs_prefill") or flags.get("piecewise_cuda_graph_tokens")
    if isinstance(explicit, (list, tuple)) and explicit:
        return tuple(int(size) for size in explicit)
    largest = flags.get("cuda_graph_max_bs_prefill") or flags.get("piecewise_cuda_graph_max_tokens")
    if largest is None and shape.architecture in facts.prefill_graphs.small_graphs:
        largest = facts.prefill_graphs.small_graph_tokens
    if largest is None:
        largest = chunk
        if shape.is_latent and memory.mla_prefill_tokens:
            largest = memory.mla_prefill_tokens
            if memory.mla_prefill_follows_chunk:
                largest = min(largest, chunk)
        if memory.total_tokens_bound_prefill and flags.get("max_total_tokens"):
            largest = min(largest, int(flags["max_total_tokens"]))
        if memory.total_tokens_bound_prefill and "llama-2" in model.lower():
            largest = min(largest, 4096)
    if memory.context_bounds_prefill and flags.get("context_length"):
        largest = min(int(largest), int(flags["context_length"]))
    return prefill_sizes(memory, int(largest))
