"""Which layers of a GGUF architecture keep what: the facts that llama.cpp has in code and the file does not say.

src/models/<architecture>.cpp, load_arch_hparams (b11739). What the file does say (head counts, widths, windows) is read
in sources/gguf/model.py. An architecture without a row has its weights told and its cache refused.
"""

from typing import Literal

from msgspec import Struct


class GgufArch(Struct, frozen=True):
    # Sliding windows. `period` p: a layer is windowed if il % p < p - 1, or il % p != 0 where the first is the dense
    # one; the file's attention.sliding_window_pattern beats it. 0: only a pattern in the file makes windows.
    period: int = 0
    dense_first: bool = False
    window: int = 0  # where the file has none
    fixed_window: int = 0  # whatever the file says, unless it says 0
    windowed_layers: int = 0  # only the model of so many layers has windows
    chunked: bool = False  # Llama 4: the window is a chunk
    # Recurrent layers: which kind, and which layers.
    state: Literal["", "mamba1", "mamba2", "gdn", "kda", "short_conv"] = ""
    recurrent: Literal["none", "all", "no_kv_heads", "no_kv_heads_no_ff", "interval", "both"] = "none"
    shared_kv_from: int = 0  # Gemma 3n: layers from here on read the caches before them
    cached: bool = True  # encoders and diffusion models keep nothing (llama_model::create_memory)
    # What the output head is where the file has none: a copy of the token embedding on the output's device ("tied"),
    # one even beside it in host memory, where it is asked for first ("again"), or nothing ("none").
    head: Literal["tied", "again", "none"] = "tied"
    flash: bool = True  # Grok: "flash_attn is not compatible with Grok - forcing off"


# Attention in every layer; Phi-3's window is not used ("Phi SWA is currently disabled").
_PLAIN = (
    "apertus", "arcee", "arctic", "baichuan", "bailingmoe", "bailingmoe2", "bloom", "chameleon", "chatglm",
    "codeshell", "cogvlm", "command-r", "dbrx", "deci", "deepseek", "deepseek2", "deepseek2-ocr", "dots1",
    "ernie4_5", "ernie4_5-moe", "exaone", "falcon", "gemma", "glm4", "glm4moe", "gpt2", "gptneox", "granite",
    "granitemoe", "grovemoe", "hunyuan-dense", "hunyuan-moe", "hunyuan_vl", "hy_v3", "internlm2", "jais", "jais2",
    "llama", "llama-embed", "maincoder", "mimo2", "minicpm", "minicpm3", "minimax-m2", "mistral3", "mistral4",
    "mpt", "nemotron", "olmo", "olmoe", "openelm", "orion", "paddleocr", "pangu-embedded", "phi2", "phi3", "phimoe",
    "plamo", "plm", "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe", "refact",
    "seed_oss", "smollm3", "stablelm", "starcoder", "starcoder2", "step35", "talkie", "xverse",
)  # fmt: skip
# No cache, and of the encoders no output head either.
_ENCODERS = (
    "bert", "eurobert", "jina-bert-v2", "jina-bert-v3", "neo-bert", "nomic-bert", "nomic-bert-moe",
)  # fmt: skip
_UNCACHED = ("dream", "llada", "llada-moe", "rnd1")

ARCHITECTURES: dict[str, GgufArch] = {
    **dict.fromkeys(_PLAIN, GgufArch()),
    **dict.fromkeys(_ENCODERS, GgufArch(cached=False, head="none")),
    **dict.fromkeys(_UNCACHED, GgufArch(cached=False)),
    "afmoe": GgufArch(period=4),
    "bitnet": GgufArch(head="none"),  # multiplies with the embedding where it is
    "cohere2": GgufArch(period=4),
    "cohere2moe": GgufArch(period=4, dense_first=True),
    "exaone-moe": GgufArch(period=4, window=128),
    "exaone4": GgufArch(period=4, windowed_layers=64),  # the 32B
    "falcon-h1": GgufArch(state="mamba2", recurrent="both"),
    "gemma-embedding": GgufArch(period=6, cached=False),
    "gemma2": GgufArch(period=2, window=4096),
    "gemma3": GgufArch(period=6),
    "gemma3n": GgufArch(period=5, shared_kv_from=20, head="again"),
    "gemma4": GgufArch(head="again"),
    "gpt-oss": GgufArch(period=2),
    "granitehybrid": GgufArch(state="mamba2", recurrent="no_kv_heads"),
    "grok": GgufArch(flash=False),
    "jamba": GgufArch(state="mamba1", recurrent="no_kv_heads"),
    "kimi-linear": GgufArch(state="kda", recurrent="no_kv_heads"),
    "laguna": GgufArch(period=4, dense_first=True),
    "lfm2": GgufArch(state="short_conv", recurrent="no_kv_heads"),
    "lfm2moe": GgufArch(state="short_conv", recurrent="no_kv_heads"),
    "llama4": GgufArch(period=4, window=8192, fixed_window=8192, chunked=True),
    "mamba": GgufArch(state="mamba1", recurrent="all"),
    "mamba2": GgufArch(state="mamba2", recurrent="all"),
    "mellum": GgufArch(period=4),
    "modern-bert": GgufArch(period=3, dense_first=True, cached=False, head="none"),
    "nemotron_h": GgufArch(state="mamba2", recurrent="no_kv_heads_no_ff"),
    "nemotron_h_moe": GgufArch(state="mamba2", recurrent="no_kv_heads_no_ff"),
    "olmo2": GgufArch(period=4),
    "plamo2": GgufArch(state="mamba1", recurrent="no_kv_heads"),
    "plamo3": GgufArch(period=8),
    "qwen35": GgufArch(state="gdn", recurrent="interval"),
    "qwen35moe": GgufArch(state="gdn", recurrent="interval"),
    "qwen3next": GgufArch(state="gdn", recurrent="interval"),
    "smallthinker": GgufArch(period=4, dense_first=True, fixed_window=4096),
}

_SPARSE = "sparse attention keeps an indexer's keys beside its cache"
_RWKV = "RWKV's state and token shift are not modelled"
_HYBRID = "its linear attention's state is not modelled"
_DRAFTER = "it drafts for another file: give it with -md"
_UNREAD = "its graph has not been read yet"
_SOUND = "it makes sound, not text"
# What llama.cpp loads besides (src/llama-arch.cpp of v0.5.0), and why its cache is refused.
NOT_PLANNED: dict[str, str] = {
    **dict.fromkeys(("deepseek32", "deepseek4", "dots3note", "glm-dsa", "hy_v4", "minimax-m3", "qwen4exp"), _SPARSE),
    **dict.fromkeys(("arwkv7", "rwkv6", "rwkv6qwen2", "rwkv7"), _RWKV),
    **dict.fromkeys(("bailingmoe3", "kimi-k3", "minimax-01"), _HYBRID),
    **dict.fromkeys(("dflash", "eagle3", "gemma4-assistant"), _DRAFTER),
    **dict.fromkeys(("pockettts", "qwen3tts", "wavtokenizer-dec"), _SOUND),
    **dict.fromkeys(
        ("granite_swa", "graniteswitch", "hrm_text", "maple", "muse-glimmer", "nanbeige", "spark2_5"), _UNREAD
    ),
    "t5": "an encoder's cross attention is not modelled",
    "t5encoder": _UNREAD,
    "gptj": "llama.cpp has its name and cannot load it",
}
