"""What people write for llama.cpp that no table has: unknown flags, Unsloth's dynamic files, projectors elsewhere."""

from __future__ import annotations

import pytest

from oomph.answers.plan import plan
from oomph.errors import CommandError, OomphError


def test_an_unknown_flag_is_refused_in_its_parsers_words() -> None:
    with pytest.raises(CommandError, match="no flag '--ctxsize'") as error:
        plan("llama-server -m Qwen3-8B-Q4_K_M.gguf --ctxsize 4096 --temp 0.3 -t 8", gpu="RTX 4090")
    assert "error: invalid argument: --ctxsize; did you mean --ctx-size?" in error.value.hint
    newer = plan("llama-server -m Qwen3-8B-Q4_K_M.gguf --new-flag 1", gpu="RTX 4090", engine="llamacpp==b99999")
    assert any("--new-flag" in note for note in newer.deployment.notes)


@pytest.mark.parametrize("flag", ["--lora a.gguf", "--spec-draft-threads 4", "-otd x=CPU", "--temp 1"])
def test_flags_of_its_own_parser_are_known(flag: str) -> None:
    notes = plan(f"llama-server -m Qwen3-8B-Q4_K_M.gguf {flag}", gpu="RTX 4090", advise=False).deployment.notes
    assert any("is not in this plan" in note for note in notes) == (flag in ("--lora a.gguf", "-otd x=CPU"))


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


def test_a_release_by_number_that_nobody_knows_is_said() -> None:
    foreseen = plan("llama-server -hf Qwen/Qwen3-0.6B-GGUF:Q8_0 -c 4096", gpu="RTX 4090", engine="llama.cpp==v0.9.9")
    assert "llama.cpp v0.9.9 is newer than what is known here: planned as b11739" in foreseen.warnings


def test_no_more_is_read_again_than_is_mapped() -> None:
    command = "llama-server -hf meta-llama/Llama-3.1-8B-Instruct:Q4_K_M -c 4096 -np 1 -dev none"
    host = plan(command, gpu="RTX 3060 12GB", ram="4GiB").host
    assert host is not None and 0 < host.absent_bytes <= host.mapped_bytes
