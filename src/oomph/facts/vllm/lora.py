"""Which models give their vocabulary LoRA slots, by release (`embedding_modules` of the model classes)."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from oomph.facts.vllm.versions import Range, select

DEFAULT_RANK, DEFAULT_LORAS = 16, 1  # config/lora.py
EXTRA_VOCABULARY = 256  # lora_extra_vocab_size, gone in 0.12.0


class VocabularySlots(Range, frozen=True):
    architectures: frozenset[str]


class LoraRules(Struct, frozen=True):
    vocabulary: frozenset[str]
    extra_vocabulary: int


_ALWAYS = """ApertusForCausalLM Cohere2ForCausalLM CohereForCausalLM CwmForCausalLM DeciLMForCausalLM
Ernie4_5ForCausalLM Exaone4ForCausalLM ExaoneForCausalLM FalconH1ForCausalLM GlmForCausalLM GraniteForCausalLM
GraniteMoeForCausalLM GraniteMoeHybridForCausalLM GraniteMoeSharedForCausalLM InternLM3ForCausalLM JambaForCausalLM
LLaMAForCausalLM Lfm2ForCausalLM Lfm2MoeForCausalLM Llama4ForCausalLM LlamaForCausalLM LlamaModel MiniCPM3ForCausalLM
MiniCPMForCausalLM MixtralForCausalLM NemotronForCausalLM NemotronHForCausalLM Phi3ForCausalLM PhiMoEForCausalLM
SolarForCausalLM TeleChat2ForCausalLM TeleFLMForCausalLM"""
VOCABULARY: tuple[VocabularySlots, ...] = (
    VocabularySlots(frozenset(_ALWAYS.split())),
    VocabularySlots(frozenset({"MistralForCausalLM"}), until="0.15.0"),
    VocabularySlots(frozenset({"Jais2ForCausalLM"}), since="0.13.0"),
    VocabularySlots(frozenset({"ExaoneMoEForCausalLM", "ExaoneMoeForCausalLM"}), since="0.14.0"),
    VocabularySlots(frozenset({"Qwen3ForCausalLM", "Qwen3MoeForCausalLM"}), since="0.16.0"),
    VocabularySlots(frozenset({"HyperCLOVAXForCausalLM"}), since="0.18.0"),
    VocabularySlots(frozenset({"Param2MoEForCausalLM"}), since="0.20.0"),
    VocabularySlots(frozenset({"K2HorizonForCausalLM"}), since="0.30.0"),
    VocabularySlots(frozenset({"BambaForCausalLM", "InternLMForCausalLM", "XverseForCausalLM"}), until="0.24.0"),
    VocabularySlots(frozenset({"AquilaForCausalLM", "AquilaModel"}), until="0.25.0"),
    VocabularySlots(
        frozenset({"GraniteMoeSWAForCausalLM", "GraniteSWAForCausalLM", "Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"}),
        since="0.29.0",
    ),
    VocabularySlots(
        frozenset(
            [
                "FlexOlmoForCausalLM",
                "GPTBigCodeForCausalLM",
                "HunYuanDenseV1ForCausalLM",
                "HunYuanMoEV1ForCausalLM",
                "Olmo2ForCausalLM",
                "Olmo3ForCausalLM",
                "OlmoForCausalLM",
                "SmolLM3ForCausalLM",
                "Starcoder2ForCausalLM",
                "VaultGemmaForCausalLM",
            ]
        ),
        since="0.31.0",
    ),
    VocabularySlots(
        frozenset({"ArceeForCausalLM", "GPTNeoXForCausalLM", "PhiForCausalLM", "SeedOssForCausalLM"}), since="0.32.0"
    ),
)


class _Extra(Range, frozen=True):
    rows: int


_EXTRA = (_Extra(EXTRA_VOCABULARY, until="0.12.0"),)


@cache
def lora_rules(version: str) -> LoraRules:
    architectures = frozenset().union(*(row.architectures for row in select(VOCABULARY, version)))
    return LoraRules(architectures, sum(row.rows for row in select(_EXTRA, version)))
