"""oomph, hf-mem and kvfit on the same model through the same hub on 127.0.0.1, side by side.

    python tools/bench_hub.py [--rivals VENV] [--runs N]

VENV is a virtual environment into which hf-mem and kvfit have been installed by hand (pip install hf-mem kvfit); their
addresses of the hub are fixed, so that a copy is run in which they point at ours. Without it only oomph is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "sources"))
from loopback_hub import LoopbackHub, Sparse

REPO = "bench/llama-8b"
# The geometry of Llama 3.1 8B: 291 tensors, 16 GB, four shards.
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256,
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "hidden_act": "silu",
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 128000, "eos_token_id": 128001,
}  # fmt: skip
LAYER = {
    "self_attn.q_proj": [4096, 4096], "self_attn.k_proj": [1024, 4096], "self_attn.v_proj": [1024, 4096],
    "self_attn.o_proj": [4096, 4096], "mlp.gate_proj": [14336, 4096], "mlp.up_proj": [14336, 4096],
    "mlp.down_proj": [4096, 14336], "input_layernorm": [4096], "post_attention_layernorm": [4096],
}  # fmt: skip


def shard(tensors: dict[str, list[int]]) -> Sparse:
    entries, at = {}, 0
    for name, shape in tensors.items():
        size = 2
        for dim in shape:
            size *= dim
        entries[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    raw = json.dumps(entries).encode()
    return Sparse(len(raw).to_bytes(8, "little") + raw, 8 + len(raw) + at)


def model(shards: int = 4) -> dict[str, bytes | Sparse]:
    tensors = {"model.embed_tokens.weight": [128256, 4096]}
    for n in range(32):
        tensors |= {f"model.layers.{n}.{name}.weight": shape for name, shape in LAYER.items()}
    tensors |= {"model.norm.weight": [4096], "lm_head.weight": [128256, 4096]}
    names = list(tensors)
    files: dict[str, bytes | Sparse] = {}
    weight_map: dict[str, str] = {}
    for s in range(shards):
        part = names[s * len(names) // shards : (s + 1) * len(names) // shards]
        file = f"model-{s + 1:05}-of-{shards:05}.safetensors"
        files[file] = shard({n: tensors[n] for n in part})
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": 16060522496}, "weight_map": weight_map}
    return {
        "config.json": json.dumps(CONFIG).encode(),
        "model.safetensors.index.json": json.dumps(index).encode(),
        **files,
    }


def point_at(venv: Path, hub: str, into: Path) -> None:
    """A copy of the rivals' code that asks our hub."""
    for package in ("hf_mem", "kvfit"):
        found = next(iter(venv.glob(f"lib/python3*/site-packages/{package}")), None)
        if found is None:
            continue
        shutil.copytree(found, into / package, ignore=shutil.ignore_patterns("__pycache__"))
        for file in (into / package).rglob("*.py"):
            file.write_text(file.read_text().replace("https://huggingface.co", hub))
    subprocess.run([sys.executable, "-m", "compileall", "-q", into], check=True)


class Program(NamedTuple):
    command: list[str]
    environment: dict[str, str]


class Result(NamedTuple):
    seconds: float
    requests: float
    kilobytes: float


def measure(programs: dict[str, Program], hub: LoopbackHub, runs: int) -> dict[str, Result]:
    """Medians. The programs take turns, so that whatever else the machine does hits them alike."""
    times: dict[str, list[float]] = {name: [] for name in programs}
    asked, sent = dict.fromkeys(programs, 0), dict.fromkeys(programs, 0)
    for n in range(runs + 1):
        for name in list(times):
            hub.seen.clear()
            hub.sent = 0
            begin = time.perf_counter()
            command, environment = programs[name]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            seconds = time.perf_counter() - begin
            if done.returncode:
                print(f"{name:16} fails: {''.join((done.stderr or done.stdout).strip().splitlines()[-1:])}")
                del times[name]
            elif n:  # the first run warms the disk
                times[name].append(seconds)
                asked[name] += len(hub.seen)
                sent[name] += hub.sent
    median = statistics.median
    return {name: Result(median(t), asked[name] / runs, sent[name] / runs / 1000) for name, t in times.items()}


def rivals(venv: Path | None, hub: LoopbackHub, folder: Path, environment: dict[str, str]) -> dict[str, Program]:
    arguments = {"hf-mem": ["--model-id", REPO, "--experimental"], "kvfit": [REPO, "--hardware", "h100-80"]}
    there = {} if venv is None else {n: a for n, a in arguments.items() if (venv / "bin" / n).exists()}
    for name in arguments.keys() - there.keys():
        print(f"{name:16} is not there (--rivals VENV): not compared")
    if venv is not None and there:
        point_at(venv, hub.url, folder)
    theirs = {**environment, "PYTHONPATH": str(folder)}
    return {name: Program([str((venv or folder) / "bin" / name), *a], theirs) for name, a in there.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rivals", type=Path, default=os.environ.get("OOMPH_RIVALS"))
    parser.add_argument("--runs", type=int, default=7)
    given = parser.parse_args()
    with LoopbackHub() as hub, tempfile.TemporaryDirectory() as folder:
        hub.add(REPO, model())
        # Installed programs have their bytecode beside them; a checkout gets it in its first run, unless forbidden.
        unwanted = ("HF_TOKEN", "PYTHONDONTWRITEBYTECODE")
        environment = {n: v for n, v in os.environ.items() if not n.lower().endswith("_proxy") and n not in unwanted}
        environment |= {"HF_ENDPOINT": hub.url, "HF_HOME": f"{folder}/home", "NO_COLOR": "1"}
        venv = given.rivals and Path(given.rivals).resolve()
        programs = {
            "python -c pass": Program([sys.executable, "-c", "pass"], environment),
            "oomph inspect": Program([str(Path(sys.executable).parent / "oomph"), "inspect", REPO], environment),
            **rivals(venv, hub, Path(folder, "rivals"), environment),
        }
        results = measure(programs, hub, given.runs)
    base = results["python -c pass"].seconds
    print(f"{'':16}{'seconds':>9}{'x pass':>9}{'requests':>10}{'KB':>8}")
    for name, r in results.items():
        print(f"{name:16}{r.seconds:9.3f}{r.seconds / base:8.1f}x{r.requests:10.0f}{r.kilobytes:8.0f}")
    ours = results.get("oomph inspect")
    others = [r.seconds for name, r in results.items() if name in ("hf-mem", "kvfit")]
    return 0 if ours is not None and all(ours.seconds < other for other in others) else 1


if __name__ == "__main__":
    sys.exit(main())
