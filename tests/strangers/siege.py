"""The page under siege: many requests while silent hubs, slow uploads and half requests hold connections.

    python tests/strangers/siege.py 100000

Prints, for every tenth of the requests, the memory of the page with all its processes and the longest that `GET /` took
until then. It fails where `GET /` took a second or the memory grew by more than an eighth after the first fifth.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import psutil

CLIENTS, UPLOADS, HALVES, SILENT = 200, 50, 100, 4
PLAN = {"gpu": "H100", "model": "Qwen/Qwen3-8B"}
LOG = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.6 GiB"


class Page:
    def __init__(self, folder: str, hub: str) -> None:
        words = [sys.executable, "-m", "oomph", "ui", "--port", "0", "--no-browser", "--root", folder]
        environment = {**os.environ, "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": hub, "HF_HOME": folder, "no_proxy": "*"}
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        address = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]+)", self.process.stdout.readline())
        assert address
        self.port = int(address[1])
        self.headers = {"Cookie": f"oomph-{self.port}={address[2]}", "X-Oomph": "1"}

    def link(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def memory(self) -> int:
        server = psutil.Process(self.process.pid)
        return sum(process.memory_info().rss for process in (server, *server.children(recursive=True)))


def question(number: int) -> tuple[str, str, bytes | None]:
    """Every tenth request is a plan, every hundredth an explanation; the others ask for the page and its scripts."""
    if number % 100 == 7:
        return "POST", "/api/explain", LOG
    if number % 10 == 3:
        flags = {"max_model_len": 1024 + number % 4096}
        return "POST", "/api/plan", json.dumps(PLAN | {"flags": flags}).encode()
    return "GET", ("/", "/main.js", "/style.css")[number % 3], None


class Clients:
    """Threads that share one count of requests, each with a connection that it keeps."""

    def __init__(self, page: Page, count: int) -> None:
        self.page, self.count, self.statuses = page, count, dict[int, int]()
        self.numbers, self.lock, self.done = itertools.count(), threading.Lock(), 0
        self.threads = [threading.Thread(target=self.ask, daemon=True) for _ in range(CLIENTS)]

    def ask(self) -> None:
        link = self.page.link()
        for number in self.numbers:
            if number >= self.count:
                return
            try:
                link.request(*question(number), headers=self.page.headers)
                answer = link.getresponse()
                answer.read()
                status = answer.status
            except (OSError, http.client.HTTPException):
                link.close()
                link, status = self.page.link(), 0
            with self.lock:
                self.done += 1
                self.statuses[status] = self.statuses.get(status, 0) + 1


def hold(page: Page, stop: threading.Event) -> None:
    """Keep uploads that drip, half requests and questions to a silent hub open, again and again."""
    cookie = f"Cookie: {page.headers['Cookie']}\r\nX-Oomph: 1\r\n"
    head = f"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\n{cookie}Content-Length: 100000\r\n\r\n"
    unknown = json.dumps({"model": "acme/unknown", "gpu": "H100"}).encode()
    while not stop.is_set():
        links = [socket.create_connection(("127.0.0.1", page.port)) for _ in range(UPLOADS + HALVES)]
        for number, link in enumerate(links):
            link.sendall(head.encode() if number < UPLOADS else b"POST /api/plan HTTP/1.1\r\nHost: 127")
        askers = [page.link() for _ in range(SILENT)]
        for asker in askers:
            asker.request("POST", "/api/plan", unknown, page.headers)
        for _ in range(20):
            stop.wait(0.5)
            for link in links[:UPLOADS]:
                try:
                    link.sendall(b"a")
                except OSError:
                    break
        for link in links:
            link.close()
        for asker in askers:
            asker.close()


def siege(page: Page, count: int) -> bool:
    clients, stop = Clients(page, count), threading.Event()
    for thread in (threading.Thread(target=hold, args=(page, stop), daemon=True), *clients.threads):
        thread.start()
    slowest, memories, step = 0.0, list[int](), 1
    while clients.done < count:
        begin = time.monotonic()
        link = page.link()
        link.request("GET", "/", headers=page.headers)
        assert link.getresponse().status == 200
        slowest = max(slowest, time.monotonic() - begin)
        link.close()
        time.sleep(0.1)
        if clients.done >= step * count // 10:
            memories.append(page.memory())
            print(f"{clients.done:>8,} requests  {memories[-1] >> 20} MiB  slowest GET / {slowest:.2f} s", flush=True)
            step += 1
    stop.set()
    print("answers by status:", dict(sorted(clients.statuses.items())))
    return slowest < 1 and max(memories[2:], default=0) <= 1.125 * max(memories[:2])


def main(words: list[str]) -> int:
    count = int(words[0]) if words else 100_000
    hub: Any = socket.create_server(("127.0.0.1", 0), backlog=512)
    with tempfile.TemporaryDirectory() as folder:
        page = Page(folder, f"http://127.0.0.1:{hub.getsockname()[1]}")
        try:
            return 0 if siege(page, count) else 1
        finally:
            page.process.kill()
            page.process.wait()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
