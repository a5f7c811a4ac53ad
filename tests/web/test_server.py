"""The page's server: what it answers, and what it refuses (rebinding, cross-site posts, floods, secrets)."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from oomph.facts.vllm.versions import NEWEST

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
    for path in ("/", "/app.js", "/charts.js", "/style.css", "/icon.svg"):
        status, headers, body = ask(port, "GET", path)
        assert status == 200 and body
        policy = headers["content-security-policy"]
        assert "script-src 'self'" in policy and "unsafe" not in policy and "default-src 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
    _, _, page = ask(port, "GET", "/")
    assert b"<script>" not in page and b"style=" not in page and b"http://" not in page and b"https://" not in page


def test_plan_levers_diff(port: int) -> None:
    status, made = post(port, "/api/plan", LLAMA)
    assert status == 200 and made["verdict"]["fits"] and made["command"].startswith("vllm serve")
    status, made = post(port, "/api/plan", {**LLAMA, "flags": {"max_model_len": 8192, "enforce_eager": True}})
    assert "--max-model-len 8192" in made["command"] and "--enforce-eager" in made["command"]
    status, found = post(port, "/api/levers", LLAMA)
    assert status == 200 and any(x["label"].startswith("--kv-cache-dtype") for x in found["levers"])
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
