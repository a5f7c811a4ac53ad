# ruff: noqa: E501 - tables of inputs
"""Generated hostile inputs for every reader and the page.

    python tests/strangers/hostile.py 2000 [SEED]
    python tests/strangers/hostile.py page 300 [SEED]

Each input is a command line with the files that it names. It runs in a process of its own, which must end within 5 s of
CPU and 300 MB, in one sentence or an answer, and print neither a secret nor a control character. Most inputs are real
ones that were changed a little: what is still nearly right reaches the code behind the parser.
"""

from __future__ import annotations

import copy
import json
import os
import random
import resource
import struct
import sys
import tempfile
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

CPU_SECONDS, MEMORY, WALL_SECONDS = 5.0, 300 << 20, 120.0
SECRET = "S3kr1tN77q"
ESCAPES = (
    "\x1b]0;PWNED\x07",
    "\x1b\x1b[0m]0;x\x07",
    "\x9b31m",
    "\u202e",
    "\x08\x7f",
    "\r",
    "\u2066",
    "\x1b[2J",
    "\x00",
)
EVIL = (r"((\w|\w\w|\.)*)*\b\B", r"(\w+\.?)+!$", "a{999999999}", "(?R)", "(" * 3000, "(.{1,50}){1,50}\\b\\B", "[", "*")
WEIRD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 3, 7, 64, 255, 1 << 31, 1 << 40, 1 << 62, -(1 << 63), 1e308, float("inf"), float("nan"), "", "x",
    "auto", "bfloat16", "fp8", "re:.*", "\\", "[", "model.layers.0", "full_attention", [], [0], [-1], [[]], {}, {"x": 1},
    [{}], "9" * 400, "A" * 100_000, [1] * 50_000, {"a": {"a": {"a": {}}}}, *ESCAPES, *(f"re:{p}" for p in EVIL),
)  # fmt: skip


class Input(NamedTuple):
    words: list[str]
    files: dict[str, bytes]
    environment: dict[str, str] | None = None


class Outcome(NamedTuple):
    code: int
    text: str
    cpu: float
    memory: int


FIXTURES = Path(__file__).parents[1] / "doctor" / "fixtures"
BASE = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "vocab_size": 512, "max_position_embeddings": 2048, "dtype": "bfloat16", "sliding_window": 128,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512},
    "num_experts": 8, "num_local_experts": 8, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "kv_lora_rank": 32, "q_lora_rank": 48, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16,
    "hybrid_override_pattern": "M-*E", "mamba_num_heads": 4, "mamba_head_dim": 16, "ssm_state_size": 16, "n_groups": 2,
    "layer_types": ["sliding_attention", "full_attention"] * 2, "first_k_dense_replace": 1, "decoder_sparse_step": 1,
}  # fmt: skip
QUANTS: tuple[dict[str, Any], ...] = (
    {}, {"quant_method": "awq", "bits": 4, "group_size": 32, "modules_to_not_convert": ["lm_head"]},
    {"quant_method": "gptq", "bits": 4, "group_size": 32, "dynamic": {"-:.*q_proj": {}, "+:.*up": {"bits": 8}}},
    {"quant_method": "fp8", "weight_block_size": [16, 16]}, {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm*"]},
    {"quant_method": "auto-round", "bits": 4, "extra_config": {".*o_proj": {"bits": 8}}}, {"quant_method": "mxfp4"},
    {"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["re:.*gate"], "config_groups": {"0": {
        "targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}}}},
)  # fmt: skip
ARCHITECTURES = (
    "LlamaForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "GptOssForCausalLM", "DeepseekV3ForCausalLM",
    "Gemma3ForCausalLM", "NemotronHForCausalLM", "MambaForCausalLM", "Glm4MoeForCausalLM", "NobodysForCausalLM",
)  # fmt: skip
FLAGS = (
    "--max-model-len", "--gpu-memory-utilization", "-tp", "-pp", "--max-num-seqs", "--kv-cache-dtype", "--quantization", "--dtype",
    "--enforce-eager", "--max-num-batched-tokens", "--api-key", "--hf-overrides", "--speculative-config", "--cpu-offload-gb", "-dp",
    "--compilation-config", "--block-size", "--served-model-name", "--no-such-flag", "--config", "--limit-mm-per-prompt", "--seed",
)  # fmt: skip
VALUES = (
    "1", "0", "-1", "8k", "0.9", "99999999999999999999", "1e400", "nan", "auto", "fp8", "", "{", '{"a":', "[1,2", "\u202e8", "\x1b[2J",
    "$(reboot)", "`id`", "${A:-${B}}", "../../etc/passwd", "'", '"', "\\", "9**9**9", "x" * 5000, "{{a}}", "1,2,3", '{"model":"x"}',
)  # fmt: skip


# --- how inputs are changed -------------------------------------------------------------------------------------------


def change(value: Any, chance: random.Random) -> None:
    """One place of a JSON value becomes something else."""
    place = value
    while place:
        key = chance.choice(list(place)) if isinstance(place, dict) else chance.randrange(len(place))
        if isinstance(place[key], (dict, list)) and place[key] and chance.random() < 0.7:
            place = place[key]
            continue
        roll = chance.random()
        if roll < 0.15:
            del place[key]
        elif roll < 0.3 and type(place[key]) is int:
            place[key] = place[key] * chance.choice((2, 3, -1, 1000, 10_000)) + chance.choice((0, 1))
        elif roll < 0.4:
            place[key] = [place[key]]
        elif roll < 0.5 and isinstance(place, dict):
            place[chance.choice(ESCAPES + EVIL)] = place.pop(key)
        else:
            place[key] = copy.deepcopy(chance.choice(WEIRD))
        return


def scramble(data: bytes, chance: random.Random) -> bytes:
    """Bytes cut, doubled, swapped and replaced."""
    raw = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        if not raw:
            break
        at, roll = chance.randrange(len(raw)), chance.random()
        if roll < 0.3:
            raw[at] = chance.randrange(256)
        elif roll < 0.5:
            del raw[at : at + chance.choice((1, 4, 50))]
        elif roll < 0.7:
            raw[at:at] = raw[at : at + 40] * chance.choice((1, 3, 200))
        elif roll < 0.85:
            raw[at:at] = chance.choice(
                (b"\xff" * 8, b"\0" * 8, b"9" * 40, b"{" * 300, b"\x1b]0;x\x07", b"\xe2\x80\xae")
            )
        else:
            raw[at:] = raw[at:][: chance.choice((0, 10, 1000))]
    return bytes(raw)


def rewrite(text: str, chance: random.Random) -> str:
    """Lines and words of a text moved, doubled and replaced."""
    lines = text.split("\n")
    for _ in range(chance.choice((1, 2, 4, 8))):
        at, roll = chance.randrange(len(lines)), chance.random()
        if roll < 0.25:
            lines.insert(at, chance.choice(lines))
        elif roll < 0.35 and len(lines) > 1:
            del lines[at]
        elif roll < 0.8:
            words = lines[at].split(" ")
            words[chance.randrange(len(words))] = chance.choice((*VALUES, *ESCAPES, *FLAGS, "9" * 300, "1." * 2000))
            lines[at] = " ".join(words)
        elif roll < 0.9:
            lines[at] = lines[at] * chance.choice((2, 50, 2000))
        else:
            lines[at] = f"{chance.choice(('api_key', 'HF_TOKEN', '--api-key', 'password'))}={SECRET} {lines[at]}"
    return "\n".join(lines)[: 2 << 20]


# --- readers ----------------------------------------------------------------------------------------------------------


def config(chance: random.Random) -> dict[str, Any]:
    value: dict[str, Any] = {**copy.deepcopy(BASE), "architectures": [chance.choice(ARCHITECTURES)]}
    value["quantization_config"] = copy.deepcopy(chance.choice(QUANTS))
    if chance.random() < 0.15:
        value = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": value, "vision_config": dict(BASE)}
    for _ in range(chance.choice((1, 1, 2, 4))):
        change(value, chance)
    return value


def on_a_model(chance: random.Random) -> list[str]:
    return chance.choice(
        [["inspect", "m"], ["inspect", "--json", "m"], ["plan", "--gpu", "H100", "--", "vllm", "serve", "m"],
         ["plan", "--json", "--gpu", "2x RTX 4090", "--", "vllm", "serve", "m", "-tp", "2"], ["gpus", "m"],
         ["fit", "m", "--gpu", "RTX 3060"]]
    )  # fmt: skip


def config_input(chance: random.Random) -> Input:
    raw = json.dumps(config(chance)).encode()
    return Input(on_a_model(chance), {"m/config.json": scramble(raw, chance) if chance.random() < 0.15 else raw})


def safetensors_input(chance: random.Random) -> Input:
    names = [f"model.layers.{n}.self_attn.{p}_proj.weight" for n in range(4) for p in "qkvo"]
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    for n, name in enumerate(names):
        header[name] = {"dtype": "BF16", "shape": [64, 64], "data_offsets": [n * 8192, (n + 1) * 8192]}
    for _ in range(chance.choice((1, 2, 5))):
        change(header, chance)
    raw = json.dumps(header).encode()
    size = chance.choice((len(raw), len(raw), 0, 1 << 62, len(raw) + 100, 7))
    body = struct.pack("<Q", size) + raw + bytes(len(names) * 8192)
    model = {**BASE, "architectures": ["LlamaForCausalLM"]}
    files = {"m/config.json": json.dumps(model).encode(), "m/model.safetensors": body}
    if chance.random() < 0.3:
        index: dict[str, Any] = {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(names, "model.safetensors")}
        change(index, chance)
        files["m/model.safetensors.index.json"] = json.dumps(index).encode()
    return Input(on_a_model(chance), files)


def gguf_input(chance: random.Random) -> Input:
    def text(value: bytes) -> bytes:
        return struct.pack("<Q", len(value)) + value

    keys = [
        text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama"),
        text(b"llama.block_count") + struct.pack("<II", 4, 2),
        text(b"llama.embedding_length") + struct.pack("<II", 4, 64),
        text(b"llama.attention.head_count") + struct.pack("<II", 4, 4),
        text(b"llama.context_length") + struct.pack("<II", 4, 2048),
        text(b"llama.feed_forward_length") + struct.pack("<II", 4, 128),
        text(b"tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 70) + text(b"w") * 70,
    ]
    tensors = [text(b"token_embd.weight") + struct.pack("<IqqIQ", 2, 64, 70, 0, 0)]
    raw = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys + tensors)
    words = chance.choice([["inspect", "m.gguf"], ["plan", "--gpu", "RTX 4090", "--", "llama-server", "-m", "m.gguf"]])
    return Input(words, {"m.gguf": scramble(raw, chance) + bytes(20_000)})


def log_input(chance: random.Random) -> Input:
    text = rewrite(chance.choice(sorted(FIXTURES.glob("*.log"))).read_text(), chance)
    options = chance.choice(([], ["--json"], ["--all"], ["--no-plan"], ["--gpu", "RTX 3060"]))
    return Input(["explain", *options, "a.log"], {"a.log": text.encode("utf-8", "surrogatepass")})


def command_input(chance: random.Random) -> Input:
    words = ["vllm", "serve", chance.choice(("Qwen/Qwen3-8B", "Qwen/Qwen3-8B", "m", *VALUES))]
    for _ in range(chance.choice((1, 2, 3, 6))):
        words += [chance.choice(FLAGS), chance.choice(VALUES)]
    if chance.random() < 0.3:
        words = [
            chance.choice(("env", "docker", "nohup", "sudo", "srun", "bash", "xargs")),
            *words,
            f"HF_TOKEN={SECRET}",
        ]
    name = chance.choice((["plan"], ["plan", "--json"], ["plan", "--all"], ["what-if"]))
    gpu = chance.choice(("H100", "2x RTX 4090", "RTX 3060", *VALUES[:12]))
    return Input([*name, "--gpu", gpu.replace("\0", ""), "--", *(w.replace("\0", "") for w in words)], {})


SCRIPTS = {
    "start.sh": "export HF_TOKEN=abc\nM=${MODEL:-Qwen/Qwen3-8B}\nfor i in 1 2; do\n  A=\"$A$A\"\ndone\nvllm serve $M -tp $((1+1)) --seed 1\n",
    "compose.yaml": "x: &a [1, 2]\nservices:\n  vllm:\n    image: vllm/vllm-openai:v0.21.0\n    command: --model Qwen/Qwen3-8B -tp 2\n"
    "    environment:\n      - HF_TOKEN=abc\n      - B=*a\n",
    "pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    image: vllm/vllm-openai\n"
    "    args: ['--model', 'Qwen/Qwen3-8B']\n    env:\n    - {name: HF_TOKEN, value: abc}\n    resources: {limits: {nvidia.com/gpu: 2}}\n",
    "Makefile": "A0=x\nA1=$(A0)$(A0)\nA2=$(A1)$(A1)\nA3=$(A2)$(A2)\nM ?= Qwen/Qwen3-8B # a\nserve: dep\n\tvllm serve $(M) --seed $(A3)\n",
    "Dockerfile": "FROM vllm/vllm-openai:v0.21.0\nARG M=Qwen/Qwen3-8B\nENV HF_TOKEN=abc\nCMD [\"--model\", \"${M:-x}\", \"-tp\", \"2\"]\n",
    "serve.py": "from vllm import LLM\nN = 2 * 1\nllm = LLM(model='Qwen/Qwen3-8B', tensor_parallel_size=N, max_model_len=4096)\n",
    "README.md": "# serve\n```bash\nvllm serve Qwen/Qwen3-8B \\\n  --max-model-len 4096\n```\n",
    "vllm.service": "[Service]\nEnvironment=HF_TOKEN=abc\nExecStart=/usr/bin/vllm serve Qwen/Qwen3-8B -tp 1\n",
}  # fmt: skip


def script_input(chance: random.Random) -> Input:
    name = chance.choice(sorted(SCRIPTS))
    text = rewrite(SCRIPTS[name], chance)
    return Input(["plan", "--gpu", "H100", name], {name: text.encode("utf-8", "surrogatepass")})


def notebook_input(chance: random.Random) -> Input:
    cells = [{"cell_type": "code", "source": ["!vllm serve Qwen/Qwen3-8B ", "--seed 1"], "metadata": {}, "outputs": []},
             {"cell_type": "code", "source": SCRIPTS["serve.py"]}, {"cell_type": "markdown", "source": ["x"]}]  # fmt: skip
    value: dict[str, Any] = {"nbformat": 4, "cells": cells, "metadata": {}}
    for _ in range(chance.choice((1, 2, 4))):
        change(value, chance)
    return Input(["plan", "--gpu", "H100", "a.ipynb"], {"a.ipynb": json.dumps(value).encode()})


def batch_input(chance: random.Random) -> Input:
    cases = []
    for number in range(3):
        case: dict[str, Any] = {"id": number, "gpu": "H100", "args": ["vllm", "serve", "Qwen/Qwen3-8B", "-tp", "1"]}
        change(case, chance)
        cases.append(json.dumps(case))
    return Input(["plan", "--batch", "b.jsonl"], {"b.jsonl": "\n".join(cases).encode("utf-8", "surrogatepass")})


def trace_input(chance: random.Random) -> Input:
    rows = "".join(f"{n * 0.5},{100 + n},{20 + n}\n" for n in range(40))
    text = rewrite("arrival,prompt,output\n" + rows, chance)
    words = ["simulate", "--gpu", "H100", "--trace", "t.csv", "--", "vllm", "serve", "Qwen/Qwen3-8B"]
    return Input(words, {"t.csv": text.encode("utf-8", "surrogatepass")})


class Hub:
    """A hub on this machine whose answers are made by `chance`."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(_hub_answer(self.path, chance)).encode()
                body = scramble(body, chance) if chance.random() < 0.2 else body
                roll = chance.random()
                with suppress(OSError):
                    if roll < 0.1:
                        self.wfile.write(scramble(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", chance))
                        return
                    self.send_response(chance.choice((404, 401, 403, 416, 302)) if roll < 0.25 else 200)
                    self.send_header("Content-Length", str(len(body) + (5 if roll > 0.97 else 0)))
                    self.send_header("Location", "/x/" + chance.choice(("a", "\x1b[2J", "..")))
                    self.send_header("X-Error-Message", "disabled \x9b31m" if roll < 0.2 else "x")
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def _hub_answer(path: str, chance: random.Random) -> Any:
    if path.startswith("/api/"):
        files = [{"rfilename": n, "size": 100} for n in ("config.json", "model.safetensors", "m-Q4_K_M.gguf")]
        value: dict[str, Any] = {"sha": "a" * 40, "id": "org/m", "siblings": files}
        if chance.random() < 0.7:
            change(value, chance)
        return value
    return config(chance)


def hub_input(chance: random.Random) -> Input:
    words = chance.choice((["inspect"], ["inspect", "--json"], ["inspect", "--fresh"]))
    name = chance.choice(("org/m", "org/m@main", "org/m:Q4_K_M", f"http://me:{SECRET}@HUB/x.gguf", "hf.co/org/m"))
    return Input(["--timeout", "5", *words, name], {}, {"HF_ENDPOINT": "HUB", "HF_TOKEN": "hf_" + SECRET})


READERS: dict[str, Callable[[random.Random], Input]] = {
    "config": config_input, "safetensors": safetensors_input, "gguf": gguf_input, "log": log_input, "command": command_input,
    "script": script_input, "notebook": notebook_input, "batch": batch_input, "trace": trace_input, "hub": hub_input,
}  # fmt: skip


# --- running them -----------------------------------------------------------------------------------------------------


def run(case: Input, hub: str) -> Outcome:
    """In a fork of this process, which has imported everything: its own CPU and its own memory are measured."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in case.files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        out = Path(folder, "output")
        child = os.fork()
        if not child:
            _child(case, folder, out, hub)
        end, used = time.monotonic() + WALL_SECONDS, None
        while used is None:
            done, status, usage = os.wait4(child, os.WNOHANG)
            if done:
                used = usage
            elif time.monotonic() > end:
                os.kill(child, 9)
            else:
                time.sleep(0.002)
        code = os.waitstatus_to_exitcode(status)
        return Outcome(
            code, out.read_bytes().decode("utf-8", "replace"), used.ru_utime + used.ru_stime, used.ru_maxrss << 10
        )


def _child(case: Input, folder: str, out: Path, hub: str) -> None:
    from oomph.cli.main import main

    code = 99
    try:
        os.chdir(folder)
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", encoding="utf-8"), os.fdopen(2, "w", encoding="utf-8")
        os.environ.update({"HF_HOME": folder, "no_proxy": "*", "OOMPH_CACHE": folder, "TERM": "xterm"})
        if case.environment:
            _use_hub(case.environment, hub, folder)
        resource.setrlimit(resource.RLIMIT_CPU, (30, 40))
        main([word.replace("HUB", hub.removeprefix("http://")) for word in case.words])
    except SystemExit as done:
        code = int(done.code or 0)
    except BaseException as bug:
        print(f"a bug in oomph (not caught): {bug!r}")
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _use_hub(environment: dict[str, str], hub: str, folder: str) -> None:
    from huggingface_hub import constants

    os.environ.update({name: value.replace("HUB", hub) for name, value in environment.items()})
    constants.ENDPOINT, constants.HF_HUB_CACHE = hub, folder


def complaints(outcome: Outcome, base: int) -> list[str]:
    """What is wrong with how an input ended."""
    wrong = []
    if outcome.cpu > CPU_SECONDS:
        wrong.append(f"{outcome.cpu:.1f} s of CPU")
    if outcome.memory - base > MEMORY:
        wrong.append(f"{(outcome.memory - base) >> 20} MB")
    if outcome.code not in (0, 1, 2, 3, 4):
        wrong.append(f"exit code {outcome.code}")
    if "a bug in oomph" in outcome.text or "Traceback (most recent" in outcome.text.split("\n")[0]:
        wrong.append("a bug")
    if SECRET in outcome.text:
        wrong.append("a secret")
    unseen = [c for c in outcome.text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")]
    if unseen:
        wrong.append(f"control characters {unseen[:3]!r}")
    if outcome.code in (2, 3) and "oomph: error: " in outcome.text and len(outcome.text) > 4000:
        wrong.append(f"a sentence of {len(outcome.text)} characters")
    return wrong


def generate(count: int, seed: int) -> Iterator[tuple[str, Input]]:
    names = list(READERS)
    for number in range(count):
        chance = random.Random(seed * 1_000_003 + number)
        name = names[number % len(names)]
        yield name, READERS[name](chance)


def prepare() -> int:
    """Import what the children need, once. The memory of a child that does nothing."""
    import regex  # type: ignore[import-untyped]  # noqa: F401
    import urllib3  # noqa: F401
    import yaml  # noqa: F401
    from huggingface_hub import constants  # noqa: F401

    return run(Input(["--version"], {}), "http://x").memory


def judge(count: int, seed: int, report: Callable[[str], None] = print) -> int:
    """How many inputs ended badly; each is reported, and the worst of all."""
    base, hub = prepare(), Hub(seed)
    bad, slowest, largest = 0, (0.0, ""), (0, "")
    for number, (name, case) in enumerate(generate(count, seed)):
        outcome = run(case, hub.url)
        slowest, largest = max(slowest, (outcome.cpu, name)), max(largest, (outcome.memory - base, name))
        if wrong := complaints(outcome, base):
            bad += 1
            report(
                f"{seed}:{number} {name} {' '.join(case.words)[:100]!r}: {', '.join(wrong)}: {outcome.text[-200:]!r}"
            )
    report(f"{count} inputs, {bad} bad; slowest {slowest[0]:.2f} s of CPU ({slowest[1]}), "
           f"largest {largest[0] >> 20} MB above an empty run ({largest[1]})")  # fmt: skip
    return bad


# --- the page ---------------------------------------------------------------------------------------------------------


# The searches are left out: each takes seconds, whatever it is given.
PAGE_PATHS = (
    "plan", "plan", "plan", "read", "read", "what_if", "diff", "simulate", "inspect", "explain", "catalog", "progress",
    "nothing",
)  # fmt: skip


def page_request(chance: random.Random) -> tuple[str, str, bytes]:
    """(method, path, body)."""
    case: dict[str, Any] = {
        "model": chance.choice(("Qwen/Qwen3-8B", "/etc/passwd", "../x", "http://127.0.0.1:1/x.gguf", *VALUES)),
        "gpu": chance.choice(("H100", "2x RTX 4090", "99999x H100")), "engine": "vllm==0.21.0", "compile_cache": "cold",
        "flags": {"max_model_len": 8192, "tensor_parallel_size": 1, "api_key": SECRET, "hf_token": SECRET},
        "other": {"engine": "vllm==0.32.0"}, "users": 2, "prompt": 100, "output": 10, "context": "8k",
        "set": {"max_model_len": 4096}, "progress_file": "/tmp/x",
    }  # fmt: skip
    if chance.random() < 0.4:
        case["command"] = f"HF_TOKEN={SECRET} " + " ".join(command_input(chance).words[3:])
    for _ in range(chance.choice((0, 1, 2))):
        change(case, chance)
    path = chance.choice(PAGE_PATHS)
    body = json.dumps(case).encode()
    if path in ("explain", "read") and chance.random() < 0.7:
        body = log_input(chance).files["a.log"]
    elif path == "read":
        body = " ".join(command_input(chance).words).encode("utf-8", "surrogateescape")
    elif chance.random() < 0.2:
        body = scramble(body, chance)
    return chance.choice(("POST", "POST", "POST", "POST", "GET", "PUT")), f"/api/{path}?gpu=H100", body


def judge_page(count: int, seed: int, report: Callable[[str], None] = print) -> int:
    """The same for the page: how many requests were answered badly, and how much memory a worker had at most."""
    import http.client
    import re
    import subprocess

    import psutil

    words = [sys.executable, "-m", "oomph", "ui", "--port", "0", "--no-browser"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": "http://127.0.0.1:1", "no_proxy": "*"}
    bad, largest, slowest = 0, 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([*words, "--root", folder], stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        found = re.search(r":(\d+)/\?token=([\w-]+)", process.stdout.readline())
        assert found
        for number in range(count):
            method, path, body = page_request(random.Random(seed * 1_000_003 + number))
            link = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=130)
            begin = time.monotonic()
            link.request(method, path, body, {"Cookie": f"oomph-{found[1]}={found[2]}", "X-Oomph": "1"})
            answer = link.getresponse()
            text = answer.read().decode("utf-8", "replace")
            if b"Traceback" in body:  # the page quotes the log's own lines: only what was not sent is ours
                text = text.replace("Traceback", "")
            slowest = max(slowest, time.monotonic() - begin)
            outcome = Outcome(0 if answer.status in (200, 400, 404, 405, 504) else answer.status, text, 0.0, 0)
            if wrong := complaints(outcome, 0):
                bad += 1
                report(f"page {seed}:{number} {method} {path} {body[:150]!r}: {', '.join(wrong)}: {text[-200:]!r}")
            workers = psutil.Process(process.pid).children()
            largest = max([largest, *(worker.memory_info().rss for worker in workers)])
        process.terminate()
        process.wait(10)
    report(f"page: {count} requests, {bad} bad; slowest {slowest:.1f} s, largest worker {largest >> 20} MB")
    return bad + (largest > MEMORY)


if __name__ == "__main__":
    if sys.argv[1] == "page":
        sys.exit(1 if judge_page(int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1) else 0)
    sys.exit(1 if judge(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1) else 0)
