"""What is emitted for SGLang reads back to the same flags."""

from __future__ import annotations

import pytest

from oomph.answers.plan import plan
from oomph.emit import emit


@pytest.mark.parametrize("form", ["command", "docker", "compose", "kubernetes"])
def test_reads_back(form: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    words = "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 2 --mem-fraction-static 0.85"
    before = plan(words, gpu="2x H100")
    text = emit(before, form)
    if form in ("compose", "kubernetes"):
        file = tmp_path / f"{form}.yaml"
        file.write_text(text)
        text = str(file)
    after = plan(text, gpu="2x H100")
    flags = {name: value for name, value in after.deployment.flags.items() if name not in ("host", "port")}
    assert after.deployment.engine.name == "sglang" and flags == before.deployment.flags
    assert after.kv is not None and before.kv is not None and after.kv.logged_tokens == before.kv.logged_tokens


def test_a_container_is_reached_from_outside() -> None:
    text = emit(plan("sglang serve --model-path Qwen/Qwen3-8B", gpu="H100"), "docker")
    assert "--host 0.0.0.0" in text and "lmsysorg/sglang:v" in text and "30000" in text
