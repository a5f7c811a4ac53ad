"""serve.py CASES.jsonl SECONDS MODELS OUT: start the real SGLang server for each case, fill its cache, write it down.

A case: {"id", "model": folder under MODELS, "args": [flags of launch_server], "seconds": most it may take, "fill":
tokens of a prompt, "answer": tokens of an answer}. Weights are dummies, requests are token ids. OUT/sglang.jsonl.gz
gets one line per case (appended, so a killed run loses nothing), with the server's output in it. A case that has a
line is not started again. The next server's process waits at its gate (gate.py) while the one before it is under load.
Memory is NVML's: bytes in use on the whole card, read every 50 ms.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml

PORT = 30123
SHORTEST = 40.0  # seconds; less is not worth a start
READY = "The server is fired up and ready to roll!"
FATAL = re.compile(r"Received sigquit|Scheduler hit an exception|Traceback|CUDA out of memory|error: ")
POOL = re.compile(r"max_total_num_tokens=(\d+)")


class Card:
    """What is in use on the card, and the most since the last mark."""

    def __init__(self) -> None:
        pynvml.nvmlInit()
        self.handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        self.peak = 0
        self.trace: list[tuple[float, int]] = []
        threading.Thread(target=self.watch, daemon=True).start()

    def used(self) -> int:
        return int(pynvml.nvmlDeviceGetMemoryInfo(self.handle).used)

    def total(self) -> int:
        return int(pynvml.nvmlDeviceGetMemoryInfo(self.handle).total)

    def watch(self) -> None:
        while True:
            used = self.used()
            self.peak = max(self.peak, used)
            if not self.trace or abs(used - self.trace[-1][1]) >= 1 << 20:
                self.trace.append((round(time.time(), 2), used))
            time.sleep(0.05)

    def mark(self) -> None:
        self.peak = self.used()


def post(path: str, body: dict[str, Any], timeout: float) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        return json.loads(reply.read() or b"null")


def generate(prompts: list[list[int]], answer: int, timeout: float) -> dict[str, Any]:
    """One call with all prompts: how long it took, and each request's own account of itself."""
    began = time.time()
    body = {
        "input_ids": prompts,
        "sampling_params": {"max_new_tokens": answer, "ignore_eos": True, "temperature": 1.0, "top_p": 0.95},
    }
    try:
        answers = post("/generate", body, timeout)
    except Exception as trouble:
        return {"seconds": time.time() - began, "error": repr(trouble)[:300]}
    keys = ("prompt_tokens", "completion_tokens", "cached_tokens", "e2e_latency", "finish_reason")
    metas = [{key: one["meta_info"].get(key) for key in keys} for one in answers]
    return {
        "seconds": time.time() - began,
        "requests": len(prompts),
        "answer": answer,
        "tokens": sum(meta["completion_tokens"] or 0 for meta in metas),
        "latencies": sorted(round(meta["e2e_latency"] or 0, 3) for meta in metas),
        "first": metas[:2],
    }


def prompts(count: int, tokens: int, seed: int) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randint(10, 30000) for _ in range(tokens)] for _ in range(count)]


class Server:
    """A server's process, waiting at its gate until `open` lets it go on."""

    def __init__(self, case: dict[str, Any], models: Path, out: Path) -> None:
        self.case, self.log, self.gate = case, out / f"{case['id']}.log", out / f"{case['id']}.gate"
        self.gate.unlink(missing_ok=True)
        args = [word.replace("MODELS/", f"{models}/") for word in case["args"]]
        gate = Path(__file__).with_name("gate.py")
        command = [sys.executable, str(gate), str(self.gate), "--model-path", str(models / case["model"])]
        command += ["--load-format", "dummy", "--skip-tokenizer-init", "--port", str(PORT), *args]
        environment = os.environ | {name: str(value) for name, value in case.get("env", {}).items()}
        self.process = subprocess.Popen(
            command, stdout=self.log.open("wb"), stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )

    def open(self) -> None:
        self.gate.touch()

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait(self, limit: float) -> str:
        while time.time() < limit:
            text = self.text()
            if READY in text:
                return "ready"
            if self.process.poll() is not None or (FATAL.search(text) and "sigquit" in text):
                return "died"
            time.sleep(0.1)
        return "late"

    def stop(self, card: Card, base: int) -> float:
        began = time.time()
        for what in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, what)
            except ProcessLookupError:
                break
            end = time.time() + (2 if what == signal.SIGTERM else 10)
            while time.time() < end and (self.process.poll() is None or card.used() > base + (256 << 20)):
                time.sleep(0.1)
        # The scheduler is a child in the same session; what is left of it holds the card.
        subprocess.run(["pkill", "-9", "-s", str(self.process.pid)], check=False)
        return time.time() - began


def info() -> Any:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/server_info", timeout=5) as reply:
            answer = json.loads(reply.read())
    except Exception as trouble:
        return repr(trouble)[:200]
    states = answer.get("internal_states") or [{}]
    return {"memory_usage": states[0].get("memory_usage"), "keys": sorted(states[0])[:60]}


def loads(case: dict[str, Any], pool: int, limit: float, card: Card) -> list[dict[str, Any]]:
    """A lone user, 32 users, then more tokens than the pool has; each with the most that was in use."""
    fill, answer = case.get("fill", 8192), case.get("answer", 256)
    count = max(2, int(pool * case.get("times", 1.1)) // (fill + answer) + 1)
    plans = [
        ("first_token", 1, 2048, 1),
        ("alone", 1, 2048, 128),
        ("users32", 32, 1024, 128),
        ("long", 1, case.get("long", fill), 8),
        ("full", count, fill, answer),
    ]
    results = []
    for number, (name, requests, tokens, new) in enumerate(plans):
        if time.time() > limit - 3:
            break
        card.mark()
        began = time.time()
        result = generate(prompts(requests, tokens, number), new, max(3.0, limit - began))
        results.append({"load": name, "prompt": tokens, "peak_used": card.peak, "used_after": card.used()} | result)
    return results


def play(server: Server, prepare_next: Callable[[], None], card: Card) -> dict[str, Any]:
    case, base, began = server.case, card.used(), time.time()
    card.trace.clear()
    limit = began + case.get("seconds", 90)
    server.open()
    record: dict[str, Any] = {"case": case, "total": card.total(), "base_used": base, "began": began}
    record["outcome"] = server.wait(limit)
    record["start_s"] = time.time() - began
    if record["outcome"] == "ready":
        time.sleep(0.3)
        record["ready_used"] = card.used()
        pool = POOL.findall(server.text())
        record["pool"] = int(pool[0]) if pool else None
        record["info"] = info()
        prepare_next()
        record["loads"] = loads(case, record["pool"] or 100_000, limit, card)
        card.mark()
        record["alive"] = "error" not in generate(prompts(1, 64, 99), 8, 8)
        record["served_used"] = card.used()
    record["stop_s"] = server.stop(card, base)
    text = server.text()
    record["peak_used"] = max((used for _, used in card.trace), default=0)
    record["trace"] = [(round(moment - began, 2), used) for moment, used in card.trace]
    record["retractions"] = [line for line in text.splitlines() if "Retract" in line][:40]
    record["usages"] = sorted(map(float, re.findall(r"token usage: ([0-9.]+)", text)))[-1:]
    record["seconds"] = time.time() - began
    record["log"] = text[-200_000:]
    return record


def report(record: dict[str, Any]) -> None:
    gib = {key: round(record.get(key, 0) / 2**30, 3) for key in ("base_used", "ready_used", "peak_used")}
    loads = [(one["load"], round(one["seconds"], 1), one.get("error", "")[:80]) for one in record.get("loads", ())]
    times = (round(record["start_s"], 1), round(record["seconds"], 1))
    print(record["case"]["id"], record["outcome"], *times, gib, record.get("pool"), record["usages"], flush=True)
    print("  ", len(record["retractions"]), "retractions", loads, flush=True)
    if record["outcome"] != "ready":
        print("\n".join(record["log"].splitlines()[-6:])[-900:], flush=True)


def main() -> None:
    cases = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines() if line.strip()]
    end, models, out = time.time() + float(sys.argv[2]), Path(sys.argv[3]).resolve(), Path(sys.argv[4])
    out.mkdir(parents=True, exist_ok=True)
    results = out / "sglang.jsonl.gz"
    lines = gzip.decompress(results.read_bytes()).splitlines() if results.exists() else []
    there = {json.loads(line)["case"]["id"] for line in lines}
    waiting = [case for case in cases if case["id"] not in there]
    card, servers = Card(), [Server(case, models, out) for case in waiting[:1]]

    def prepare_next() -> None:
        if waiting[len(servers) :] and end - time.time() > SHORTEST:
            servers.append(Server(waiting[len(servers)], models, out))

    for number in range(len(waiting)):
        if number == len(servers):
            prepare_next()
        if number == len(servers) or end - time.time() < SHORTEST:
            break
        server = servers[number]
        server.case["seconds"] = min(server.case.get("seconds", 90), end - time.time() - 5)
        record = play(server, prepare_next, card)
        with results.open("ab") as file:
            file.write(gzip.compress(json.dumps(record).encode() + b"\n"))
        report(record)
    for server in servers:
        if server.process.poll() is None:
            os.killpg(server.process.pid, signal.SIGKILL)
    print("END of the SGLang cases", flush=True)


if __name__ == "__main__":
    main()
