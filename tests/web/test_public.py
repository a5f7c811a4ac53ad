"""A page for everybody: its own name only, no token, no folder, no hub token, and so many questions per client."""

from __future__ import annotations

import http.client
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from oomph.web.public import BURST, PER_SECOND, Allowance, client_of, without_belongings

NAME = "oomph.example.org"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    from oomph.web.server import listen, make_server

    sock = listen(0)
    at = sock.getsockname()[1]
    server = make_server(at, token="unknown", public=NAME)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    yield at
    server.should_exit = True
    thread.join(10)


def ask(port: int, method: str, path: str, body: object = None, **headers: str) -> tuple[int, str]:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    sent = {"Host": NAME, **{name.replace("_", "-"): value for name, value in headers.items()}}
    link.request(method, path, json.dumps(body) if body is not None else None, sent)
    answer = link.getresponse()
    return answer.status, answer.read().decode()


def test_the_page_needs_no_token_and_answers_to_its_name_alone(port: int) -> None:
    assert ask(port, "GET", "/")[0] == 200
    assert ask(port, "GET", "/", Host="127.0.0.1")[0] == 403
    assert ask(port, "POST", "/api/plan", {}, X_Oomph="1", Origin="https://elsewhere.example")[0] == 403
    case = {"command": "vllm serve Qwen/Qwen3-0.6B", "gpu": "RTX 4090"}
    assert ask(port, "POST", "/api/plan", case, X_Oomph="1", Origin=f"https://{NAME}")[0] == 200


def test_a_client_that_asks_too_much_waits_and_others_do_not(port: int) -> None:
    seen = [ask(port, "GET", "/api/progress?job=none", X_Forwarded_For="1.2.3.4, 198.51.100.7")[0] for _ in range(60)]
    assert seen.count(429) >= 60 - BURST - 10 and seen[0] == 200
    assert ask(port, "GET", "/api/progress?job=none", X_Forwarded_For="198.51.100.8")[0] == 200


def test_an_allowance_comes_back_with_time() -> None:
    allowance = Allowance()
    assert [allowance.is_spent(b"one", 0.0) for _ in range(int(BURST) + 1)][-1]
    assert not allowance.is_spent(b"one", 2 / PER_SECOND)


def test_what_a_client_writes_itself_does_not_count() -> None:
    headers = {b"x-forwarded-for": b"forged, 203.0.113.5"}
    assert client_of({"client": ("127.0.0.1", 1)}, headers) == b"203.0.113.5"


def test_the_one_who_starts_it_gives_nothing_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    folder = Path(without_belongings())
    assert list(folder.iterdir()) == [] and "HF_TOKEN" not in os.environ
    assert os.environ["HF_HUB_DISABLE_IMPLICIT_TOKEN"] == "1"
    folder.rmdir()
