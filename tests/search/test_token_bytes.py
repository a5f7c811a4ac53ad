"""What one token takes at least: every layer that keeps every token, in 16 bits."""

from __future__ import annotations

import pytest

from oomph.search.score import token_bytes
from oomph.sources.load import load_once


@pytest.mark.parametrize(
    ("model", "per_token"),
    [
        ("Qwen/Qwen3-8B", 36 * 2 * 8 * (128 + 128)),
        ("deepseek-ai/DeepSeek-V3", 61 * 2 * (512 + 64)),
        ("openai/gpt-oss-20b", 12 * 2 * 8 * (64 + 64)),  # every other layer slides
    ],
)
def test_a_token(model: str, per_token: int) -> None:
    assert token_bytes(load_once(model)) == per_token
