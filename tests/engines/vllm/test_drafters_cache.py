"""A drafter of its own has layers in the cache of the model that it drafts for."""

from __future__ import annotations

import json

from oomph import plan


def test_another_models_layers_are_cached_too() -> None:
    words = ["vllm", "serve", "Qwen/Qwen3-8B"]
    config = {"model": "Qwen/Qwen3-0.6B", "method": "draft_model", "num_speculative_tokens": 3}
    alone = plan(words, gpu="H100", engine="vllm==0.32.0").kv
    drafted = plan([*words, "--speculative-config", json.dumps(config)], gpu="H100", engine="vllm==0.32.0").kv
    assert alone is not None and drafted is not None
    layers = [sum(group.layers for group in kv.groups) for kv in (alone, drafted)]
    assert layers == [36, 36 + 28]
