"""Plans against start-ups that strangers posted: loading GiB, KV GiB, tokens and verdict."""

from __future__ import annotations

from collections import defaultdict

import field_truth


def test_the_figures_of_posted_start_ups() -> None:
    found: dict[str, list[bool]] = defaultdict(list)
    wrong = []
    for row in field_truth.rows():
        for what, good, said in field_truth.judge(row):
            found[what].append(good)
            if not good and what not in row.get("open", {}):
                wrong.append(f"{row['id']} {row['version']} {what}: {said}")
    assert not wrong, "\n".join(wrong)
    share = {what: sum(judged) / len(judged) for what, judged in found.items()}
    assert share["weights"] >= 0.95
    assert share["kv"] >= 0.85
    assert share["verdict"] >= 0.90


def test_what_the_rows_are() -> None:
    rows = field_truth.rows()
    assert len(rows) >= 75 and len({row["id"] for row in rows}) == len(rows)
    assert len({row["gpu"] for row in rows}) >= 10
    assert {row["half"] for row in rows} == {1, 2}
