"""The real llama-server on the CPU with a tiny model: which slot takes which request, and every batch that it decodes.

    python tools/llamacpp_lab/server.py LLAMA_SERVER MODEL.gguf SEED COUNT > slots.jsonl

A row has the server's flags, the requests (segments of text and tokens to generate) and its turns: the tasks that were
taken from the queue, the slots that they got, the batch (slot, tokens in its cache before, whether it generates), how
many views of it were decoded, and who left with how many tokens. tests/engines/llamacpp/test_slots.py plays the same
turns. Requests come when they come: the log says in which turn.
"""

from __future__ import annotations

import json
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

Row = dict[str, Any]
TAKEN = re.compile(r"process_new_: processing task, id = (\d+)")
DECLINED = re.compile(r"decline task, id_task = (\d+)")
LAUNCHED = re.compile(r"launch_slot_: id +(\d+) \| task (\d+) \| processing task")
GENERATES = re.compile(r"handle_last_: id +(\d+) \| task \d+ \| slot decode token.* n_tokens = (\d+)")
PROMPT = re.compile(r"id +(\d+) \| task \d+ \| cached n_tokens = (\d+), memory_seq_rm")
RELEASED = re.compile(r"release: id +(\d+) \| task (\d+) \| stop processing: n_tokens = (\d+)")
LENGTH = re.compile(r"id +\d+ \| task (\d+) \| new prompt, .*task\.n_tokens = (\d+)")
FULL = ("failed to find free space in the KV cache, retrying", "Context size has been exceeded. off")
VIEW = "n_batch (effective) ="
TURN = "start_loop: update slots"


def draw(dice: random.Random) -> Row:
    slots = dice.choice((1, 2, 3, 4, 4, 6))
    flags = ["-np", str(slots), "-c", str(dice.choice((512, 1024, 2048)) * (slots if dice.random() < 0.6 else 1))]
    flags += ["-kvu"] if dice.random() < 0.5 else []
    flags += ["-b", str(dice.choice((64, 128, 512))), "-ub", str(dice.choice((32, 64)))]
    flags += dice.choice(([], [], ["--context-shift"], ["-nocb"], ["--no-cache-idle-slots"], ["--cache-ram", "0"]))
    flags += dice.choice(([], [], ["-sps", "0.5"], ["-sps", "0"]))
    return {
        "flags": flags, "users": dice.choice((1, 2, slots, 2 * slots, 2 * slots)), "talk": dice.choice((1, 1, 3)),
        "shared": dice.choice((0, 0, 40)), "prompt": dice.choice((20, 120, 400)), "output": dice.choice((4, 20, 60)),
        "seed": dice.randrange(1 << 30),
    }  # fmt: skip


class Client:
    """Users of one server. Segments of text begin with a token of their own, so that nothing is equal by chance."""

    def __init__(self, row: Row, port: int) -> None:
        self.row, self.port = row, port
        self.dice, self.lock = random.Random(row["seed"]), threading.Lock()
        self.requests: list[Row] = []
        self.segments = 0
        self.words: dict[int, list[int]] = {}
        self.lengths: set[int] = set()

    def segment(self, tokens: int, before: int = 0) -> tuple[int, int]:
        """So long that no other prompt has as many tokens: the log tells requests apart by them."""
        with self.lock:
            while before + tokens in self.lengths:
                tokens += 1
            self.lengths.add(before + tokens)
            self.segments += 1
            first = 300 + self.segments
            self.words[self.segments] = [first, *(self.dice.randrange(300, 8000) for _ in range(tokens - 1))]
            return self.segments, tokens

    def talk(self, shared: tuple[int, int] | None) -> None:
        dice = random.Random(f"{self.row['seed']} {threading.get_ident()}")
        chain = [shared] if shared else []
        for _ in range(self.row["talk"]):
            before = sum(tokens for _, tokens in chain)
            chain.append(self.segment(max(2, round(self.row["prompt"] * dice.uniform(0.3, 1.5))), before))
            output = max(1, round(self.row["output"] * dice.uniform(0.2, 1.8)))
            answer = self.ask([word for name, _ in chain for word in self.words[name]], chain, output)
            if not answer:
                return
            with self.lock:
                self.segments += 1
                self.words[self.segments] = answer
                chain.append((self.segments, len(answer)))
            time.sleep(dice.uniform(0, 0.2))

    def ask(self, words: list[int], chain: list[tuple[int, int]], output: int) -> list[int]:
        body = {"prompt": words, "n_predict": output, "ignore_eos": True, "return_tokens": True, "temperature": 1.0}
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}/completion", json.dumps(body).encode())
        with self.lock:
            self.requests.append({"chain": list(chain), "prompt": len(words), "output": output})
        try:
            with urllib.request.urlopen(asked, timeout=120) as reply:
                answer = json.loads(reply.read())
        except urllib.error.HTTPError as refused:
            refused.read()
            return []
        return list(answer["tokens"])


def serve(row: Row, program: str, model: str) -> Row:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = Path(tempfile.mkdtemp()) / "log"
    command = [program, "-m", model, *row["flags"], "-dev", "none", "-t", "1", "-tb", "1", "--port", str(port),
               "-lv", "5", "--no-warmup", "--log-file", str(log), "-fit", "off"]  # fmt: skip
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await(port)
        client = Client(row, port)
        shared = client.segment(row["shared"]) if row["shared"] else None
        threads = [threading.Thread(target=client.talk, args=(shared,)) for _ in range(row["users"])]
        for thread in threads:
            thread.start()
            time.sleep(client.dice.uniform(0, 0.1))
        for thread in threads:
            thread.join()
    finally:
        server.terminate()
        server.wait()
    return {**row, "requests": client.requests, **read(log.read_text(errors="replace"))}


def _await(port: int) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as reply:
                if reply.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    raise OSError("llama-server does not answer")


def read(text: str) -> Row:
    """The turns of a log at -lv 5. A turn begins with the tasks that it takes from the queue and ends before the next
    one's; tasks that come while a batch is decoded are declined and taken again afterwards."""
    turns: list[Row] = []
    lengths: dict[str, int] = {}
    turn = _turn()
    for line in text.splitlines():
        if "start_loop: processing new tasks" in line:
            if turn["batch"] or turn["released"]:
                turns.append(turn)
            turn = _turn()
        elif match := DECLINED.search(line):
            turn["taken"].remove(int(match[1]))
        elif match := TAKEN.search(line):
            turn["taken"].append(int(match[1]))
        elif match := LAUNCHED.search(line):
            turn["launched"].append([int(match[2]), int(match[1])])
        elif match := LENGTH.search(line):
            lengths[match[1]] = int(match[2])
        elif match := GENERATES.search(line):
            turn["batch"].append([int(match[1]), int(match[2]), True])
        elif match := PROMPT.search(line):
            turn["batch"].append([int(match[1]), int(match[2]), False])
        elif VIEW in line:
            turn["views"] += 1
        elif any(words in line for words in FULL):
            turn["views"] -= 1
        elif match := RELEASED.search(line):
            turn["released"].append([int(match[2]), int(match[1]), int(match[3])])
    turns = [*turns, turn] if turn["batch"] or turn["released"] else turns
    for each in turns:  # tasks that only ask for the next turn are left out
        each["taken"] = [task for task in each["taken"] if str(task) in lengths]
    return {"lengths": lengths, "turns": turns}


def _turn() -> Row:
    return {"taken": [], "launched": [], "batch": [], "views": 0, "released": []}


if __name__ == "__main__":
    program, model, seed, count = sys.argv[1:]
    dice = random.Random(seed)
    for number in range(int(count)):
        print(json.dumps({"id": f"{seed}{number}", **serve(draw(dice), program, model)}), flush=True)
