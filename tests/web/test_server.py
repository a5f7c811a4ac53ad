"""The page's server: what it answers, and what it refuses (rebinding, cross-site posts, floods, secrets)."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oomph.errors import OomphError
from oomph.facts.vllm.versions import NEWEST
from oomph.web import answers, searches
from three_logs import GEMMA

LLAMA = {"model": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H100", "engine": "vllm==0.21.0"}


TOKEN = "the-token-of-the-address"
COOKIES: dict[str, str] = {}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    from oomph.web.server import listen, make_server

    sock = listen(0)
    at = sock.getsockname()[1]
    server = make_server(at, token=TOKEN)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    COOKIES["Cookie"] = f"oomph-{at}={TOKEN}"
    yield at
    server.should_exit = True
    thread.join(10)


def ask(port: int, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    sent = {**COOKIES, **{k.replace("_", "-"): v for k, v in headers.items()}}
    link.request(method, path, body if isinstance(body, str | bytes | None) else json.dumps(body), sent)
    answer = link.getresponse()
    return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()


def post(port: int, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    status, _, text = ask(port, "POST", path, body, X_Oomph="1", **headers)
    return status, json.loads(text)


def test_page_and_its_policy(port: int) -> None:
    from oomph.web.server import _PAGES, STYLE

    size = 0
    for path in (*_PAGES, STYLE):
        status, headers, body = ask(port, "GET", path)
        assert status == 200 and body
        size += len(body)
        policy = headers["content-security-policy"]
        assert "script-src 'self'" in policy and "unsafe" not in policy and "default-src 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
    assert size < 150_000
    _, _, page = ask(port, "GET", "/")
    assert b"<script>" not in page and b"style=" not in page and b"http://" not in page and b"https://" not in page


def test_every_script_is_served_and_every_import_is_a_script() -> None:
    from importlib.resources import files

    from oomph.web.server import _PAGES

    static = files("oomph.web").joinpath("static")
    scripts = {p.name: p.read_text() for p in static.iterdir() if p.name.endswith(".js")}
    assert {f"/{name}" for name in scripts} <= _PAGES.keys()
    imported = {name for text in scripts.values() for name in re.findall(r'from "\./([\w.]+)"', text)}
    assert imported <= scripts.keys() and imported | {"main.js"} == scripts.keys()


def test_plan_what_if_diff(port: int) -> None:
    status, made = post(port, "/api/plan", LLAMA)
    assert status == 200 and made["verdict"]["fits"] and made["command"].startswith("vllm serve")
    status, made = post(port, "/api/plan", {**LLAMA, "flags": {"max_model_len": 8192, "enforce_eager": True}})
    assert "--max-model-len 8192" in made["command"] and "--enforce-eager" in made["command"]
    status, found = post(port, "/api/what_if", LLAMA)
    assert status == 200 and any(row["label"].startswith("--kv-cache-dtype") for row in found["rows"])
    status, moved = post(port, "/api/diff", {**LLAMA, "other": {"engine": f"vllm=={NEWEST}"}})
    assert status == 200 and any(c["what"] == "model_runner" for c in moved["changes"])


@pytest.mark.parametrize(
    "body",
    [
        "{",
        "[1]",
        '{"model": ""}',
        '{"model": 7}',
        {**LLAMA, "gpu": "RTX 9"},
        {**LLAMA, "flags": [1]},
        {**LLAMA, "own_build": "yes"},
        {"command": "rm -rf /"},
    ],
)
def test_what_is_wrong_is_one_sentence(port: int, body: Any) -> None:
    status, value = post(port, "/api/plan", body)
    assert status == 400 and value["error"] and "Traceback" not in value["error"]


def test_explain(port: int) -> None:
    log = (
        "INFO 11-15 10:00:00 [core.py:109] Initializing a V1 LLM engine (v0.21.0) with config: model='Qwen/Qwen3-8B'\n"
        "ValueError: Free memory on device cuda:0 (10.1/23.52 GiB) on startup is less than desired GPU memory "
        "utilization (0.92, 21.64 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
    )
    status, found = post(port, "/api/explain", log)
    assert status == 200 and found["failed"] and found["stage"] == "startup_free_memory"
    status, refused = post(port, "/api/explain", "a poem\n" * 10)
    assert status == 400 and "/tmp" not in refused["error"]


def test_a_card_of_an_earlier_question_is_not_that_of_a_log_which_prints_another_size(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(GEMMA)  # of cards of 15.47 GiB
    case = {"path": str(log), "gpu": "RTX 4090", "chosen_gpu": True}
    (run,) = answers.answer_explain({**case, "earlier_gpu": True})["runs"]
    assert run["gpu"].startswith("2x 15.47GiB") and run["own_gpu"]
    assert {"words": "RTX 4090", "from": "not used: the log's GPU has 15.5 GiB", "is_assumed": True} in run[
        "understood"
    ]
    (run,) = answers.answer_explain(case)["runs"]
    assert run["gpu"] == "2x RTX 4090" and not run["own_gpu"], "who types it beside the log means it"
    (run,) = answers.answer_explain({**case, "gpu": "2x RTX 5070 Ti", "earlier_gpu": True})["runs"]
    assert run["gpu"] == "2x RTX 5070 Ti"


def test_a_gpu_that_is_like_none_is_answered_with_usual_ones(port: int) -> None:
    status, refused = post(port, "/api/plan", {**LLAMA, "gpu": "RTX 9"})
    assert status == 400 and "RTX 4090" in refused["usual"] and refused["meant"] == []
    status, refused = post(port, "/api/inspect", {"model": "gpt-oss-12b"})
    assert status == 400 and not refused["usual"]


def test_engines_that_a_question_names_are_those_that_are_compared(tmp_path: Path) -> None:
    question = tmp_path / "question"
    question.write_text("llama.cpp or Ollama for Qwen3-0.6B on a 3090?")
    asked = answers.answer_read({"path": str(question)})
    assert (asked["view"], asked["fields"]) == ("compare", {"engines": "llamacpp, ollama"})
    answer = searches.answer_compare({"model": asked["model"], "gpu": asked["gpu"], **asked["fields"]})
    assert "llama.cpp" in answer["html"] and "SGLang" not in answer["html"]


def test_words_that_a_question_has_for_flags_are_set_in_the_form(tmp_path: Path) -> None:
    question = tmp_path / "question"
    question.write_text("Qwen3-8B unquantised on a 3090")
    assert answers.answer_read({"path": str(question)})["fields"] == {"only": True}


def test_a_card_behind_a_command_that_nobody_knows_is_said(tmp_path: Path) -> None:
    command = tmp_path / "command"
    command.write_text("vllm serve Qwen/Qwen3-8B on 2x RTX 9999")
    with pytest.raises(OomphError, match="RTX 9999"):
        answers.answer_read({"path": str(command)})


def test_a_name_that_no_model_has_is_not_called_too_large(port: int) -> None:
    status, answer = post(port, "/api/models", {"gpu": "RTX 4090", "words": "no-such-model"})
    assert status == 200 and "NONE IS KNOWN" in answer["html"]


def test_rebinding_and_other_sites_are_refused(port: int) -> None:
    assert ask(port, "GET", "/", Host="evil.example")[0] == 403
    assert ask(port, "GET", "/", Host=f"evil.example:{port}")[0] == 403
    assert ask(port, "GET", "/", Host=f"localhost:{port}")[0] == 200
    assert ask(port, "POST", "/api/plan", LLAMA)[0] == 403  # no header of the page
    assert ask(port, "POST", "/api/plan", LLAMA, X_Oomph="1", Origin="https://evil.example")[0] == 403
    assert ask(port, "POST", "/api/plan", LLAMA, X_Oomph="1", Origin="null")[0] == 403
    assert ask(port, "POST", "/api/plan", LLAMA, X_Oomph="1", Sec_Fetch_Site="cross-site")[0] == 403
    assert ask(port, "POST", "/api/plan", LLAMA, X_Oomph="1", Origin=f"http://127.0.0.1:{port}")[0] == 200


def test_no_path_leads_out(port: int) -> None:
    for path in ("/../pyproject.toml", "/static/../server.py", "/%2e%2e/server.py", "/etc/passwd", "/api/../../x"):
        assert ask(port, "GET", path)[0] in (400, 404)


def test_large_bodies_are_refused(port: int) -> None:
    status, value = post(port, "/api/plan", b"x" * (2 << 20))
    assert status == 400 and "1 MiB" in value["error"]


def test_no_secret_reaches_the_page(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    status, made = post(port, "/api/plan", {**LLAMA, "command": f"vllm serve {LLAMA['model']} --api-key topsecret"})
    text = json.dumps(made)
    assert status == 200 and "topsecret" not in text and "hf_secret" not in text


def test_command_binds_to_loopback_only() -> None:
    words = [sys.executable, "-m", "oomph", "ui", "--port", "0", "--no-browser"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        line = running.stdout.readline()
        assert "http://127.0.0.1:" in line
        running.terminate()
        running.wait(15)


def test_a_log_beyond_the_bound_is_refused(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from oomph.web import api

    assert api.MAX_LOG == 200 << 20
    monkeypatch.setattr(api, "MAX_LOG", 10_000)
    status, value = post(port, "/api/explain", b"x" * 20_000)
    assert status == 400 and "200 MB" in value["error"]


COMPOSE = """
services:
  chat:
    image: vllm/vllm-openai:v0.21.0
    command: --model Qwen/Qwen3-8B --max-model-len 8192   # or CUDA out of memory
  large:
    image: vllm/vllm-openai:v0.21.0
    command: --model Qwen/Qwen3-32B
"""
CONFIG = json.dumps(
    {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512,
        "max_position_embeddings": 2048, "torch_dtype": "bfloat16",
    },
    indent=1,
)  # fmt: skip
LOG = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("vllm serve Qwen/Qwen3-8B --max-model-len 4096", "plan"),
        ("docker run --gpus all vllm/vllm-openai:v0.21.0 --model Qwen/Qwen3-8B --max-model-len 4096", "plan"),
        (COMPOSE, "plan"),
        ("llama-server -hf unsloth/Qwen3-8B-GGUF:Q4_K_M -c 8192", "plan"),
        ("ollama run qwen3:8b", "plan"),
        ("VLLM_USE_V1=1 vllm serve Qwen/Qwen3-8B \\\n  --max-model-len 4096", "plan"),
        (LOG, "explain"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 56.00 MiB.", "explain"),
        ("Qwen/Qwen3-8B", "inspect"),
        (CONFIG, "inspect"),
        ("gemma-4-31b nvfp4", "inspect"),
    ],
)
def test_what_is_pasted_is_told_apart(port: int, text: str, kind: str) -> None:
    status, answer = post(port, "/api/read?gpu=RTX%204090", text.encode())
    assert status == 200 and answer["kind"] == kind, answer
    assert answer["runs"][answer["at"]]["html"] if kind == "explain" else answer["html"]


def test_every_deployment_of_a_file_is_a_tab(port: int) -> None:
    _, answer = post(port, "/api/read?gpu=RTX%204090&name=compose.yaml", COMPOSE.encode())
    assert [(one["name"], one["outcome"]) for one in answer["deployments"]] == [("chat", "fits"), ("large", "fails")]
    assert answer["at"] == 0 and answer["request"] == "vllm==0.21.0"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("plan", {**LLAMA, "gpu": "RTX 9"}, "gpu"),
        ("plan", {"command": "rm -rf /"}, "text"),
        ("fit", {**LLAMA, "context": "many"}, "context"),
        ("fit", {**LLAMA, "users": -1}, "users"),
        ("cards", {**LLAMA, "context": "0"}, "context"),
        ("simulate", {**LLAMA, "users": "all"}, "users"),
        ("diff", {**LLAMA, "other": {"flags": '"'}}, "flags"),
        ("diff", {**LLAMA, "other": {"gpu": "RTX 9"}}, "other-gpu"),
        ("inspect", {"model": "no such model at all"}, "text"),
        ("plan", {**LLAMA, "set": {"no_such": 1}}, "text"),
    ],
)
def test_an_error_names_its_field(port: int, path: str, body: Any, field: str) -> None:
    status, answer = post(port, f"/api/{path}", body)
    assert status == 400 and answer["field"] == field, answer


def test_a_control_changes_the_command(port: int) -> None:
    _, answer = post(port, "/api/plan", {**LLAMA, "set": {"max_model_len": 4096, "enforce_eager": True}})
    assert answer["command"].endswith("--max-model-len 4096 --enforce-eager")
    assert {c["field"]: c["value"] for c in answer["controls"]}["max_model_len"] == 4096
    _, back = post(port, "/api/plan", {"command": answer["command"], "gpu": "H100", "set": {"max_model_len": None}})
    assert "--max-model-len" not in back["command"] and "--enforce-eager" in back["command"]


def test_each_engine_has_controls(port: int) -> None:
    for command, field in (
        ("python -m sglang.launch_server --model-path Qwen/Qwen3-8B", "context_length"),
        ("llama-server -hf unsloth/Qwen3-8B-GGUF:Q4_K_M", "ctx_size"),
        ("ollama run qwen3:8b", "num_ctx"),
        ("trtllm-serve Qwen/Qwen3-8B", "max_seq_len"),
    ):
        _, answer = post(port, "/api/plan", {"command": command, "gpu": "RTX 4090", "set": {field: 4096}})
        assert "4096" in answer["command"], answer["command"]


def test_names_are_text_and_nothing_else(port: int) -> None:
    evil = "</title><script>alert(1)</script>"
    _, answer = post(
        port, "/api/plan", {"command": f"vllm serve Qwen/Qwen3-8B --served-model-name '{evil}'", "gpu": "H100"}
    )
    assert "<script" not in answer["html"] and "&lt;script&gt;" in answer["html"]


def test_the_command_keeps_what_changes_a_plan_and_no_secret(port: int) -> None:
    command = (
        "VLLM_ATTENTION_BACKEND=TRITON_ATTN VLLM_API_KEY=sk-abcdef123456 vllm serve Qwen/Qwen3-8B --api-key hunter22"
    )
    _, answer = post(port, "/api/plan", {"command": command, "gpu": "H100"})
    assert answer["command"].startswith("VLLM_ATTENTION_BACKEND=TRITON_ATTN vllm serve")
    assert "sk-abcdef" not in json.dumps(answer) and "hunter22" not in json.dumps(answer)


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("what_if", {}, "--kv-cache-dtype fp8"),
        ("diff", {"other": {"engine": "vllm==0.30.0"}}, "0.30.0"),
        ("simulate", {"users": 4, "prompt": 200, "output": 50}, "HELD"),
        ("fit", {"context": "8k", "only": True}, "FITS"),
        ("cards", {"context": "8k", "only": True}, "is the least that serves it"),
        ("compare", {"context": "4k"}, "llama.cpp"),
        ("inspect", {}, "Where the bytes are"),
        ("models", {"words": "qwen3"}, "Models"),
    ],
)
def test_every_view_answers(port: int, path: str, body: Any, words: str) -> None:
    """Whatever another part calls its fields: the view is there, and nothing of it is a bug's name."""
    status, answer = post(port, f"/api/{path}", {"command": "vllm serve Qwen/Qwen3-8B", "gpu": "H100", **body})
    assert status == 200, answer
    assert words in answer["html"] and 'class="view' in answer["html"]


def test_a_command_of_oomphs_own_brings_its_gpus(port: int) -> None:
    text = b'oomph plan --gpu "2x RTX 5070 Ti" -- vllm serve Qwen/Qwen3-8B -tp 2 --max-model-len 4096'
    status, answer = post(port, "/api/read?gpu=RTX%204090", text)
    assert status == 200 and answer["gpu"] == "2x RTX 5070 Ti" and len(answer["ranks"]) == 2


def test_a_name_in_a_table_of_the_page_is_no_secret(port: int) -> None:
    status, answer = post(port, "/api/what_if", {"command": "vllm serve Qwen/Qwen3-32B", "gpu": "RTX 4090"})
    assert status == 200
    assert "***" not in json.dumps(answer) and "<code>RedHatAI/Qwen3-32B-NVFP4</code>" in answer["html"]
    _, answer = post(port, "/api/inspect", {"model": "hf_abcdefghijklmnopqrstuvwxyzabcdefgh"})
    assert "abcdefghijklmnop" not in json.dumps(answer)
