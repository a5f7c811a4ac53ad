"""bench_fit.py [--exhaustive]: how long a fit takes, plans a second, and what the same grid would cost planned whole.

CPU seconds of this process, one core, with nothing cached: each case runs in its own process. A fit may take 2 s.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

LIMIT = 2.0
Case = tuple[str, str, int, int, tuple[str, ...]]
CASES: tuple[Case, ...] = (
    ("Qwen/Qwen3-8B", "2x RTX 4090", 32768, 4, ()),
    ("google/gemma-4-31B-it", "2x RTX 5070 Ti", 8192, 0, ()),
    ("Qwen/Qwen3.6-27B", "RTX 5090", 16384, 0, ()),
    ("meta-llama/Llama-3.1-8B-Instruct", "4x L4", 32768, 8, ("Qwen/Qwen3-8B",)),
    ("openai/gpt-oss-120b", "8x H100", 131072, 16, ()),
)


def one(model: str, gpu: str, context: int, users: int, also: tuple[str, ...], exhaustive: bool) -> dict[str, Any]:
    begin = time.process_time()
    from oomph.answers.plan import run
    from oomph.search.fit import fit
    from oomph.search.request import Spaces, Want, base_of, models_of
    from oomph.search.solve import Solver
    from oomph.sources.gpu import parse_gpus

    gpus = parse_gpus(gpu)
    want = Want(context, users)
    found = fit(model, gpus, want, also=also)
    took = time.process_time() - begin
    base, _ = base_of(model, gpus, "")
    models, _ = models_of(base, False, also)
    spaces = Spaces(models, gpus, want, base)
    space = spaces.space(context, users)
    grid = len(space.arms) * len(space.contexts) * len(space.users) * len(space.utilisations)
    rate = 0.0
    if exhaustive:  # a sample of the grid, warm: what each plan of the whole would cost
        solver = Solver(base, models, run, spaces.default)
        sample = [(a, c) for a in space.arms[:: max(1, len(space.arms) // 40)] for c in space.contexts]
        for a, c in sample:
            solver.outcome(a, c, space.users[0], spaces.default)
        begin = time.process_time()
        for a, c in sample:
            solver.outcome(a, c, space.users[-1], spaces.default)
        rate = len(sample) / (time.process_time() - begin)
    return {
        "checkpoints": len(models), "arms": len(space.arms), "seconds": took, "plans": found.plans, "grid": grid,
        "front": len(found.front), "grid_rate": rate,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exhaustive", action="store_true", help="also time plans of the whole grid")
    parser.add_argument("--case", type=int, default=-1, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case >= 0:
        case: Case = CASES[given.case]
        print(json.dumps(one(*case, given.exhaustive)))
        return 0
    head = f"{'':<44}{'checkpoints':>12}{'arms':>6}{'front':>7}{'plans':>7}{'s':>7}{'plans/s':>9}{'whole grid':>13}"
    print(head + (f"{'its hours':>11}" if given.exhaustive else ""))
    late = False
    for n, (model, gpu, context, users, _) in enumerate(CASES):
        more = ["--exhaustive"] if given.exhaustive else []
        done = subprocess.run([sys.executable, __file__, "--case", str(n), *more], capture_output=True, text=True)
        if done.returncode:
            print(done.stderr)
            return 1
        r = json.loads(done.stdout)
        late |= r["seconds"] > LIMIT
        name = f"{model.rpartition('/')[2]} on {gpu}, {context // 1024}k x {users or 'any'}"
        line = f"{name:<44}{r['checkpoints']:>12}{r['arms']:>6}{r['front']:>7}{r['plans']:>7}{r['seconds']:>7.2f}"
        line += f"{r['plans'] / r['seconds']:>9.0f}{r['grid']:>13,}"
        print(line + (f"{r['grid'] / r['grid_rate'] / 3600:>11.1f}" if given.exhaustive else ""))
    if late:
        print(f"a fit takes longer than {LIMIT:g} s of CPU")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
