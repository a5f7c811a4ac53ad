"""What people call the parts of a model, in every report."""

ROLE_WORDS = {
    "mlp": "MLP",
    "embed": "embedding",
    "lm_head": "output head",
    "multimodal": "vision and audio",
    "linear_attn": "recurrent layers",
    "moe": "experts",
    "norm": "norms",
}


def role_words(role: str) -> str:
    return ROLE_WORDS.get(role, role.replace("_", " "))
