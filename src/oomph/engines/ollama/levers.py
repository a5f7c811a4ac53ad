"""What a person can change about an Ollama model: its context and its cache, by the names that Ollama has for them."""

from collections.abc import Iterator

from oomph.engines.llamacpp.levers import EIGHT_BITS, context, large_allocations
from oomph.ir import Change, Lever, Model, Plan


def levers(plan: Plan, model: Model | None = None) -> Iterator[Lever]:
    if not plan.ranks or "n_ctx_seq" not in plan.resolved:
        return
    yield from large_allocations(plan)
    if plan.resolved.get("type_k") == "f16" and plan.resolved.get("flash_attn"):
        variable = "OLLAMA_KV_CACHE_TYPE"
        change = Change(
            "kv_cache_type", f"{variable}=q8_0", "environment", {"kv_cache_type": "q8_0"}, {variable: "q8_0"},
            cost=EIGHT_BITS, rank=3,
        )  # fmt: skip
        yield Lever("kv_cache_type", (change,))
    yield from context(plan, "num_ctx", "num_ctx")
