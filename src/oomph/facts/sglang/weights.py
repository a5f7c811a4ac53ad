"""What SGLang's model classes build otherwise than vLLM's, from which the descriptions in `sources/arch` were written.

Origins: `models/*.py`, `layers/rotary_embedding/`, `layers/quantization/*.py` of 0.5.23, and the parameters that the
classes list when they are built without a GPU.
"""

from oomph.facts.changes import Facts, changes, members, parse_release, table
from oomph.facts.sglang.architectures import evolving
from oomph.facts.vllm.create_experts import EXPERTS, Shape
from oomph.facts.vllm.create_linear import LINEAR, Params
from oomph.facts.vllm.create_weights import Creation
from oomph.units import round_up

# layers/quantization/mxfp4.py: multiples of the hidden and the intermediate size for OpenAI's Triton kernels
MXFP4_TRITON = (1, 64)
PACKED = 32_768  # models/paddleocr_vl.py:207, rows of packing_position_embedding

# Those of vLLM's habits (facts/vllm/structure.py) that SGLang's classes share.
HABITS = frozenset(
    (
        "DeepSeek-V4 sinks for its heads",
        "GDN decay in float32",
        "Gemma 4's encoders quantised",
        "Kimi Linear of its own",
        "Kimi vision table as built",
        "attention in the tree of transformers' modules",
        "convolutions as a buffer",
        "in_proj_ba split under Marlin",
        "indexer keys apart",
        "kv of layers that share a cache",
        "outer configs tie the head",
        "router in the model's dtype",
        "short convolutions quantised",
    )
)


# layers/quantization/*.py get_config_filenames: methods whose settings stand in a file that only such a checkpoint has
NEED_A_FILE = frozenset({
    "auto-round", "awq", "awq_marlin", "gptq", "gptq_marlin", "marlin", "modelopt", "modelopt_fp8", "modelopt_mixed",
    "modelslim", "moe_wna16", "petit_nvfp4",
})  # fmt: skip
# methods that read each other's checkpoints (override_quantization_method, compatible_quantization_methods); one that
# is not here is not compared
FORMAT_FAMILIES = {
    "awq": "awq", "awq_marlin": "awq", "gptq": "gptq", "gptq_marlin": "gptq", "fp8": "fp8",
    "bitsandbytes": "bitsandbytes", "compressed-tensors": "compressed-tensors", "modelopt": "modelopt",
    "modelopt_fp8": "modelopt", "modelopt_fp4": "modelopt", "modelopt_mixed": "modelopt",
}  # fmt: skip


class Weights(Facts):
    # embeddings that every rank has all of: plain nn.Embedding (models/gemma3_causal.py, gemma4_causal.py)
    whole_embeddings = evolving(
        "Gemma3ForCausalLM Gemma3ForConditionalGeneration Gemma3nForCausalLM Gemma3nForConditionalGeneration "
        "Gemma4ForCausalLM Gemma4ForConditionalGeneration Gemma4UnifiedForConditionalGeneration"
    )
    float32_heads = evolving("FalconH1ForCausalLM")  # models/falcon_h1.py:472: self.lm_head.float()
    float32_routers = evolving("LagunaForCausalLM MiniMaxM2ForCausalLM")
    # without images these build no encoder (models/mllama4.py)
    encoder_only_with_images = evolving("Llama4ForConditionalGeneration")
    # encoders whose layers tensor parallelism divides, where the shared description has them whole on every rank
    split_encoders = evolving(
        "Gemma4ForConditionalGeneration Gemma4UnifiedForConditionalGeneration Gemma3nForConditionalGeneration"
    )
    # encoders whose table of positions is split as a vocabulary (VocabParallelEmbedding)
    split_positions = evolving(
        "Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration Qwen3_5ForConditionalGeneration "
        "Qwen3_5MoeForConditionalGeneration Gemma3ForConditionalGeneration"
    )
    # modules of encoders that are plain nn.Linear, so that every rank has all of them (models/llava.py, mistral.py,
    # dots_vlm_vit.py, glm4v.py, read off 0.5.23)
    whole_in_encoders = table({
        "LlavaForConditionalGeneration": changes(("linear_1", "linear_2")),
        "Mistral3ForConditionalGeneration": changes(("linear_1", "linear_2", "merging_layer")),
        "DotsOCRForCausalLM": changes(("fc1", "fc2", "fc3", "merger.mlp.0", "merger.mlp.2")),
        "Glm4vForConditionalGeneration": changes(("merger.proj",)),
        "Glm4vMoeForConditionalGeneration": changes(("merger.proj",)),
    })  # fmt: skip
    # models/lfm2.py, lfm2_moe.py: a head of its own, whatever the config ties
    untied_heads = evolving("Lfm2ForCausalLM Lfm2MoeForCausalLM")
    second_heads = evolving("DotsOCRForCausalLM")
    packed_positions = evolving("PaddleOCRVLForConditionalGeneration")
    quantised_heads = evolving("modelopt modelopt_fp4 modelopt_mixed")  # methods that quantise an output head
    # configs/model_config.py rocm_supported_quantization, read off 0.5.4, 0.5.9 and 0.5.23: a method that came or went
    # in a release between them is dated by the first of the three that shows it
    rocm_formats = members(
        "awq fp8 compressed-tensors w8a8_fp8 petit_nvfp4 quark mxfp4",
        since={"0.5.9": "auto-round quark_int4fp8_moe", "0.5.23": "mxfp8 auto-round-int8 quark_mxfp4"},
        until={"0.5.23": "gptq fbgemm_fp8"},
    )
    # get_min_capability of each method, by the name that the checkpoint has for it (ours: modelopt is modelopt_fp8)
    oldest_cards = table(
        {
            "fp8": changes(80),
            "mxfp4": changes(80),
            "modelopt": changes(89),
            "modelopt_fp4": changes(100, ("0.5.13", 80)),
            "modelopt_mixed": changes(100, ("0.5.13", 80)),
            "compressed-tensors": changes(70),
            "gptq": changes(60),
        }
    )
    complex_rotary = evolving("DeepseekV4ForCausalLM")  # models/deepseek_v4.py: freqs_cis beside the table
    # layers/quantization/mxfp4.py: multiples of the hidden and the intermediate size on data-centre Blackwell
    mxfp4_blackwell = changes((256, 256), ("0.5.20", (256, 128)))


def nvfp4_experts(shape: Shape) -> Params:
    """modelopt_quant.py:2550: the block scales a second time, in the order that the kernels read (rows of 128, columns
    of 4)."""
    group = shape.scheme.group_size or 16
    rows, columns = shape.shards * shape.inter, shape.hidden // group
    params: Params = [
        ("w13_weight", shape.experts * rows * (shape.hidden // 2)),
        ("w2_weight", shape.experts * shape.hidden * (shape.inter // 2)),
        ("weight_scales", shape.experts * (rows * columns + shape.hidden * (shape.inter // group))),
        ("weight_global_scales", shape.experts * (shape.shards + 1) * 4),
        ("input_scales", shape.e_all * (shape.shards + 1) * 4),
    ]
    again = round_up(rows, 128) * round_up(columns, 4) + round_up(shape.hidden, 128) * round_up(shape.inter // group, 4)
    return [*params, ("blockscale_swizzled", shape.experts * again)]


def mxfp4_experts_in_fp8(shape: Shape) -> Params:
    """DeepSeek-V4's experts under its FP8 config: float32 scales for groups of 32 (fp8.py, is_fp4_experts)."""
    return [
        ("w13_weight", shape.experts * shape.shards * shape.inter * (shape.hidden // 2)),
        ("w13_weight_scale_inv", shape.experts * shape.shards * shape.inter * (shape.hidden // 32) * 4),
        ("w2_weight", shape.experts * shape.hidden * (shape.inter // 2)),
        ("w2_weight_scale_inv", shape.experts * shape.hidden * (shape.inter // 32) * 4),
    ]


class PlainScales(Creation):
    """What SGLang's quantisation methods create: vLLM's shapes, with which they share their origin, but for experts."""

    linear_rows = table(LINEAR)
    experts_rows = table({**EXPERTS, ("fp8_mxfp4", ""): changes(mxfp4_experts_in_fp8)})
    marlin_tile = changes(1)
    zero_points = changes(True)


class ScalesTwice(PlainScales):
    linear_rows = table(LINEAR)
    experts_rows = table(
        {**EXPERTS, ("fp8_mxfp4", ""): changes(mxfp4_experts_in_fp8), ("modelopt_fp4", ""): changes(nvfp4_experts)}
    )
    marlin_tile = changes(1)
    zero_points = changes(True)


_SHAPES_AS = parse_release("0.32.0")  # the release of vLLM whose layers have the same shapes


def creation(sm: int) -> Creation:
    """On data-centre Blackwell TensorRT-LLM's kernels read NVFP4 scales as they are."""
    return PlainScales.at(_SHAPES_AS) if 100 <= sm < 110 else ScalesTwice.at(_SHAPES_AS)
