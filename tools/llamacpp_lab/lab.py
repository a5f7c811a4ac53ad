"""Random settings of llama-server for GGUF files: oomph's plans first, then what the real llama.cpp holds.

    python tools/llamacpp_lab/lab.py draw SEED COUNT MODELS_DIR > cases.jsonl
    python tools/llamacpp_lab/lab.py predict cases.jsonl MODELS_DIR > predicted.jsonl     # before the run
    python tools/llamacpp_lab/lab.py run cases.jsonl MODELS_DIR LLAMA_LOAD SHIM > real.jsonl
    python tools/llamacpp_lab/lab.py compare predicted.jsonl real.jsonl

README.md says where LLAMA_LOAD and SHIM come from. A file below LOADED is loaded, a larger one is only counted.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from oomph.answers.bare_plan import run as run_plan
from oomph.commands import parse_command
from oomph.engines.llamacpp import planner
from oomph.engines.llamacpp.measure import measure
from oomph.sources.gguf.header import read
from oomph.sources.gpu import parse_gpus
from oomph.units import MIB

LOADED = 1_600_000_000
CARD = 98304  # MiB
BUFFER = re.compile(r"(\S+)\s+(model|KV|RS|output|compute) buffer size =\s+([\d.]+)")
COUNTED = re.compile(r"(Vulkan\d|Host) +(\d+) +(\d+) +(\d+)")
NEUTRAL = "GGML_VK_DISABLE_GRAPH_OPTIMIZE"
Row = dict[str, Any]


def rows_of(path: str) -> list[Row]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def draw(seed: str, count: int, folder: Path) -> None:
    dice = random.Random(seed)
    files = sorted(folder.glob("*.gguf"))
    dice.shuffle(files)
    for number in range(count):
        path = files[number % len(files)]
        print(json.dumps({"id": f"{path.stem}/{seed}{number}", "family": path.stem, **settings(dice, path)}))


def settings(dice: random.Random, path: Path) -> Row:
    file = read(path)
    meta = {key.partition(".")[2]: value for key, value in file.metadata.items()}
    layers, slots = int(str(meta["block_count"])), dice.choice((0, 1, 1, 2, 4, 8))
    encoder = "bert" in file.architecture or "embed" in file.architecture
    gpus, flash = dice.choice((1, 1, 1, 1, 2, 2, 3)), dice.choice(("", "", "", "off", "on"))
    words = ["--embeddings"] if encoder else []
    words += ["-c", str(dice.choice((2048, 4096, 8192, 12000, 16384, 32768, 65536)))]
    words += ["-np", str(slots)] if slots else []
    words += ["-kvu"] if slots > 1 and dice.random() < 0.4 else []
    micro = dice.choice((0, 0, 0, 128, 256, 1024, 2048))
    words += ["-ub", str(micro)] if micro else []
    words += ["-b", str(dice.choice((256, 512, 1024, 4096)))] if dice.random() < 0.2 else []
    words += ["-fa", flash] if flash else []
    if not encoder and dice.random() < 0.35:
        words += cache_types(dice, quantised_values=flash != "off")
    words += pooling(dice, encoder=encoder)
    words += placement(dice, layers, gpus, routed="expert_count" in meta)
    words += ["-nkvo"] if dice.random() < 0.08 else []
    words += ["--no-op-offload"] if dice.random() < 0.1 else []
    words += ["--swa-full"] if "attention.sliding_window" in meta and dice.random() < 0.25 else []
    if gpus > 1 and dice.random() < 0.4:
        words += ["-ts", ",".join(str(dice.randint(1, 4)) for _ in range(gpus))]
    if gpus > 1 and dice.random() < 0.15:
        words += ["-sm", "none", "-mg", str(dice.randrange(gpus))]
    return {"flags": [*words, "-fit", "off"], "gpus": gpus, "mib": CARD, "opt": dice.random() < 0.5}


def cache_types(dice: random.Random, *, quantised_values: bool) -> list[str]:
    """Keys and values alike or not, or keys alone; quantised values need flash attention."""
    keys = dice.choice(("q8_0", "q4_0", "q5_1", "q5_0", "q4_1", "iq4_nl", "bf16", "f32"))
    if dice.random() < 0.25:
        return ["-ctk", keys]
    values = dice.choice((keys, "q8_0", "f16")) if quantised_values else dice.choice(("f16", "bf16", "f32"))
    return ["-ctk", keys, "-ctv", values]


def pooling(dice: random.Random, *, encoder: bool) -> list[str]:
    chance = dice.random()
    if encoder:
        return ["--pooling", dice.choice(("mean", "cls", "last"))] if chance < 0.5 else []
    if chance < 0.08:
        return ["--embeddings", "--pooling", dice.choice(("mean", "last", "none"))]
    return []


def placement(dice: random.Random, layers: int, gpus: int, *, routed: bool) -> list[str]:
    chance, whole = dice.random(), ["-ngl", dice.choice(("99", "99", "all"))]
    if routed and chance < 0.45:
        some = [dice.choice(("--n-cpu-moe", "-ncmoe")), str(dice.randint(1, layers))]
        return [*dice.choice((["--cpu-moe"], some, some)), *whole]
    if chance < 0.6:
        return ["-ngl", str(dice.randint(0, layers))]
    if chance < 0.72:
        rules = [
            r"ffn_(up|down)\.weight=CPU",
            r"blk\.[0-2]\..*=CPU",
            "attn_.*=CPU",
            "output.weight=CPU",
            r"blk\.1\.ffn.*=CPU,token_embd.*=CPU",
        ]
        other = f"Vulkan{gpus - 1}"
        rules += [rf"blk\.[0-2]\.={other}", rf"blk\.0\.ffn.*={other},blk\.1\.attn.*=CPU"] if gpus > 1 else []
        return [*whole, "-ot", dice.choice(rules)]
    return whole


def is_counted(row: Row, folder: Path) -> bool:
    return (folder / f"{row['family']}.gguf").stat().st_size >= LOADED


def predict(cases: str, folder: Path) -> None:
    for row in rows_of(cases):
        vars(planner)["measure"] = partial(measure, fitting=True) if is_counted(row, folder) else measure
        vars(planner)["free_beside"] = lambda _, free: free  # the software device always says that it is empty
        device = ["-dev", ",".join(f"Vulkan{index}" for index in range(row["gpus"]))]
        command = ["llama-server", "-m", str(folder / f"{row['family']}.gguf"), *row["flags"], *device]
        deployment = parse_command(command, engine="llama.cpp==v0.5.0")
        environment = {**deployment.environment, **({} if row["opt"] else {NEUTRAL: "1"})}
        gpus = tuple(parse_gpus(f"{row['gpus']}x{CARD // 1024}GiB"))
        plan = run_plan(replace(deployment, gpus=gpus, environment=environment))
        buffers = {
            f"Vulkan{index} {kind}": sum(rank.terms[term].bytes for term in terms) / MIB
            for index, rank in enumerate(plan.ranks)
            for kind, terms in (("model", ("weights",)), ("context", ("kv_cache", "state")), ("compute", ("compute",)))
        }
        host = {"host compute": plan.resolved["host"]["compute"] / MIB} if plan.ranks else {}
        print(json.dumps({"id": row["id"], "refused": plan.verdict.message, "buffers": {**buffers, **host}}))


def run(cases: str, folder: Path, program: str, shim: str) -> None:
    for row in rows_of(cases):
        counted = is_counted(row, folder)
        environment = {
            **os.environ, "LD_PRELOAD": shim, "CARD_MIB": str(row["mib"]),
            "GGML_VK_VISIBLE_DEVICES": ",".join("0" * row["gpus"]), **({} if row["opt"] else {NEUTRAL: "1"}),
            **({"COUNT_ONLY": "1"} if counted else {}),
        }  # fmt: skip
        command = [program, "-m", str(folder / f"{row['family']}.gguf"), *row["flags"], "-lv", "4", "--no-warmup"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", timeout=300)
        lines = (done.stdout + "\n" + done.stderr).splitlines()
        real = [line for line in lines if BUFFER.search(line) or COUNTED.match(line)]
        print(json.dumps({**row, "kind": "measured" if counted else "load", "rc": done.returncode, "real": real}))


def real_buffers(row: Row) -> dict[str, float]:
    buffers: Counter[str] = Counter()
    for line in row["real"]:
        if counted := COUNTED.match(line):
            kinds = zip(("model", "context", "compute"), counted.groups()[1:], strict=True)
            host = counted[1] == "Host"
            for kind, size in kinds:
                if not host or kind == "compute":
                    buffers[f"{'host' if host else counted[1]} {kind}"] += int(size)
        elif match := BUFFER.search(line):
            kind = {"KV": "context", "RS": "context"}.get(match[2], match[2])
            on_gpu = re.match(r"Vulkan\d", match[1]) is not None
            if on_gpu or kind == "compute":
                buffers[f"{match[1] if on_gpu else 'host'} {kind}"] += float(match[3])  # type: ignore[assignment]
    return dict(buffers)


def compare(predicted: str, real: str) -> None:
    plans = {row["id"]: row for row in rows_of(predicted)}
    count: Counter[str] = Counter()
    for row in rows_of(real):
        measured = real_buffers(row)
        if not any("compute" in name for name in measured):
            print(row["id"], "failed; planned:", plans[row["id"]]["refused"] or "starts")
            continue
        for name, value in plans[row["id"]]["buffers"].items():
            size = measured.get(name, 0.0)
            ours = float(int(value)) if row["kind"] == "measured" else value
            where = "host" if name.startswith("host") else "gpu"
            count[where] += 1
            if abs(ours - size) <= max(1.001, (0.05 if where == "host" else 0.01) * size):
                count[f"{where} within"] += 1
                continue
            count[f"{where} below"] += ours < size
            print(row["id"], name, f"real {size:.2f}, planned {ours:.2f}", *row["flags"], f"{row['gpus']} GPUs")
    print(dict(count))


if __name__ == "__main__":
    step, *words = sys.argv[1:]
    if step == "draw":
        draw(words[0], int(words[1]), Path(words[2]))
    elif step == "predict":
        predict(words[0], Path(words[1]))
    elif step == "run":
        run(words[0], Path(words[1]), words[2], words[3])
    else:
        compare(words[0], words[1])
