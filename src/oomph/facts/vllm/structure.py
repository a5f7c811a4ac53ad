"""Habits of vLLM's model classes that came or went with a release: which parts of a model they build.

A family names the habit on the part it concerns (`Part.only`, `Param.only`); a part without a name is always built.
"""

from functools import lru_cache

from oomph.facts.changes import Facts, Span, changes, names, rows
from oomph.facts.transformers import INCOMPATIBLE

# classes that cut nothing in sequence parallelism do so where there is one pipeline stage only
WHOLE_ON_ONE_STAGE = frozenset({"dense layers whole in sequence parallelism", "Kimi Linear as K3"})


class Habit(Span, frozen=True):
    name: str
    sm: tuple[tuple[int, int], ...] = ()  # compute capabilities, from and to (exclusive); none = all


HABITS: tuple[Habit, ...] = (
    # gemma4.py, gemma3n.py: before 0.30.0, layers that read another layer's cache have K, V and k_norm weights too
    Habit("kv of layers that share a cache", until="0.30.0"),
    # qwen3_dflash.py:417 (0.30.0 and 0.32.0; releases between 0.26.0 and 0.30.0 were not read)
    Habit("DFlash keeps a mask embedding", since="0.30.0"),
    # gemma3n.py: scalars that were plain tensors became buffers
    Habit("Gemma 3n scalars as buffers", since="0.29.0"),
    # deepseek_v4_attention.py Indexer: a norm that no checkpoint has
    Habit("DeepSeek-V4 indexer norm", until="0.22.0"),
    # FlashMLA wants 64 heads; FlashInfer on consumer Blackwell (0.28.0) takes what there is
    Habit("DeepSeek-V4 sinks for 64 heads", sm=((0, 120), (130, 1000))),
    Habit("DeepSeek-V4 sinks for 64 heads", sm=((120, 130),), until="0.28.0"),
    Habit("DeepSeek-V4 sinks for its heads", sm=((120, 130),), since="0.28.0"),
    # models/deepseek_v4/nvidia/model.py DeepseekV4MLP (0.24.0): a rank's share in whole FP8 blocks
    Habit("DeepSeek-V4 shared experts in whole blocks", since="0.24.0"),
    # models/kimi_k3/nvidia/kda.py: FlashKDA and the fused decode kernel run on Hopper and Blackwell
    Habit("KDA with compiled kernels", sm=((90, 91), (100, 130))),
    # attention/layer.py:60 (0.14.0) register_buffer: plain tensors before, which no list of buffers has
    Habit("attention scales as buffers", since="0.14.0"),
    # compressed_tensors_moe.py:36 (0.32.0) ckpt_gate_proj_name: targets are asked for w1, w2 and w3 where those are the
    # checkpoint's names; before, for gate_proj, up_proj and down_proj in every case
    Habit("experts by gate, up and down", until="0.32.0"),
    # step3p5.py:366: no release does so, all build them as the config says
    Habit("experts of Step 3.7 as stored", until="0.0.1"),
    # deepseek_v2.py DeepseekV2MLP and others, disable_tp=is_sequence_parallel: with experts over tensor and data
    # parallel ranks each rank has its own tokens. In 0.19.0 already, the oldest that was read.
    Habit("shared experts whole in sequence parallelism"),
    # models/deepseek_v32/nvidia/model.py:114 (0.29.0): the first, dense layers of these models too
    Habit("dense layers whole in sequence parallelism", since="0.29.0"),
    # qwen2_moe.py Qwen2MoeMLP, which Qwen3-Next and Qwen3.5 use
    Habit("Qwen's shared experts whole in sequence parallelism", since="0.20.0"),
    # short_conv.py (0.27.0) takes a quantisation config
    Habit("short convolutions quantised", since="0.27.0"),
    # roberta.py (0.25.0): positions and token types are split as vocabularies
    Habit("RoBERTa splits its embeddings", since="0.25.0"),
    Habit("RoBERTa splits its words", until="0.25.0"),
    # transformers/base.py (0.30.0): attention layers are modules of the model, and their scales its buffers
    Habit("attention in the tree of transformers' modules", since="0.30.0"),
    # modernbert.py: Wi was a plain nn.Linear
    Habit("ModernBERT has Wi whole", until="0.29.0"),
    Habit("ModernBERT splits Wi", since="0.29.0"),
    # deepseek_v2.py: a ReplicatedLinear's default, which no checkpoint has
    Habit("indexer weights with a bias", until="0.14.0"),
    # deepseek_v2.py indexer_rope_emb (0.12.0); before, the attention's table turned the indexer's heads
    Habit("an indexer's own rotary table", since="0.12.0"),
    # gemma4_mm.py tower_quant
    Habit("Gemma 4's encoders quantised", since="0.23.0"),
    # vision.py is_vit_use_data_parallel(num_heads), for the classes that ask it so
    Habit("encoders alone where heads do not divide", since="0.26.0"),
    Habit("audio encoders alone where heads do not divide", since="0.29.0"),
    # Transformers 5, which vLLM takes since 0.19.1: config/vllm.py with_hf_config
    Habit("outer configs tie the head", since="0.19.1"),
    # kimi_k25.py:355 (0.22.0): a tower that a quantisation config may touch is not cast to the model's dtype
    Habit("Kimi vision table as built", since="0.22.0"),
    Habit("Kimi vision table cast", until="0.22.0"),
    # models/kimi_k3/ (0.27.0) took Kimi Linear over: one more scale a latent layer, the router's bias in float32
    Habit("Kimi Linear as K3", since="0.27.0"),
    Habit("Kimi Linear of its own", until="0.27.0"),
    # models/deepseek_v32/ (0.29.0): DeepSeek-V3.2 outside torch.compile, so that FlashInfer turns its heads
    Habit("sparse latent attention with its own kernels", since="0.29.0"),
    # bailing_moe.py: `rotary_dim`, or whole heads whatever partial_rotary_factor says
    Habit("Bailing turns whole heads", until="0.24.0"),
    # gate_linear.py force_fp32_compute: the router's weights are float32 where the GPU has no kernel that adds in
    # float32 (Hopper and data-centre Blackwell have one)
    Habit("router in the model's dtype", sm=((90, 91), (100, 110)), since="0.17.0"),
    Habit("router in float32", sm=((0, 90), (91, 100), (110, 1000)), since="0.17.0"),
    Habit("router in float32", until="0.17.0"),
    # deepseek_v2.py Indexer: wk (quantised) and weights_proj became one unquantised layer
    Habit("indexer keys apart", until="0.20.0"),
    Habit("indexer keys fused", since="0.20.0"),
    # mamba_mixer2.py: register_buffer("conv_weights")
    Habit("convolutions as a buffer", since="0.12.0"),
    # qwen3_vl.py:1818 (0.32.0) mrope_positions_factor: Qwen3-VL and Qwen3.5 positions never pass the token count
    Habit("mrope tables four times the longest sequence", until="0.32.0"),
    # dynamic_ntk_scaling_rope.py:56 (0.21.0): max_position_embeddings x factor rows
    Habit("dynamic tables stretched by their factor", until="0.22.0"),
    # qwen3_next.py, gdn_linear_attn.py: the decay rates' dtype went from float32 to the model's and back
    Habit("GDN decay in float32", until="0.11.1"),
    Habit("GDN decay in the model's dtype", since="0.11.1", until="0.19.0"),
    Habit("GDN decay in float32", since="0.19.0"),
    # qwen_gdn_linear_attn.py maybe_disable_tp (0.22.0): Marlin wants 64 rows a rank, so each has all of in_proj_ba
    Habit("in_proj_ba split under Marlin", until="0.22.0"),
    Habit("in_proj_ba whole under Marlin", since="0.22.0"),
    # transformers' PixtralRotaryEmbedding: a row for every patch of the grid, kept twice by transformers 5 (0.21.0),
    # and later one set of frequencies (0.30.0 asks for 5.10)
    Habit("Pixtral frequencies of every patch", until="0.30.0"),
    Habit("Pixtral frequencies of every patch, a copy", since="0.21.0", until="0.30.0"),
    Habit("Pixtral frequencies by axis", since="0.30.0"),
)

# registry.py _TRANSFORMERS_SUPPORTED_MODELS: the release from which transformers' own code serves an architecture. It
# keeps a few rotary frequencies where vLLM's classes keep a table of all positions. "" = always did.
TRANSFORMERS_SINCE: dict[str, str] = {
    "ArceeForCausalLM": "0.32.0",
    "CwmForCausalLM": "0.32.0",
    "FlexOlmoForCausalLM": "0.29.0",
    "GPTBigCodeForCausalLM": "0.25.0",
    "GPTNeoXForCausalLM": "0.32.0",
    "GlmForCausalLM": "0.32.0",
    "HunYuanDenseV1ForCausalLM": "0.29.0",
    "HunYuanMoEV1ForCausalLM": "0.29.0",
    "Jais2ForCausalLM": "0.32.0",
    "MellumForCausalLM": "0.32.0",
    "NanbeigeForCausalLM": "",
    "Olmo2ForCausalLM": "0.26.0",
    "OlmoForCausalLM": "0.26.0",
    "Olmo3ForCausalLM": "0.29.0",
    "PhiForCausalLM": "0.32.0",
    "SeedOssForCausalLM": "0.32.0",
    "SmolLM3ForCausalLM": "",
    "Starcoder2ForCausalLM": "0.25.0",
    "VaultGemmaForCausalLM": "",
}
NOT_IN_TRANSFORMERS_REFUSAL = (
    "Cannot find model module. '{architecture}' is not a registered model in the Transformers library (only relevant "
    "if the model is meant to be in Transformers) and 'AutoModel' is not present in the model config's 'auto_map' "
    "(relevant if the model is custom)."
)
INCOMPATIBLE_REFUSAL = "The Transformers implementation of '{architecture}' is not compatible with vLLM."
# transformers/base.py create_attention_instances (0.30.0), of the first layer that keeps a state
NOT_DISPATCHED = (
    "Layer {layer} (linear_attention) does not dispatch through the Transformers attention interface and vLLM has no "
    "other way to handle it."
)
# decoders of Transformers whose forward takes no positions
WITHOUT_POSITIONS = {
    "FalconMambaForCausalLM": "falcon_mamba.modeling_falcon_mamba.FalconMambaModel",
    "Mamba2ForCausalLM": "mamba2.modeling_mamba2.Mamba2Model",
    "MambaForCausalLM": "mamba.modeling_mamba.MambaModel",
}
_BACKENDS = (
    *(Habit(f"{name} by vLLM", until=v) for name, v in TRANSFORMERS_SINCE.items() if v),
    *(Habit(f"{name} by transformers", since=v) for name, v in TRANSFORMERS_SINCE.items()),
)


class Structure(Facts):
    habits_of_all_gpus = rows(*HABITS, *_BACKENDS)
    incompatible = changes(INCOMPATIBLE, ("0.30.0", names("BloomForCausalLM FalconForCausalLM GPTJForCausalLM")))

    @lru_cache(maxsize=256)  # noqa: B019 there is one object per release
    def habits(self, sm: int) -> frozenset[str]:
        """The names of what the release does on a GPU of this compute capability."""
        all_habits = (h for h in self.habits_of_all_gpus if not h.sm or any(low <= sm < high for low, high in h.sm))
        return frozenset(habit.name for habit in all_habits)
