"""bench.py [--runs N] [--rivals VENV]: how long oomph takes, as ratios to a bare `python -c pass` in the same run.

The programs take turns, so that whatever else the machine does hits them alike; medians are printed. The budgets are
those of docs/structure.md; one that is exceeded ends in exit code 1. With VENV (or OOMPH_RIVALS), where hf-mem and
kvfit are installed, tools/bench_hub.py compares them on the same model through the same hub on 127.0.0.1.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import making  # noqa: E402

LLAMA_8B = making.LLAMA | {
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
}  # fmt: skip


def programs(folder: Path) -> dict[str, tuple[list[str], float | None]]:
    """name -> (command, the most that it may take in units of `python -c pass`)."""
    oomph = str(Path(sys.executable).parent / "oomph")
    model = str(folder)
    return {
        "python -c pass": ([sys.executable, "-c", "pass"], None),
        "oomph --help": ([oomph, "--help"], 6),
        "oomph inspect FOLDER": ([oomph, "inspect", model], 12),
        "oomph inspect FOLDER --json": ([oomph, "inspect", model, "--json"], 12),
        "oomph inspect NAME": ([oomph, "inspect", "gemma-4-31b nvfp4"], 12),
        "oomph vllm serve FOLDER": ([oomph, "--gpu", "RTX 4090", "vllm", "serve", model], None),
    }


def measure(found: dict[str, tuple[list[str], float | None]], runs: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in found}
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"NO_COLOR": "1"}
    for n in range(runs + 1):
        for name, (command, _) in found.items():
            begin = time.perf_counter()
            done = subprocess.run(command, capture_output=True, env=environment)
            took = time.perf_counter() - begin
            if done.returncode > 1:
                print(f"{name}: exit {done.returncode}: {done.stderr.decode().strip()[:200]}")
            if n:  # the first round warms the disk
                times[name].append(took)
    return {name: statistics.median(t) for name, t in times.items()}


def deployments(folder: Path, count: int = 2000) -> float:
    """Seconds of CPU for the exact part of one plan: settings, weights on a rank, the KV cache."""
    from msgspec.structs import replace

    from oomph.answers.plan import load, parse, with_gpus
    from oomph.engines.common.ranks import Rank
    from oomph.engines.vllm.kv.cache import kv
    from oomph.engines.vllm.run import Run
    from oomph.engines.vllm.weights.loaded import weights_terms

    model = load(str(folder))
    base = with_gpus(parse(["vllm", "serve", str(folder)], "vllm==0.21.0"), "2x H100")
    begin = time.process_time()
    for i in range(count):
        flags = {"tensor_parallel_size": 1 + i % 2, "max_model_len": 1024 + 16 * i, "max_num_seqs": 1 + i % 512}
        dep = replace(base, flags=flags)
        run = Run(model, dep)
        weights_terms(run, Rank(0, 0, 0, dep.gpus[0]))
        kv(run.settings, 20 << 30)
    return (time.process_time() - begin) / count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--rivals", default=os.environ.get("OOMPH_RIVALS", ""))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = making.folder(Path(scratch) / "llama-8b", LLAMA_8B, making.tensors_of(LLAMA_8B), shards=4)
        found = programs(folder)
        seconds = measure(found, given.runs)
        inside = deployments(folder)
    base = seconds["python -c pass"]
    late = []
    print(f"{'':<30}{'ms':>8}{'x pass':>9}{'at most':>9}")
    for name, took in seconds.items():
        most = found[name][1]
        late += [name] if most is not None and took > most * base else []
        print(f"{name:<30}{took * 1000:>8.1f}{took / base:>8.1f}x{'' if most is None else f'{most:>8}x'}")
    for name in late:
        print(f"{name} takes longer than it may")
    print()
    each = f"{inside * 1000:.2f} ms"
    print(f"weights and KV of one deployment, model loaded: {each} (at most 1)")
    print("(importing vLLM alone costs 20 to 30 s)\n")
    hub = subprocess.run(
        [sys.executable, ROOT / "tools" / "bench_hub.py", *(["--rivals", given.rivals] * bool(given.rivals))]
    )
    return 1 if late or hub.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
