"""What people write for llama.cpp that no table has: unknown flags, Unsloth's dynamic files, projectors elsewhere."""

from __future__ import annotations

import pytest

from oomph.answers.plan import plan
from oomph.errors import OomphError


def test_an_unknown_flag_is_named_and_the_likely_one_too() -> None:
    notes = plan("llama-server -m Qwen3-8B-Q4_K_M.gguf --ctxsize 4096 --temp 0.3 -t 8", gpu="RTX 4090").deployment.notes
    assert any("--ctxsize" in note and "--ctx-size" in note for note in notes)
    assert not any("--temp" in note or "-t " in note for note in notes)


@pytest.mark.parametrize("model", ["-m Qwen3-32B-UD-Q4_K_XL.gguf", "-hf unsloth/Qwen3-32B-GGUF:UD-Q4_K_XL"])
def test_a_dynamic_file_lies_between_two_mixtures(model: str) -> None:
    usual = plan("llama-server -m Qwen3-32B-Q4_K_M.gguf -c 4096", gpu="A100 80GB", advise=False)
    most = plan("llama-server -m Qwen3-32B-Q5_K_M.gguf -c 4096", gpu="A100 80GB", advise=False)
    dynamic = plan(f"llama-server {model} -c 4096", gpu="A100 80GB", advise=False)
    usual_end, most_end, end = (p.ranks[0].stages[-1] for p in (usual, most, dynamic))
    assert end.peak_bytes == usual_end.peak_bytes
    assert end.peak_high >= most_end.peak_bytes
    assert any("Unsloth" in note for note in dynamic.warnings)


def test_a_projector_that_is_elsewhere_is_the_models_tower() -> None:
    with_images = plan("llama-server -m gemma-3-4b-it-Q4_K_M.gguf --mmproj mm-f16.gguf -c 4096", gpu="RTX 4090")
    text = plan("llama-server -m gemma-3-4b-it-Q4_K_M.gguf -c 4096", gpu="RTX 4090")
    assert with_images.ranks[0].terms["weights"].bytes - text.ranks[0].terms["weights"].bytes > 500 << 20
    assert any("mm-f16.gguf" in note for note in with_images.warnings)
    with pytest.raises(OomphError):
        plan("llama-server -m Qwen3-8B-Q4_K_M.gguf --mmproj mm-f16.gguf", gpu="RTX 4090")
