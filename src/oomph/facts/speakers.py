# ruff: noqa: E501 - a row is a line
"""Programs whose memory runs out and that oomph does not plan: other engines, trainers, build steps.

A row says by what a text is theirs: a folder of their frames or a program of their commands decides (`traces`), a name
in words counts where no engine of ours is named (`names`). `stages` are functions of their own whose names tell what
was going on.
"""

from typing import Final, Literal

from msgspec import Struct

from oomph.ir import StageName
from oomph.text.late import late_pattern

SpeakerKind = Literal["engine", "training", "build"]
KIND_WORDS: Final[dict[SpeakerKind, str]] = {
    "engine": "another engine", "training": "training, not serving", "build": "a build step, not serving",
}  # fmt: skip


STEP_OF: Final = {
    "trtllm-build": "trtllm", "convert_checkpoint": "trtllm", "a conversion to GGUF": "llamacpp",
}  # fmt: skip


class Speaker(Struct, frozen=True):
    title: str
    kind: SpeakerKind
    traces: str = ""
    names: str = ""
    stages: tuple[tuple[str, StageName], ...] = ()

    @property
    def engine(self) -> str:
        """The engine of ours whose step it is; "" where it belongs to none."""
        return STEP_OF.get(self.title, "")

    @property
    def trains(self) -> bool:
        return self.kind == "training"

    @property
    def serves(self) -> bool:
        return self.kind == "engine"


_LOADS: Final[tuple[tuple[str, StageName], ...]] = (
    (r"_?(?:create|load|init)_weights?\b|load_state_dict|from_pretrained|load_shard|load_checkpoint|materialize|load_autosplit|load_tp\b|_load_model\b|load_model\b|\bloading (?:module|weights|shards|the model)", "weights_load"),
)  # fmt: skip
_TRAINS: Final[tuple[tuple[str, StageName], ...]] = (
    (r"training_step|\bbackward\b|optimizer|loss_utils|compute_loss|_inner_training_loop", "other"),
)

# The more particular program first: axolotl and TRL train with transformers, a build step belongs to TensorRT-LLM.
SPEAKERS: Final[tuple[Speaker, ...]] = (
    Speaker("trtllm-build", "build", r"\btrtllm-build\b|tensorrt_llm/(?:builder|commands/build)|\bbuild_config\b.{0,40}trt", r"\btrtllm-build\b|\bTensorRT engine build"),
    Speaker("convert_checkpoint", "build", r"\bconvert_checkpoint\b|quantization/quantize\.py\b", r"\bconvert_checkpoint\b"),
    Speaker("a conversion to GGUF", "build", r"convert[_-]hf[_-]to[_-]gguf|\bllama-quantize\b", r"\bllama-quantize\b"),
    Speaker("axolotl", "training", r"/axolotl/|\baxolotl\.(?:cli|train)|\baxolotl train\b", r"\baxolotl\b", _TRAINS),
    Speaker("verl", "training", r"/verl/(?:trainer|workers)|\bverl\.trainer", r"\bverl\b", _TRAINS),
    Speaker("Unsloth", "training", r"/unsloth(?:_zoo)?/|unsloth_compiled", r"\bunsloth (?:training|trainer|fine|notebook|q?lora|sft|grpo|dpo|script|run)|FastLanguageModel", _TRAINS),
    Speaker("TRL", "training", r"/trl/(?:trainer|extras)|\btrl (?:sft|grpo|dpo)\b", r"\bTRL\b|\b(?:SFT|GRPO|DPO|PPO|KTO)(?:Trainer|Config)\b", _TRAINS),
    Speaker("LLaMA-Factory", "training", r"/llamafactory/|llamafactory-cli", r"\bllama-?factory\b", _TRAINS),
    Speaker("ms-swift", "training", r"/swift/(?:trainers|llm/train)|\bswift sft\b", r"", _TRAINS),
    Speaker("DeepSpeed", "training", r"/deepspeed/runtime|\bdeepspeed\.initialize", r"\bdeepspeed\b", _TRAINS),
    Speaker("transformers' Trainer", "training", r"/transformers/trainer\.py|\btraining_step\b.{0,60}\bTrainer\b", r"\b(?:hf |hugging ?face |transformers )?Trainer\.train|\bTrainingArguments\b|\bper_device_train_batch_size\b|\bfine-?tun(?:e|ing) (?:run|script|job)\b|\bgradient_accumulation_steps\b|\bbackward pass\b", _TRAINS),
    Speaker("a training run", "training", r"/peft/(?:peft_model|tuners)", r"\bloss\.backward\(|\boptimizer\.step\(|\bpeft\b|\b(?:hf|hugging ?face) trainer\b|\b(?:q?lora|sft|dpo|grpo|full) (?:fine-?tun\w{1,4}|training|run|finetun\w{1,4})\b|\bfine-?tun(?:e|ed|ing)\b.{0,80}\b(?:epoch|batch|step|loss|gradient)|\b(?:epoch|step) \d+.{0,60}\b(?:train|fine-?tun)", _TRAINS),
    Speaker("diffusers", "engine", r"/diffusers/|\bdiffusers\.\w|StableDiffusion\w{0,20}Pipeline|FluxPipeline", r"\bdiffusers\b|\bstable[ -]?diffusion\b|\bsdxl\b|\bflux\.?[12]\b|\b(?:automatic1111|a1111|invokeai|forge)\b|\bVAE\b", _LOADS),
    Speaker("Whisper", "engine", r"/(?:faster_whisper|whisperx?|ctranslate2)/", r"\b(?:faster-?|insanely-fast-)?whisper(?:x|\.cpp)?\b(?!-\w{1,20} (?:with|in|on|mit) (?:vllm|sglang))|\bctranslate2\b", _LOADS),
    Speaker("LMDeploy", "engine", r"/lmdeploy/|\blmdeploy (?:serve|chat|lite)\b|\[TM\]\[", r"\blmdeploy\b|\bturbomind\b", ((r"_?create_weight|load_weight|_from_hf", "weights_load"), (r"create_model_instance|block_?manager|cache-?_?max|allocator\.h|kv block|KV.{0,4}块", "kv_alloc"))),
    Speaker("text-generation-inference", "engine", r"text_generation_(?:server|launcher|router)|\btext-generation-launcher\b", r"\btext-generation-inference\b|\bTGI\b", ((r"\bwarming up model|\bwarmup\b|prefill tokens", "profile_run"), *_LOADS)),
    Speaker("ExLlama", "engine", r"/exllamav[23]/", r"\bexllama(?:v?[23])?\b|\btabbyapi\b|\bexl[23]\b", _LOADS),
    Speaker("ktransformers", "engine", r"/ktransformers/|\bktransformers --", r"\bktransformers\b", _LOADS),
    Speaker("MLC LLM", "engine", r"/mlc_llm/|\bmlc_llm (?:serve|chat)\b", r"\bmlc[- ]llm\b", _LOADS),
    Speaker("Aphrodite", "engine", r"/aphrodite/", r"\baphrodite\b", _LOADS),
    Speaker("DeepSpeed-MII", "engine", r"/mii/|deepspeed/inference", r"\bdeepspeed[- ]mii\b", _LOADS),
    Speaker("ComfyUI", "engine", r"/ComfyUI/|comfy/(?:model_management|ldm)", r"\bcomfy ?ui\b"),
    Speaker("transformers", "engine", r"/transformers/(?:modeling_utils|generation/|models/|core_model_loading|integrations/)|\bAutoModel\w{0,30}\.from_pretrained", r"(?:^|[ (`])transformers(?: v?\d|:| library| pipeline| script| code| generate)|\b(?:plain|pure|vanilla|bare|reine[ns]?|nur|only|just) (?:hf |hugging ?face )?transformers\b|\bmodel\.generate\b|\bAutoModelForCausalLM\b|\bBitsAndBytesConfig\b|\bcore_model_loading\b", ((r"core_model_loading|weight loading|load(?:s|ing)? (?:the )?(?:model|weights)", "weights_load"), *_LOADS)),
)  # fmt: skip
TRACES: Final = tuple(late_pattern(row.traces) if row.traces else None for row in SPEAKERS)
NAMES: Final = tuple(late_pattern(f"(?i){row.names}") if row.names else None for row in SPEAKERS)
