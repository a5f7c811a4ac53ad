"""learn_prose.py [--reports FILE...] [--judge HALF] [--write]: how people speak of a failure in each stage, learned.

Multinomial logistic regression on hashed n-grams (doctor/reading/prose.py has the features) of the paraphrases of
tests/truth and of FILEs with labelled reports, of which only the weights are kept. --judge HALF learns from what was
written before that half of the paraphrases and judges it: that is how the figures of docs/accuracy.md were made.
--write stores it.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oomph.doctor.reading.meanings import ORDER
from oomph.doctor.reading.prose import HASHES, hashed_grams, words_of
from oomph.logs.clean import lines as clean_lines
from oomph.logs.reader import read_text

ROOT = Path(__file__).parents[1]
STORED = ROOT / "src" / "oomph" / "doctor" / "reading" / "prose.json"
HALVES = ("worked on", "judged once", "judged later", "judged last", "judged afresh")
# chosen by five folds of what there was before each half that was judged
PENALTY, TEMPERATURE, STEPS, RATE = 3e-4, 0.6, 150, 3.0
Row = dict[str, Any]
Floats = NDArray[np.float32]


def paraphrases() -> list[Row]:
    text = (ROOT / "tests" / "truth" / "paraphrases.jsonl").read_text(encoding="utf-8")
    return [row for row in map(json.loads, text.splitlines()) if row["failed"] and row["stage"] in ORDER]


def reports(path: Path) -> list[Row]:
    rows = []
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        label = row["label"]
        if label["failed"] and label.get("stage_tellable") and label["stage"] in ORDER:
            rows.append({"text": row["text"], "stage": label["stage"], "also": label["stage_also"], "half": ""})
    return rows


def features(rows: list[Row]) -> Floats:
    table = np.zeros((len(rows), HASHES + 1), dtype=np.float32)
    table[:, HASHES] = 1
    for number, row in enumerate(rows):
        lines = clean_lines(read_text(row["text"] + "\n").lines)
        hashes = sorted(hashed_grams(words_of(lines)))
        table[number, hashes] = 1 / max(1, len(hashes)) ** 0.5
    return table


def probabilities(weights: Floats, table: Floats, temperature: float) -> Floats:
    scores = table @ weights / temperature
    shares: Floats = np.exp(scores - scores.max(1, keepdims=True))
    chances: Floats = shares / shares.sum(1, keepdims=True)
    return chances


def learn(rows: list[Row]) -> Floats:
    """Gradient descent with momentum, the same steps each time: nothing is drawn."""
    table = features(rows)
    truth = np.array([[stage == row["stage"] for stage in ORDER] for row in rows], dtype=np.float32)
    weights = np.zeros((HASHES + 1, len(ORDER)), dtype=np.float32)
    momentum = np.zeros_like(weights)
    for _ in range(STEPS):
        wrong = probabilities(weights, table, 1.0) - truth
        momentum = 0.9 * momentum + table.T @ wrong / len(rows) + PENALTY * weights
        weights -= RATE * momentum
    return weights


def judge(half: str, more: list[Row]) -> None:
    before = [row for row in paraphrases() if HALVES.index(row["half"]) < HALVES.index(half)] + more
    fresh = [row for row in paraphrases() if row["half"] == half]
    chances = probabilities(learn(before), features(fresh), TEMPERATURE)
    right = np.array([[stage in {row["stage"], *row["also"]} for stage in ORDER] for row in fresh])
    first = right[np.arange(len(fresh)), chances.argmax(1)].sum()
    loss = -np.log((chances * right).sum(1)).mean()
    print(f"{half}: {first} of {len(fresh)} right, log-loss {loss:.2f}, from {len(before)} texts before it")


def store(weights: Floats) -> None:
    unit = float(np.abs(weights).max() / 127)
    whole = np.round(weights / unit).astype(np.int8)
    packed = base64.b85encode(whole.tobytes()).decode()
    STORED.write_text(json.dumps({"stages": ORDER, "unit": round(unit / TEMPERATURE, 8), "weights": packed}) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--reports", type=Path, nargs="*", default=[])
    parser.add_argument("--judge", choices=HALVES[1:])
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    more = [row for path in given.reports for row in reports(path)]
    if given.judge:
        judge(given.judge, more)
    if given.write:
        store(learn([*paraphrases(), *more]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
