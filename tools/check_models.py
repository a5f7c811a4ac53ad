"""check_models.py [CARD...]: what `oomph models` says of thirty cards, from 6 GB to eight B200.

Each card in its own process, with its CPU seconds: the first five commands are planned again from their text, no line
may stand behind one that it beats in everything, and a card may take two seconds.
"""

from __future__ import annotations

import json
import subprocess
import sys

CARDS = (
    "RTX 2060", "GTX 1660 Ti", "RTX 3050 6GB", "RTX 4060", "RTX 3070", "RTX 3080 10GB", "RTX 2080 Ti",
    "RTX 3060 12GB", "RTX 5070", "T4", "RTX 4060 Ti 16GB", "RTX 5070 Ti", "RTX 4080 SUPER", "RTX 3090", "RTX 4090",
    "L4", "A10G", "RTX 5090", "V100 SXM2 32GB", "A100 SXM 40GB", "RTX A6000", "L40S", "RTX PRO 6000", "A100 SXM 80GB",
    "H100 SXM", "H200", "2x RTX 3090", "4x L40S", "8x H100 SXM", "8x B200",
)  # fmt: skip
LIMIT = 2.0


def one(card: str) -> dict[str, object]:
    import time

    begin = time.process_time()
    import oomph

    answer = oomph.models(card)
    answer.text()
    seconds = time.process_time() - begin
    outcomes = [oomph.plan(pick.command, gpu=card, advise=False).verdict.outcome for pick in answer.picks[:5]]
    worth = [(p.quality.rank, p.speed.one_user if p.speed else 0.0, p.context, p.capacity) for p in answer.picks]
    beaten = sum(
        later != earlier and all(x >= y for x, y in zip(later, earlier, strict=True))
        for place, earlier in enumerate(worth)
        for later in worth[place + 1 :]
    )
    first = answer.picks[0] if answer.picks else None
    return {
        "seconds": seconds, "outcomes": outcomes, "beaten": beaten, "plans": answer.plans,
        "first": f"{first.model} {first.quantization} {first.engine} {first.context:,}" if first else "",
    }  # fmt: skip


def main() -> int:
    cards = sys.argv[1:] or CARDS
    bad = 0
    slowest = 0.0
    for card in cards:
        code = f"import json, check_models; print(json.dumps(check_models.one({card!r})))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=sys.path[0] or ".")
        if done.returncode:
            print(f"{card:18} {done.stderr.splitlines()[-1] if done.stderr else done.returncode}")
            bad += 1
            continue
        row = json.loads(done.stdout)
        wrong = any(outcome != "fits" for outcome in row["outcomes"]) or row["beaten"] or row["seconds"] > LIMIT
        bad += bool(wrong)
        slowest = max(slowest, row["seconds"])
        fits = f"{row['outcomes'].count('fits')} of {len(row['outcomes'])} fit"
        print(
            f"{card:18}{row['seconds']:6.2f} s  {fits}  {row['beaten']} beaten  {row['plans']:4} plans  {row['first']}"
        )
    print(f"{len(cards)} cards, {bad} with something wrong, {slowest:.2f} s of CPU at most")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
