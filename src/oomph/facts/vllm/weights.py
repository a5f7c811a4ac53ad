"""What changed over the releases in how vLLM builds a model."""

from __future__ import annotations

from oomph.facts.vllm.versions import Range


class WeightRules(Range, frozen=True):
    separate_tied_head: bool  # a tied checkpoint that stores an lm_head gets one built for it
    quantised_heads: frozenset[str]  # quantisation methods that quantise lm_head where the checkpoint did


WEIGHTS: tuple[WeightRules, ...] = (
    WeightRules(
        separate_tied_head=True,
        quantised_heads=frozenset({"awq", "gptq", "modelopt_fp4", "modelopt_mixed", "compressed-tensors"}),
        since="0.29.0",
    ),
    WeightRules(separate_tied_head=False, quantised_heads=frozenset({"gptq"})),
)
