"""What changed over the releases in how vLLM builds a model."""

from __future__ import annotations

from oomph.facts.vllm.kv import Row
from oomph.facts.vllm.versions import Range


class WeightRules(Range, frozen=True):
    separate_tied_head: bool  # a tied checkpoint that stores an lm_head gets one built for it
    quantised_heads: frozenset[str]  # quantisation methods that quantise lm_head where the checkpoint did


class Unscaled(Range, frozen=True):
    """An architecture whose class builds its attention without the quantisation config: no loadable KV scales."""

    architecture: str


UNSCALED: tuple[Unscaled, ...] = (
    Unscaled("BailingMoeForCausalLM"),
    Unscaled("BailingMoeV2ForCausalLM"),
    Unscaled("BambaForCausalLM"),
    Unscaled("FalconH1ForCausalLM", until="0.16.0"),
    Unscaled("JambaForCausalLM"),
    Unscaled("Lfm2ForCausalLM"),
    Unscaled("Lfm2MoeForCausalLM"),
    Unscaled("NemotronHForCausalLM", until="0.14.0"),
    Unscaled("Zamba2ForCausalLM"),
)
# --quantization fp8 of a plain checkpoint: Fp8Config, with KV scales, until quantization/online/ (0.31.0) took it over
ONLINE_SCALES = (Row(value=1, until="0.31.0"), Row(value=0, since="0.31.0"))

WEIGHTS: tuple[WeightRules, ...] = (
    WeightRules(
        separate_tied_head=True,
        quantised_heads=frozenset({"awq", "gptq", "modelopt_fp4", "modelopt_mixed", "compressed-tensors"}),
        since="0.29.0",
    ),
    WeightRules(separate_tied_head=False, quantised_heads=frozenset({"gptq"})),
)
