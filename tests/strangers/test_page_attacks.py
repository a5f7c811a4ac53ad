"""The page under attack: silent hubs, half requests, gone askers, other users, other addresses, other folders."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from oomph.web import patience
from oomph.web.api import Job, Workers

EVIL = {
    "architectures": ["Qwen3ForCausalLM"], "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 36,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512, "dtype": "bfloat16",
    "max_position_embeddings": 2048, "quantization_config": {
        "quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["re:((\\w|\\w\\w|\\.)*)*\\b\\B"],
        "config_groups": {"0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}}}},
}  # fmt: skip
# A load whose simulation takes minutes.
ENDLESS = {"model": "Qwen/Qwen3-0.6B", "gpu": "H100", "users": 100_000, "prompt": 100, "output": 100_000}


class Page:
    def __init__(self, process: subprocess.Popen[str], port: int, token: str) -> None:
        self.process, self.port, self.token = process, port, token

    def ask(self, method: str, path: str, body: Any = None, timeout: float = 60, **headers: str) -> tuple[int, str]:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        sent = {"Cookie": f"oomph-{self.port}={self.token}", "X-Oomph": "1"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        link.request(method, path, body if isinstance(body, str | bytes | None) else json.dumps(body), sent)
        answer = link.getresponse()
        return answer.status, answer.read().decode()

    def slowest(self, seconds: float) -> float:
        """The longest that `GET /` takes within so many seconds."""
        worst, end = 0.0, time.monotonic() + seconds
        while time.monotonic() < end:
            begin = time.monotonic()
            assert self.ask("GET", "/")[0] == 200
            worst = max(worst, time.monotonic() - begin)
            time.sleep(0.02)
        return worst


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """A hub that accepts and says nothing."""
    server = socket.create_server(("127.0.0.1", 0), backlog=512)
    yield f"http://127.0.0.1:{server.getsockname()[1]}"
    server.close()


def start(folder: Path, hub: str) -> Page:
    online = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": hub, "HF_HOME": str(folder / "hub"), "no_proxy": "*"}
    environment = {**os.environ, **online}
    words = [sys.executable, "-m", "oomph", "ui", "--port", "0", "--no-browser", "--root", str(folder)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]+)", process.stdout.readline())
    assert found
    return Page(process, int(found[1]), found[2])


class Halves:
    """Requests of which only a part comes; they are open while the other tests ask."""

    def __init__(self, page: Page) -> None:
        self.begin = time.monotonic()
        self.links = [socket.create_connection(("127.0.0.1", page.port)) for _ in range(300)]
        for number, link in enumerate(self.links):
            link.sendall([b"GET / HTTP/1.1\r\nHost: 127", b"G", b"POST /api/plan HTTP/1.1\r\n", b"\r\n"][number % 4])


@pytest.fixture(scope="module")
def halves(page: Page) -> Halves:
    return Halves(page)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, silent: str) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("root")
    (folder / "evil").mkdir()
    (folder / "evil" / "config.json").write_text(json.dumps(EVIL))
    (folder / "start.sh").write_text("vllm serve Qwen/Qwen3-8B --max-model-len 4096\n")
    made = start(folder, silent)
    yield made
    made.process.kill()
    made.process.wait()


def test_the_token_becomes_a_cookie(page: Page, halves: Halves) -> None:
    assert page.ask("GET", "/", Cookie="")[0] == 403
    assert page.ask("GET", "/main.js", Cookie=f"oomph-{page.port}=guess")[0] == 403
    assert page.ask("POST", "/api/plan", {"model": "Qwen/Qwen3-8B", "gpu": "H100"}, Cookie="")[0] == 403
    assert page.ask("GET", "/?token=guess", Cookie="")[0] == 403
    link = http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)
    link.request("GET", f"/?token={page.token}")
    answer = link.getresponse()
    assert answer.status == 303 and answer.getheader("location") == "/"
    cookie = answer.getheader("set-cookie") or ""
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert page.ask("GET", "/", Cookie=cookie.partition(";")[0])[0] == 200
    assert page.ask("GET", "/", Cookie="", Authorization=f"Bearer {page.token}")[0] == 200


def test_no_address_but_the_hub_is_asked(page: Page) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.2)
    where = f"http://127.0.0.1:{listener.getsockname()[1]}/x.gguf"
    for case in (
        {"model": where, "gpu": "H100"},
        {"command": f"vllm serve {where}", "gpu": "H100"},
        {"command": f"llama-server -m {where}", "gpu": "H100"},
        {"model": "http://169.254.169.254/latest/x.gguf", "gpu": "H100"},
    ):
        status, text = page.ask("POST", "/api/plan", case)
        assert status == 400 and "nobody but the hub" in text, text
    with pytest.raises(TimeoutError):
        listener.accept()
    listener.close()


def test_no_file_outside_is_looked_at(page: Page) -> None:
    status, text = page.ask("POST", "/api/plan", {"command": "start.sh", "gpu": "H100"})
    assert status == 200 and "4096" in text
    answers = set()
    for there in ("/etc/passwd", "/etc/no-such-file", "/etc", "/root/.ssh/id_rsa", "../secret", "~/.bashrc"):
        status, text = page.ask("POST", "/api/plan", {"model": there, "gpu": "H100"})
        assert status == 400
        answers.add(text.replace(there, "PATH"))
    assert len(answers) == 1, answers  # what is there and what is not cannot be told apart
    for command in (
        "/etc/hostname",
        "/etc/no-such-file",
        "vllm serve Qwen/Qwen3-8B --config /etc/a.yaml",
        "bash /etc/profile",
    ):
        status, text = page.ask("POST", "/api/plan", {"command": command, "gpu": "H100"})
        assert status == 400 and "Permission" not in text


def test_a_config_with_an_evil_pattern_is_refused(page: Page) -> None:
    status, text = page.ask("POST", "/api/plan", {"model": "evil", "gpu": "H100"})
    assert status == 400 and "takes too long" in text
    assert page.slowest(0.5) < 3


def test_who_has_gone_costs_nothing(page: Page) -> None:
    link = http.client.HTTPConnection("127.0.0.1", page.port, timeout=5)
    headers = {"Cookie": f"oomph-{page.port}={page.token}", "X-Oomph": "1"}
    link.request("POST", "/api/simulate", json.dumps(ENDLESS), headers)
    assert soon(lambda: busiest_child(page.process.pid) > 5)
    link.close()
    assert soon(lambda: busiest_child(page.process.pid) < 3)
    assert page.slowest(0.5) < 3


def test_slow_uploads_hold_nobody_else(page: Page) -> None:
    cookie = f"Cookie: oomph-{page.port}={page.token}\r\n"
    head = f"Host: 127.0.0.1:{page.port}\r\n{cookie}X-Oomph: 1\r\nContent-Length: 100000\r\n\r\n"
    uploads = [socket.create_connection(("127.0.0.1", page.port)) for _ in range(100)]
    for upload in uploads:
        upload.sendall(f"POST /api/explain HTTP/1.1\r\n{head}a".encode())
    assert page.slowest(2) < 3
    for upload in uploads:
        upload.close()


def test_two_hundred_clients_at_once(page: Page) -> None:
    statuses: list[int] = []

    def client(number: int) -> None:
        flags = {"max_model_len": 1024 + number}
        case = {"model": "Qwen/Qwen3-8B", "gpu": "H100", "flags": flags}
        statuses.append(page.ask("POST", "/api/plan", case, timeout=120)[0])

    threads = [threading.Thread(target=client, args=(number,)) for number in range(200)]
    for thread in threads:
        thread.start()
    worst = page.slowest(3)
    for thread in threads:
        thread.join(120)
    assert worst < 3 and len(statuses) == 200
    assert set(statuses) <= {200, 504} and statuses.count(200) > 20


def test_half_requests_are_hung_up_on(page: Page, halves: Halves) -> None:
    assert page.slowest(1) < 3
    time.sleep(max(0.0, halves.begin + patience.HEADER_SECONDS + 1 - time.monotonic()))
    for link in halves.links:
        link.settimeout(2)
        while link.recv(4096):
            pass
        link.close()


def test_a_silent_hub_holds_nobody_else(page: Page) -> None:
    """The last test of this page, which is stopped then: nobody waits for the answers."""
    case = {"model": "acme/unknown", "gpu": "H100"}
    for _ in range(4):
        threading.Thread(target=_ignore, args=(page, "/api/plan", case), daemon=True).start()
    assert page.slowest(3) < 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_within_two_seconds(tmp_path: Path, silent: str, number: int) -> None:
    page = start(tmp_path, silent)
    for case in (ENDLESS, {"model": "acme/unknown", "gpu": "H100"}):
        path = "/api/simulate" if "users" in case else "/api/plan"
        threading.Thread(target=_ignore, args=(page, path, case), daemon=True).start()
    time.sleep(1.5)
    assert soon(lambda: bool(psutil.Process(page.process.pid).children()))
    children = psutil.Process(page.process.pid).children(recursive=True)
    begin = time.monotonic()
    page.process.send_signal(number)
    page.process.wait(30)
    assert time.monotonic() - begin < 15  # 2 s on an idle machine; the answers that are asked for never come
    gone, alive = psutil.wait_procs(children, timeout=15)
    assert not alive and len(gone) >= 1


def busiest_child(number: int) -> float:
    """In percent of a core; a child that has just gone takes none."""
    shares = [0.0]
    for child in psutil.Process(number).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            shares.append(child.cpu_percent(0.3))
    return max(shares)


def soon(holds: Callable[[], bool], seconds: float = 30) -> bool:
    """Whether it holds before so many seconds are over: a busy machine takes its time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _ignore(page: Page, path: str, case: dict[str, Any]) -> None:
    try:
        page.ask("POST", path, case)
    except (OSError, http.client.HTTPException):
        return


def test_who_leaves_while_a_process_starts_leaves_none_behind(tmp_path: Path) -> None:
    async def leave_at_once() -> None:
        workers = Workers(str(tmp_path))
        for _ in range(6):
            with anyio.move_on_after(0.02):
                await workers.run(Job("simulate", 60, slow=True), ENDLESS)

    anyio.run(leave_at_once)
    assert soon(lambda: len(psutil.Process().children()) <= 1)
