"""What people call the parts of a model: one table for every report."""

from oomph.ir.model import Role

ROLE_WORDS: dict[Role, str] = {
    "attention": "attention",
    "linear_attn": "recurrent layers",
    "mlp": "MLP",
    "experts": "experts",
    "shared_experts": "shared experts",
    "router": "routers",
    "embed": "embedding",
    "lm_head": "output head",
    "norm": "norms",
    "multimodal": "vision and audio",
    "other": "other",
}


def role_words(part: str) -> str:
    """Also of what stands beside the roles in a plan: buffers, what is kept in host memory."""
    return next((words for role, words in ROLE_WORDS.items() if role == part), part.replace("_", " "))
