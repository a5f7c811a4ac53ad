"""What the flags of llama-server that a plan does not read do to memory (facts/flag_effects.py says how it is said)."""

from oomph.facts.flag_effects import Effects

EFFECTS = Effects(
    {"they decide who is served when (simulate)": "cont_batching cache_idle_slots slot_prompt_similarity"},
    {
        "cache_ram": "prompts that left their slot are kept in host memory",
        "ctx_checkpoints": "checkpoints of a context are kept in host memory",
        "context_shift": "tokens are dropped inside the cache that is there",
        "load_mode": "it decides how the file passes through host memory",
    },
    {
        "mmproj_url": "the projector behind that address is not read",
    },
)
