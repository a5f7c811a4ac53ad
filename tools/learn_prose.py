"""learn_prose.py [--reports FILE...] [--judge HALF] [--write]: how people speak of a failure in each stage, learned.

Multinomial logistic regression on hashed n-grams (doctor/reading/prose.py has the features) of the texts of
tests/truth/told.jsonl and paraphrases.jsonl and of FILEs with labelled reports, of which only the weights are kept.
--judge HALF learns from what was written before that half of the paraphrases and judges it: that is how the figures of
docs/accuracy.md were made. --write stores it: the stage, and what a text is about (a lack of memory, another failure,
nothing that failed), of which there are few of one kind, so that each text of it counts more.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oomph.doctor.reading.meanings import ORDER
from oomph.doctor.reading.prose import HASHES, hashed_grams, words_of
from oomph.logs.clean import lines as clean_lines
from oomph.logs.documents import is_prose
from oomph.logs.reader import read_text

ROOT = Path(__file__).parents[1]
STORED = ROOT / "src" / "oomph" / "doctor" / "reading" / "prose.json"
HALVES = ("worked on", "judged once", "judged later", "judged last", "judged afresh", "judged on 19 November",
          "judged in the afternoon of 19 November", "judged at the end of 19 November",
          "judged in the evening of 19 November", "judged last on 19 November",
          "judged behind all on 19 November", "judged on 20 November", "judged later on 20 November",
          "judged last on 20 November", "judged behind all on 20 November")  # fmt: skip
TOLD_BEFORE = "judged at the end of 19 November"  # told.jsonl was written before this half
ABOUT = ("memory", "other", "none")
# chosen by five folds of what there was before each half that was judged
PENALTY, TEMPERATURE, STEPS, RATE = 3e-4, 0.6, 150, 3.0
Row = dict[str, Any]
Floats = NDArray[np.float32]


def texts(name: str) -> list[Row]:
    lines = (ROOT / "tests" / "truth" / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def about(row: Row) -> str:
    short = row["memory"] in ("gpu", "host")
    return "none" if not row["failed"] else "memory" if short else "other"


def staged(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["failed"] and row["stage"] in ORDER]


def questions() -> list[Row]:
    """What people ask before they start anything: on the same things as a failure, and none."""
    return [{"text": row["question"], "failed": False, "memory": "none"} for row in texts("questions.jsonl")]


def reports(path: Path) -> list[Row]:
    rows = []
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        label = row["label"]
        if label["failed"] and label.get("stage_tellable"):
            rows.append({"text": row["text"], "failed": True, "stage": label["stage"], "also": label["stage_also"]})
    return rows


def features(rows: list[Row], prose: bool = False) -> Floats:
    table = np.zeros((len(rows), HASHES + 1), dtype=np.float32)
    table[:, HASHES] = 1
    for number, row in enumerate(rows):
        lines = clean_lines(read_text(row["text"] + "\n").lines)
        lines = tuple(line for line in lines if is_prose(line)) if prose else lines
        hashes = sorted(hashed_grams(words_of(lines)))
        table[number, hashes] = 1 / max(1, len(hashes)) ** 0.5
    return table


def probabilities(weights: Floats, table: Floats, temperature: float) -> Floats:
    scores = table @ weights / temperature
    shares: Floats = np.exp(scores - scores.max(1, keepdims=True))
    chances: Floats = shares / shares.sum(1, keepdims=True)
    return chances


def learn(table: Floats, names: list[str], choices: Sequence[str], even: bool = False) -> Floats:
    """Gradient descent with momentum, the same steps each time: nothing is drawn. `even`: rare names count more."""
    truth = np.array([[choice == name for choice in choices] for name in names], dtype=np.float32)
    share = np.array([names.count(name) / len(names) for name in names], dtype=np.float32)
    counts = (share**-0.5 if even else np.ones_like(share))[:, None]
    weights = np.zeros((HASHES + 1, len(choices)), dtype=np.float32)
    momentum = np.zeros_like(weights)
    for _ in range(STEPS):
        wrong = (probabilities(weights, table, 1.0) - truth) * counts
        momentum = 0.9 * momentum + table.T @ wrong / counts.sum() + PENALTY * weights
        weights -= RATE * momentum
    return weights


def of_stages(rows: list[Row]) -> Floats:
    rows = staged(rows)
    return learn(features(rows), [row["stage"] for row in rows], ORDER)


def of_abouts(rows: list[Row]) -> Floats:
    rows = [row for row in (*rows, *questions()) if row["memory"] != "unknown"]
    return learn(features(rows, prose=True), [about(row) for row in rows], ABOUT, even=True)


def judge(half: str, more: list[Row]) -> None:
    paraphrases = texts("paraphrases.jsonl")
    written = [row for row in paraphrases if HALVES.index(row["half"]) < HALVES.index(half)]
    if HALVES.index(half) >= HALVES.index(TOLD_BEFORE):
        written += texts("told.jsonl")
    drawn = [row for row in paraphrases if row["half"] == half]
    fresh = staged(drawn)
    chances = probabilities(of_stages([*written, *more]), features(fresh), TEMPERATURE)
    right = np.array([[stage in {row["stage"], *row["also"]} for stage in ORDER] for row in fresh])
    first = right[np.arange(len(fresh)), chances.argmax(1)].sum()
    loss = -np.log((chances * right).sum(1)).mean()
    print(
        f"{half}: {first} of {len(fresh)} right, log-loss {loss:.2f}, from {len(written) + len(more)} texts before it"
    )
    shares = probabilities(of_abouts(written), features(drawn, prose=True), TEMPERATURE)
    same = sum(ABOUT[int(share.argmax())] == about(row) for share, row in zip(shares, drawn, strict=True))
    print(f"{half}: what it is about {same} of {len(drawn)}")


def packed(names: Sequence[str], weights: Floats) -> dict[str, Any]:
    unit = float(np.abs(weights).max() / 127)
    whole = np.round(weights / unit).astype(np.int8)
    return {
        "names": names,
        "unit": round(unit / TEMPERATURE, 8),
        "weights": base64.b85encode(whole.tobytes()).decode(),
    }


def store(rows: list[Row], more: list[Row]) -> None:
    heads = {"stage": packed(ORDER, of_stages([*rows, *more])), "about": packed(ABOUT, of_abouts(rows))}
    STORED.write_text(json.dumps(heads) + "\n")


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
        store([*texts("told.jsonl"), *texts("paraphrases.jsonl")], more)
    return 0


if __name__ == "__main__":
    sys.exit(main())
