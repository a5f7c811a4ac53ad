"""What TensorRT-LLM's model classes create on the GPU, where it differs from the shared description of a model.

Origins: `_torch/modules/linear.py`, `embedding.py`, `attention.py`, `fused_moe/`, `models/modeling_*.py`. The shapes of
quantised layers are the checkpoint's own, as in vLLM's table; output heads and embeddings are never quantised here.
"""

from oomph.facts.changes import changes, names, parse_release, table
from oomph.facts.vllm.create_experts import EXPERTS
from oomph.facts.vllm.create_linear import LINEAR
from oomph.facts.vllm.create_weights import Creation

# Those of vLLM's habits (facts/vllm/structure.py) that these classes share.
HABITS = frozenset(
    (
        "GDN decay in float32",
        "convolutions as a buffer",
        "indexer keys apart",
        "kv of layers that share a cache",
        "outer configs tie the head",
        "router in the model's dtype",
    )
)
# models/modeling_deepseekv3.py: `embed_tokens` is built without a mapping, so that every rank has all of it. Posted
# start-ups of DeepSeek-R1 NVFP4 agree: 3.65 GiB of "Use ... for model weights" do not shrink with the ranks.
WHOLE_EMBEDDINGS = frozenset(
    names(
        "DeepseekV3ForCausalLM DeepseekV32ForCausalLM KimiK2ForCausalLM KimiK25ForConditionalGeneration "
        "Glm4MoeForCausalLM GlmMoeDsaForCausalLM"
    )
)

# MXFP4 experts are padded (modules/fused_moe/quantization.py): every backend's weights to multiples of 128, and the
# input features of TRTLLM-Gen's first projection to 512. gpt-oss-120b printed 63.32 GiB with the former: to the digit.
MXFP4_ALIGNMENT = 128
MXFP4_INPUT_ALIGNMENT = {"TRTLLM": 512}
# DeepGEMM works on a buffer for every expert of the rank (modules/fused_moe/fused_moe_deepgemm.py get_workspace): rows
# for all tokens of a chunk. Read in its source on the main branch: `default_moe_max_num_tokens = 18688`, which it
# explains as twice ((0+1)*1024 + 8196 + 128 + 63) // 64 * 64; a step of more than twice moe_max_num_tokens is cut into
# equal chunks (forward_impl). DeepSeek-R1 on eight cards printed 124.76 GiB inside torch where TRTLLM had 81.86: 42.1
# of these 42.9 by this. With expert and attention data parallelism it printed 3.2 more than this gives (outside.py).
DEEPGEMM_TOKENS = 18688
# A backend that the engine chooses itself ("AUTO"), and quantised experts whose padding nobody has printed.
UNPRINTED_EXPERTS = (1.0, 1.0, 1.09)


class CheckpointShapes(Creation):
    linear_rows = table(LINEAR)
    experts_rows = table(EXPERTS)
    marlin_tile = changes(1)
    zero_points = changes(True)


def creation() -> Creation:
    return CheckpointShapes.at(parse_release("0.32.0"))
