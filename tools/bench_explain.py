"""bench_explain.py [--megabytes N] [--place SHARE] [--profile] [KIND...]: speed and memory of explaining a long log.

    python tools/bench_explain.py                     200 MB of each kind, died in the middle
    python tools/bench_explain.py --megabytes 1000 mix
    python tools/bench_explain.py --profile mix       where the time goes

User and system time of the process, less that of a short log with the same failure, which is what starting takes; the
most memory that it had. Exit code 1 where a kind is slower than it may be, or explained otherwise than the short log.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "logs"))
import long_logs  # noqa: E402

RATE = 135.0  # MB/s of CPU time, at least
MEMORY = 128 << 20  # bytes, at most
SHORT = 100_000  # bytes of a log that is kept whole


def explain(path: str) -> tuple[float, int, dict[str, Any]]:
    """CPU seconds, peak memory and the answer of one process."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"NO_COLOR": "1"}
    oomph = str(Path(sys.executable).parent / "oomph")
    process = subprocess.Popen(
        [oomph, "explain", "--json", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    printed = process.stdout.read() if process.stdout is not None else b""
    _, _, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10, json.loads(printed or b"{}")


def write(path: str, kind: str, size: int, options: argparse.Namespace) -> None:
    with open(path, "wb") as file:
        for piece in long_logs.log(kind, size, options.place, options.seed):
            file.write(piece)


def in_short(answer: dict[str, Any]) -> str:
    cause = answer.get("cause") or {}
    return f"failed: {answer.get('failed')}, {answer.get('stage')}, {cause.get('id')}"


def profile(path: str) -> None:
    import cProfile
    import pstats

    from oomph.doctor.explain import explain as explain_here

    recorded = cProfile.Profile()
    begin = time.process_time()
    recorded.runcall(explain_here, [path], plan=False)
    print(f"{time.process_time() - begin:.2f} s, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")
    pstats.Stats(recorded).sort_stats("tottime").print_stats(30)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=list(long_logs.KINDS), metavar="KIND")
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--place", type=float, default=long_logs.MIDDLE)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    slow = 0
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "server.log")
        for kind in options.kinds:
            write(path, kind, SHORT, options)
            start, _, short = explain(path)
            write(path, kind, options.megabytes * 10**6, options)
            if options.profile:
                profile(path)
                continue
            size = os.path.getsize(path)
            seconds, memory, answer = explain(path)
            rate = size / 1e6 / max(seconds - start, 1e-9)
            good = rate >= RATE and memory <= MEMORY and in_short(answer) == in_short(short)
            slow += not good
            print(
                f"{kind:12} {rate:6.0f} MB/s  {seconds:6.2f} s ({start:.2f} to start)  {memory >> 20:4} MiB  "
                f"{in_short(answer)}{'' if good else f'  <- not as it must be; of a short log {in_short(short)}'}",
                flush=True,
            )
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
