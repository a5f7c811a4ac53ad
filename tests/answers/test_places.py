"""The model that the engine would load is the one that is planned: names, folders, containers, and what a file says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from oomph import catalog, check, plan
from oomph.answers.report import bundle
from oomph.commands import parse_command
from oomph.facts.hub_names import WITHOUT_OWNER
from oomph.ir.deployment import Place
from oomph.report.check_formats import github, sarif
from oomph.sources.load import load_model
from oomph.sources.place import folders_of, looking, path_here

SMALL = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072,
    "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 151936, "max_position_embeddings": 40960, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip
HUB = "Qwen/Qwen3-32B"
COMPOSE = 'services:\n  llm:\n    image: vllm/vllm-openai:v0.32.0\n    command: ["--model", "{}"]\n'
POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {{name: llm}}\nspec:\n  containers:\n  - name: vllm\n"
    '    image: vllm/vllm-openai:v0.32.0\n    args: ["--model", "{}"]\n'
)


def small_model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(SMALL))
    return folder


@pytest.fixture
def poisoned(tmp_path: Path) -> Path:
    """The repository of a folder that is named like a hub id: attack.md 2."""
    root = tmp_path / "poison"
    small_model(root / HUB)
    (root / ".git").mkdir()
    (root / "compose.yaml").write_text(COMPOSE.format(HUB))
    (root / "k8s.yaml").write_text(POD.format(HUB))
    (root / "serve.sh").write_text(f"vllm serve {HUB}\n")
    return root


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("qwen3-8b", "Qwen/Qwen3-8B"), ("QwQ-32B", "Qwen/QwQ-32B"), ("gpt-oss-20b", "openai/gpt-oss-20b"),
        ("qwen3 14b", "Qwen/Qwen3-14B"), ("mistral-nemo", "mistralai/Mistral-Nemo-Instruct-2407"),
        ("https://huggingface.co/Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", [["vllm", "serve"], ["trtllm-serve"], ["sglang", "serve", "--model-path"]])
def test_a_name_that_the_engine_cannot_load_does_not_start(command: list[str], name: str, meant: str) -> None:
    answer = plan([*command, name], gpu="H100")
    title = {"vllm": "vLLM", "trtllm-serve": "TensorRT-LLM", "sglang": "SGLang"}[command[0]]
    assert answer.verdict.message == f"{title} would ask the hub for '{name}', which is no repository id; {meant}?"
    assert (answer.verdict.outcome, answer.verdict.refusal) == ("fails", "model")
    assert answer.advice is not None and answer.advice.fixes[0].change.model == meant
    assert plan(answer.advice.fixes[0].command, gpu="H100", advise=False).verdict.outcome == "fits"


def test_a_letter_is_no_name() -> None:
    assert plan("vllm serve x", gpu="H100").verdict.message.endswith("which is no repository id")
    for name in ("x", "7b", "m2", "fp8", "显存"):
        assert catalog.find(name) is None


def test_old_ids_without_an_owner_are_names() -> None:
    assert {"gpt2", "bert-base-uncased", "roberta-large", "t5-small"} <= WITHOUT_OWNER.keys()
    assert all(owned.count("/") == 1 and owned.endswith(f"/{name}") for name, owned in WITHOUT_OWNER.items())


def test_guesses_are_said_and_prefer_the_maker() -> None:
    for name in ("qwen3 14b", "qwen 3 14b", "qwen3-14b"):
        entry = catalog.find(name)
        assert entry is not None and entry.id == "Qwen/Qwen3-14B"
        assert entry.note.startswith(f"'{name}' is read as Qwen/Qwen3-14B")
    assert any("is read as" in note for note in load_model("gpt-oss-120b").warnings)


def test_engines_with_names_of_their_own_keep_them() -> None:
    assert plan("ollama run qwen3:8b", gpu="H100", advise=False).fits
    assert plan("llama-server -hf Qwen/Qwen3-8B-GGUF:Q4_K_M", gpu="H100", advise=False).fits
    assert plan("llama-server -m Qwen3-8B-Q4_K_M.gguf", gpu="H100", advise=False).fits


@pytest.mark.parametrize("command", ["llama-server -m", "vllm serve"])
def test_a_file_that_is_not_here_is_planned_by_its_name(command: str) -> None:
    answer = plan(f"{command} Qwen3-8B-Q4_K_M.gguf", gpu="RTX 4090", advise=False)
    assert answer.fits and answer.model == "Qwen/Qwen3-8B:Q4_K_M"
    assert any("is not on this machine" in note for note in answer.warnings)


# --- folders ---------------------------------------------------------------------------------------------------------


def test_the_gate_is_red_from_every_directory(poisoned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    for folder in (poisoned, poisoned.parent, poisoned / "Qwen", poisoned / HUB, Path("/")):
        monkeypatch.chdir(folder)
        for path in (str(poisoned), os.path.relpath(poisoned)):
            answer = check([path], gpu="RTX 4090")
            seen.add(tuple((item.outcome, item.plan and item.plan.verdict.short_bytes) for item in answer.items))
            assert answer.exit_code == 1 and len(answer.items) == 3
            assert [bool(item.warning) for item in answer.items] == [False, False, True]  # a container never sees it
    assert len(seen) == 1
    assert "a folder of this repository is called Qwen/Qwen3-32B" in " ".join(answer.text().split())
    assert "FolderLikeTheHub" in json.dumps(sarif(answer)) and "::warning" in github(answer)


def test_a_file_or_the_user_can_say_that_a_folder_is_right(poisoned: Path) -> None:
    script = poisoned / "serve.sh"
    assert check([str(script)], gpu="RTX 4090", names={HUB: str(poisoned / HUB)}).outcome == "fits"
    for remark in (f"# oomph: model {HUB} = ./{HUB}", f"# oomph: model = ./{HUB}"):
        script.write_text(f"{remark}\nvllm serve {HUB}\n")
        answer = check([str(script)], gpu="RTX 4090")
        assert answer.outcome == "fits" and not answer.items[0].warning
    script.write_text("# oomph: model qwen-prod = Qwen/Qwen3-0.6B\nvllm serve qwen-prod\n")
    assert check([str(script)], gpu="RTX 4090").outcome == "fits"


def test_a_typed_command_sees_the_working_directory(poisoned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(poisoned)
    answer = plan(["vllm", "serve", HUB], gpu="RTX 4090", advise=False)
    assert answer.fits and any("not the hub's model" in note for note in answer.warnings)
    inside = ["docker", "run", "--gpus", "all", "vllm/vllm-openai:v0.32.0", "--model", HUB]
    assert not plan(inside, gpu="RTX 4090", advise=False).fits


def test_a_script_sees_its_own_folder_and_a_container_what_is_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_model(tmp_path / "deploy" / "merged")
    (tmp_path / "deploy" / "start.sh").write_text("vllm serve ./merged\n")
    (tmp_path / "deploy" / "compose.yaml").write_text(
        COMPOSE.format("/models/merged") + "    volumes: ['./:/models:ro']\n"
    )
    monkeypatch.chdir("/")
    assert check([str(tmp_path)], gpu="RTX 4090").outcome == "fits"
    (tmp_path / "deploy" / "compose.yaml").write_text(COMPOSE.format("./merged"))
    answer = check([str(tmp_path / "deploy" / "compose.yaml")], gpu="RTX 4090")
    assert answer.outcome == "unread"
    assert answer.items[0].error is not None and "what is mounted" in answer.items[0].error.hint


def test_where_a_path_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    assert path_here("model") == "model" and not path_here("absent")
    assert folders_of(str(tmp_path / "a" / "b" / "x.sh")) == (str(tmp_path / "a" / "b"),)
    (tmp_path / ".git").mkdir()
    folders = folders_of("a/b/x.sh")
    assert folders == (str(tmp_path / "a" / "b"), str(tmp_path / "a"), str(tmp_path))
    with looking(Place(folders)):
        assert path_here("model") == str(tmp_path / "model")
    with looking(Place(container=True)):
        assert not path_here("model") and not path_here(str(tmp_path / "model"))
    with looking(Place(container=True, mounted=(str(tmp_path / "model"),))):
        assert path_here(str(tmp_path / "model"))


# --- reports ---------------------------------------------------------------------------------------------------------


def test_a_report_speaks_of_the_release_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "INFO 11-18 10:00:00 [api_server.py:1234] vLLM API server version 0.11.0\n"
        "ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
        "23.52 GiB of which 1.00 GiB is free.\n"
    )
    answer = bundle(parse_command(["vllm", "serve", "Qwen/Qwen3-8B"]), gpu="RTX 4090", logs=[str(log)])
    assert answer.plan is not None and answer.plan.deployment.engine.version == "0.11.0"
    named = parse_command(["vllm", "serve", "Qwen/Qwen3-8B"], engine="vllm==0.21.0")
    kept = bundle(named, gpu="RTX 4090", logs=[str(log)])
    assert kept.plan is not None and kept.plan.deployment.engine.version == "0.21.0"
