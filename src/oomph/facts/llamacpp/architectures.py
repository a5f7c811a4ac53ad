"""Which layers of a GGUF architecture keep what: the facts that llama.cpp has in code and the file does not say.

src/models/<architecture>.cpp, load_arch_hparams (b11739). What the file does say (head counts, widths, windows) is read
in sources/gguf_model.py. An architecture without a row has its weights told and its cache refused.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class GgufArch(Struct, frozen=True):
    # Sliding windows. `period` p: a layer is windowed if il % p < p - 1, or il % p != 0 where the first is the dense
    # one; the file's attention.sliding_window_pattern beats it. 0: only a pattern in the file makes windows.
    period: int = 0
    dense_first: bool = False
    window: int = 0  # where the file has none
    chunked: bool = False  # Llama 4: the window is a chunk
    # Recurrent layers: which kind, and which layers.
    state: Literal["", "mamba1", "mamba2", "gdn", "kda", "short_conv"] = ""
    recurrent: Literal["none", "all", "no_kv_heads", "no_kv_heads_no_ff", "interval", "both"] = "none"
    shared_kv_from: int = 0  # Gemma 3n: layers from here on read the caches before them


# Attention in every layer; Phi-3's window is not used ("Phi SWA is currently disabled").
_PLAIN = (
    "arcee", "arctic", "baichuan", "bailingmoe", "bailingmoe2", "bitnet", "chatglm", "codeshell", "command-r",
    "dbrx", "deci", "deepseek", "deepseek2", "dots1", "ernie4_5", "ernie4_5-moe", "exaone", "falcon", "gemma",
    "glm4", "glm4moe", "gpt2", "gptneox", "granite", "granitemoe", "grok", "grovemoe", "hunyuan-dense",
    "hunyuan-moe", "internlm2", "jais", "llama", "maincoder", "mimo2", "minicpm", "minicpm3", "minimax-m2",
    "mistral3", "mistral4", "mpt", "nemotron", "olmo", "olmoe", "openelm", "orion", "pangu-embedded", "phi2",
    "phi3", "phimoe", "plamo", "plm", "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3vl",
    "qwen3vlmoe", "refact", "seed_oss", "smollm3", "stablelm", "starcoder", "starcoder2", "step35", "xverse",
    "apertus", "gemma4",
)  # fmt: skip

ARCHITECTURES: dict[str, GgufArch] = {
    **dict.fromkeys(_PLAIN, GgufArch()),
    "afmoe": GgufArch(period=4),
    "cohere2": GgufArch(period=4),
    "exaone-moe": GgufArch(period=4, window=128),
    "exaone4": GgufArch(period=4),
    "falcon-h1": GgufArch(state="mamba2", recurrent="both"),
    "gemma2": GgufArch(period=2, window=4096),
    "gemma3": GgufArch(period=6),
    "gemma3n": GgufArch(period=5, shared_kv_from=20),
    "gpt-oss": GgufArch(period=2),
    "granitehybrid": GgufArch(state="mamba2", recurrent="no_kv_heads"),
    "jamba": GgufArch(state="mamba1", recurrent="no_kv_heads"),
    "kimi-linear": GgufArch(state="kda", recurrent="no_kv_heads"),
    "lfm2": GgufArch(state="short_conv", recurrent="no_kv_heads"),
    "lfm2moe": GgufArch(state="short_conv", recurrent="no_kv_heads"),
    "llama4": GgufArch(period=4, window=8192, chunked=True),
    "mamba": GgufArch(state="mamba1", recurrent="all"),
    "mamba2": GgufArch(state="mamba2", recurrent="all"),
    "nemotron_h": GgufArch(state="mamba2", recurrent="no_kv_heads_no_ff"),
    "nemotron_h_moe": GgufArch(state="mamba2", recurrent="no_kv_heads_no_ff"),
    "olmo2": GgufArch(period=4),
    "plamo3": GgufArch(period=8),
    "qwen35": GgufArch(state="gdn", recurrent="interval"),
    "qwen35moe": GgufArch(state="gdn", recurrent="interval"),
    "qwen3next": GgufArch(state="gdn", recurrent="interval"),
    "smallthinker": GgufArch(period=4, dense_first=True),
}
