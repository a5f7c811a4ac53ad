"""What people write for llama.cpp that no table has: unknown flags, Unsloth's dynamic files, projectors elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import toys

from calling import call
from oomph.answers.plan import plan
from oomph.errors import CommandError, OomphError
from oomph.facts.llamacpp.architectures import ARCHITECTURES, NOT_PLANNED


def test_an_unknown_flag_is_refused_in_its_parsers_words() -> None:
    with pytest.raises(CommandError, match="no flag '--ctxsize'") as error:
        plan("llama-server -m Qwen3-8B-Q4_K_M.gguf --ctxsize 4096 --temp 0.3 -t 8", gpu="RTX 4090")
    assert "error: invalid argument: --ctxsize; did you mean --ctx-size?" in error.value.hint
    newer = plan("llama-server -m Qwen3-8B-Q4_K_M.gguf --new-flag 1", gpu="RTX 4090", engine="llamacpp==b99999")
    assert any("--new-flag" in note for note in newer.deployment.notes)


@pytest.mark.parametrize("flag", ["--lora a.gguf", "--spec-draft-threads 4", "--temp 1", "--no-host"])
def test_flags_of_its_own_parser_are_known(flag: str) -> None:
    notes = plan(f"llama-server -m Qwen3-8B-Q4_K_M.gguf {flag}", gpu="RTX 4090", advise=False).deployment.notes
    moves_memory = flag in ("--lora a.gguf", "--no-host")
    assert any("is not in this plan" in note for note in notes) == moves_memory


def test_metadata_that_a_command_overrides() -> None:
    """The experts of a token and the trained context count; a tokenizer's decide nothing, the rest is said."""
    command = "llama-server -m Qwen3-30B-A3B-Q4_K_M.gguf -np 1 --cpu-moe -ub 4096 -b 4096 --no-op-offload"
    usual = plan(command, gpu="RTX 4090", advise=False)
    overrides = "--override-kv qwen3moe.expert_used_count=int:2,tokenizer.ggml.pre=str:x"
    changed = plan(
        f"{command} {overrides} --override-kv qwen3moe.context_length=int:8192", gpu="RTX 4090", advise=False
    )
    assert changed.resolved["host"]["compute"] < usual.resolved["host"]["compute"]
    assert changed.resolved["n_ctx"] == 8192 and changed.warnings == usual.warnings
    other = plan(f"{command} --override-kv qwen3moe.block_count=int:2", gpu="RTX 4090", advise=False)
    assert "--override-kv qwen3moe.block_count is not in this plan: the file's own value is used" in other.warnings
    with pytest.raises(CommandError, match="KEY=TYPE:VALUE"):
        plan(f"{command} --override-kv nonsense", gpu="RTX 4090")


def test_quantised_values_where_a_gpu_has_no_flash_attention_for_them() -> None:
    """b10216 turns it on and runs it on the CPU; b10204 asks the GPU first and stops."""
    command = "llama-server -m Qwen3-8B-Q4_K_M.gguf -c 8192 -ctk bf16 -ctv q8_0 -dev Vulkan0"
    newer = plan(command, gpu="RTX 4090", engine="llamacpp==b10216", advise=False)
    older = plan(command, gpu="RTX 4090", engine="llamacpp==b10204", advise=False)
    assert newer.fits and newer.resolved["flash_attn"]
    assert not older.fits and "this requires Flash Attention" in older.verdict.message


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


@pytest.mark.parametrize("flag", ["--no-mmap", "--mlock", "--direct-io"])
def test_flags_that_a_named_build_lost_are_refused_in_its_words(flag: str) -> None:
    command = f"llama-server -m Qwen3-8B-Q4_K_M.gguf -c 4096 {flag}"
    with pytest.raises(CommandError, match="--load-mode"):
        plan(command, gpu="RTX 3090", engine="llama.cpp==v0.5.0")
    assert plan(command, gpu="RTX 3090", engine="llama.cpp==b10883").fits
    assert plan(command, gpu="RTX 3090").fits  # nobody said which build


# src/llama-arch.cpp of v0.5.0, but for projectors
LOADED = """
    afmoe apertus arcee arctic arwkv7 baichuan bailingmoe bailingmoe2 bailingmoe3 bert bitnet bloom chameleon
    chatglm codeshell cogvlm cohere2 cohere2moe command-r dbrx deci deepseek deepseek2 deepseek2-ocr deepseek32
    deepseek4 dflash dots1 dots3note dream eagle3 ernie4_5 ernie4_5-moe eurobert exaone exaone-moe exaone4 falcon
    falcon-h1 gemma gemma-embedding gemma2 gemma3 gemma3n gemma4 gemma4-assistant glm-dsa glm4 glm4moe gpt-oss
    gpt2 gptj gptneox granite granite_swa granitehybrid granitemoe graniteswitch grok grovemoe hrm_text
    hunyuan-dense hunyuan-moe hunyuan_vl hy_v3 hy_v4 internlm2 jais jais2 jamba jina-bert-v2 jina-bert-v3 kimi-k3
    kimi-linear laguna lfm2 lfm2moe llada llada-moe llama llama-embed llama4 maincoder mamba mamba2 maple mellum
    mimo2 minicpm minicpm3 minimax-01 minimax-m2 minimax-m3 mistral3 mistral4 modern-bert mpt muse-glimmer
    nanbeige nemotron nemotron_h nemotron_h_moe neo-bert nomic-bert nomic-bert-moe olmo olmo2 olmoe openelm orion
    paddleocr pangu-embedded phi2 phi3 phimoe plamo plamo2 plamo3 plm pockettts qwen qwen2 qwen2moe qwen2vl qwen3
    qwen35 qwen35moe qwen3moe qwen3next qwen3tts qwen3vl qwen3vlmoe qwen4exp refact rnd1 rwkv6 rwkv6qwen2 rwkv7
    seed_oss smallthinker smollm3 spark2_5 stablelm starcoder starcoder2 step35 t5 t5encoder talkie
    wavtokenizer-dec xverse
""".split()  # noqa: SIM905


def test_every_architecture_of_llamacpp_is_planned_or_refused_by_name(tmp_path: Path) -> None:
    assert len(LOADED) == 151 and set(LOADED) == ARCHITECTURES.keys() | NOT_PLANNED.keys()
    assert not ARCHITECTURES.keys() & NOT_PLANNED.keys()
    for name, reason in NOT_PLANNED.items():
        path = tmp_path / f"{name}.gguf"
        meta = {f"{name}.block_count": 2, f"{name}.embedding_length": 256, "general.architecture": name}
        toys.write(path, meta, [("token_embd.weight", (256, 512), "Q8_0")])
        with pytest.raises(OomphError, match=f"architecture {name} are not planned: {reason[:20]}"):
            plan(f"llama-server -m {path} -c 4096", gpu="RTX 3090")


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("qwen3-8b", "-hf unsloth/Qwen3-8B-GGUF"),
        ("qwen3-8b:Q8_0", "-hf unsloth/Qwen3-8B-GGUF:Q8_0"),
        ("a/b/c:Q4_K_M", ""),
    ],
)
def test_a_repository_has_an_owner(name: str, fix: str) -> None:
    refused = plan(["llama-server", "-hf", name, "-c", "4096"], gpu="RTX 4090")
    assert (refused.verdict.outcome, refused.verdict.refusal) == ("fails", "model")
    assert "invalid HF repo format" in refused.verdict.message
    assert refused.advice is not None
    assert [one.change.label for one in refused.advice.fixes] == ([fix] if fix else [])
    assert all(plan(one.command, gpu="RTX 4090").fits for one in refused.advice.fixes)


def test_a_repository_without_gguf_files_is_said() -> None:
    note = "llama.cpp wants a GGUF file of that repository, and none is known there; unsloth/Qwen3-8B-GGUF has some"
    assert any(note in one for one in plan("llama-server -hf Qwen/Qwen3-8B -c 4096", gpu="RTX 4090").warnings)
    with_files = plan("llama-server -hf unsloth/Qwen3-8B-GGUF -c 4096", gpu="RTX 4090")
    assert not any("none is known" in one for one in with_files.warnings)


def test_a_name_that_ollama_writes_with_a_colon_is_said() -> None:
    colon = "Ollama's library calls it qwen3:8b"
    assert any(colon in one for one in plan("ollama run qwen3-8b", gpu="RTX 4090").warnings)
    assert not any("library calls it" in one for one in plan("ollama run qwen2.5-coder", gpu="RTX 4090").warnings)


def test_a_name_that_is_no_repository_has_its_files_on_the_screen() -> None:
    screen = call("plan", "--gpu", "RTX 4090", "--", "llama-server", "-hf", "qwen3-8b").stdout
    assert "invalid HF repo format" in screen and "-hf unsloth/Qwen3-8B-GGUF" in screen


def test_ollama_takes_a_repository_of_the_hub_by_its_address() -> None:
    with pytest.raises(OomphError) as raised:
        plan("ollama run Qwen/Qwen3-8B", gpu="RTX 4090")
    assert raised.value.hint == "ollama run hf.co/unsloth/Qwen3-8B-GGUF"
    with pytest.raises(OomphError) as raised:
        plan("ollama run carol/her-own", gpu="RTX 4090")
    assert raised.value.hint == "ollama pull carol/her-own"


@pytest.mark.parametrize("name", ["qwen3-8b", "Qwen/Qwen3-8B", "Qwen/Qwen3-8B:Q4_K_M"])
def test_a_models_name_is_no_file(name: str) -> None:
    """-m opens a file; what has files of the model is planned as the way out."""
    answer = plan(["llama-server", "-m", name, "-c", "8192"], gpu="H100")
    assert answer.verdict.refusal == "model" and "failed to load model from " + name in answer.verdict.message
    assert answer.advice is not None
    assert "-hf unsloth/Qwen3-8B-GGUF" in answer.advice.fixes[0].command


@pytest.mark.parametrize("name", ["models/Qwen3-8B-Q4_K_M.gguf", "Qwen3-8B-Q8_0.gguf"])
def test_a_file_of_another_machine_is_planned(name: str) -> None:
    assert plan(["llama-server", "-m", name, "-c", "8192"], gpu="H100", advise=False).verdict.fits
