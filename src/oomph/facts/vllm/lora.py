"""Which models give their vocabulary LoRA slots, by release (`embedding_modules` of the model classes)."""

from oomph.facts.changes import Facts, changes, members

DEFAULT_RANK, DEFAULT_LORAS = 16, 1  # config/lora.py
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # the same file, possible_max_ranks

_ALWAYS = """ApertusForCausalLM Cohere2ForCausalLM CohereForCausalLM CwmForCausalLM DeciLMForCausalLM
Ernie4_5ForCausalLM Exaone4ForCausalLM ExaoneForCausalLM FalconH1ForCausalLM GlmForCausalLM GraniteForCausalLM
GraniteMoeForCausalLM GraniteMoeHybridForCausalLM GraniteMoeSharedForCausalLM InternLM3ForCausalLM JambaForCausalLM
LLaMAForCausalLM Lfm2ForCausalLM Lfm2MoeForCausalLM Llama4ForCausalLM LlamaForCausalLM LlamaModel MiniCPM3ForCausalLM
MiniCPMForCausalLM MixtralForCausalLM NemotronForCausalLM NemotronHForCausalLM Phi3ForCausalLM PhiMoEForCausalLM
SolarForCausalLM TeleChat2ForCausalLM TeleFLMForCausalLM"""

# Classes whose tied head is the embedding itself (`self.lm_head = self.model.embed_tokens`): LoRAModelManager visits it
# under both names and gives it slots twice (lora/model_manager.py:432, 0.26.0; 18.9 MiB more in a measured start-up).
HEAD_IS_EMBEDDING = frozenset({
    "Olmo3ForCausalLM", "Param2MoEForCausalLM", "Qwen3ForCausalLM", "Qwen3_5ForCausalLM", "SeedOssForCausalLM",
})  # fmt: skip


class LoraFacts(Facts):
    vocabulary = members(
        _ALWAYS,
        since={
            "0.13.0": "Jais2ForCausalLM",
            "0.14.0": "ExaoneMoEForCausalLM ExaoneMoeForCausalLM",
            "0.16.0": "Qwen3ForCausalLM Qwen3MoeForCausalLM",
            "0.18.0": "HyperCLOVAXForCausalLM",
            "0.20.0": "Param2MoEForCausalLM",
            "0.29.0": "GraniteMoeSWAForCausalLM GraniteSWAForCausalLM Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM",
            "0.30.0": "K2HorizonForCausalLM",
            "0.31.0": "FlexOlmoForCausalLM GPTBigCodeForCausalLM HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM "
            "Olmo2ForCausalLM Olmo3ForCausalLM OlmoForCausalLM SmolLM3ForCausalLM Starcoder2ForCausalLM "
            "VaultGemmaForCausalLM",
            "0.32.0": "ArceeForCausalLM GPTNeoXForCausalLM PhiForCausalLM SeedOssForCausalLM",
        },
        until={
            "0.15.0": "MistralForCausalLM",
            "0.24.0": "BambaForCausalLM InternLMForCausalLM XverseForCausalLM",
            "0.25.0": "AquilaForCausalLM AquilaModel",
        },
    )
    extra_vocabulary = changes(256, ("0.12.0", 0))  # lora_extra_vocab_size
