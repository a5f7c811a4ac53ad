"""The doctor's bounds: how much of a thread, of a name, of a service's restarts it looks at (`make mutants`)."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from oomph.doctor.beside import read_gpus
from oomph.doctor.diagnose import _unused
from oomph.doctor.enrich import names
from oomph.doctor.explain import _with_others, explain, observe_raw, read_case
from oomph.doctor.ledger import _at_oom
from oomph.doctor.reading.doubt import find_doubt
from oomph.doctor.reading.failure import _ends
from oomph.doctor.reading.meanings import MILESTONES
from oomph.doctor.reading.milestones import milestone
from oomph.doctor.runs import MOST_RUNS, explain_raw_runs
from oomph.doctor.threads.posts import LONGEST_POST, MOST_POSTS, read_thread
from oomph.engines.common.inferred import OUTSIDE, TIGHT, _graphs_not_counted
from oomph.ir.observation import Observation
from oomph.logs.reader import read_text
from oomph.sources.gpu import parse_gpus
from oomph.units import GIB, gib

START = """INFO 05-30 01:45:01 [api_server.py:1287] vLLM API server version 0.21.0
INFO 05-30 01:45:33 [gpu_model_runner.py:4820] Model loading took 15.27 GiB memory and 10.99 seconds
"""
DEATH = "ERROR 05-30 01:45:34 [core.py:1140] ValueError: No available memory for the cache blocks.\n"

VLLM: Any = {"rebuilt": SimpleNamespace(engine="vllm"), "unified": False}  # of a case


@pytest.mark.parametrize("status", [-15, 143, -2, 130])
def test_who_stops_a_server_is_no_failure(status: int) -> None:
    assert explain(f"{START}server exited with exit code {status}\n", plan=False).cause.id in ("none", "unclear")


@pytest.mark.parametrize("status", [-9, 137, 1, 2, -16, 144, -3, 131])
def test_any_other_status_is_a_sign_of_one(status: int) -> None:
    other = explain(f"{START}server exited with exit code {status}\n", plan=False)
    stopped = explain(f"{START}server exited with exit code 143\n", plan=False)
    assert (other.failed, other.settle, other.notes) != (stopped.failed, stopped.settle, stopped.notes)


@pytest.mark.parametrize("restarts", [1, 2, MOST_RUNS, MOST_RUNS + 1, MOST_RUNS + 4])
def test_of_a_service_that_was_restarted_the_last_eight_runs(restarts: int) -> None:
    runs = explain_raw_runs(read_text((START + DEATH) * restarts), plan=False)
    assert len(runs) == min(restarts, MOST_RUNS) and MOST_RUNS == 8
    length = len((START + DEATH).splitlines())
    assert (runs[-1].first_line, runs[-1].last_line) == (length * (restarts - 1) + 1, length * restarts)


def issue(posts: int, body: str = "no log", title: str = "A title") -> str:
    comments = [{"user": {"login": "x" * 70}, "created_at": "2026" + "0" * 50, "body": body} for _ in range(posts - 1)]
    first = {"title": title, "state": "open", "body": "no log", "user": {"login": "asker"}}
    return json.dumps({"issue": first, "comments": comments})


def test_how_much_of_a_thread_is_read() -> None:
    thread = read_thread([issue(MOST_POSTS + 3)])
    assert thread is not None and len(thread.posts) == MOST_POSTS == 500
    assert (len(thread.posts[1].author), len(thread.posts[1].at)) == (60, 40)
    long = read_thread([issue(2, "y" * (LONGEST_POST + 3))])
    assert long is not None and len(long.posts[1].body) == LONGEST_POST == 1 << 18
    posts = "asker\nopened on May 30, 2026\n\nIt dies.\n\nanother commented on May 31, 2026\n\nNo."
    page = read_thread([f"{'t' * 300}\nOpen\n\n{posts}"])
    assert page is not None and (len(page.title), page.state, len(page.posts)) == (200, "open", 2)


@pytest.mark.parametrize(
    ("text", "count", "size"),
    [
        ("3x my own card 24GB", 3, 24), ("my own card 24GB x 2", 2, 24), ("100x my own card 24GB", 64, 24),
        ("my own card 24GB", 1, 24), ("my own card 12.5 GiB, another 16GB", 2, 12.5),
    ],
)  # fmt: skip
def test_cards_that_nobody_knows(text: str, count: int, size: float) -> None:
    devices, notes = read_gpus(text)
    assert (len(devices), devices[0].total_bytes) == (count, round(size * GIB)) and len(notes) == 1


def test_a_card_is_the_one_whose_memory_the_log_shows() -> None:
    (device,), _ = read_gpus("A100 of ours", 40 * GIB)
    assert device.total_bytes == 40 * GIB
    (known,), _ = read_gpus("80GB A100 with a fan", round(79.25 * GIB))
    assert known.total_bytes == round(79.25 * GIB)
    long, _ = read_gpus(f"{'w' * 80} 24GB")
    assert len(long[0].name) == 60


@pytest.mark.parametrize(
    ("model", "looked_up"),
    [
        ("/models/org/name", ("/models/org/name", "org/name", "name")), ("/name", ("/name", "name")),
        ("~/name", ("~/name", "name")), ("./org/name", ("./org/name", "org/name", "name")), ("/", ("/",)),
        ("org/name", ("org/name", "name")), ("name", ("name",)), ("a/b/c", ("a/b/c",)),
        ("/c/models--org--name/s", ("/c/models--org--name/s", "models--org--name/s", "s", "org/name")),
    ],
)  # fmt: skip
def test_a_path_in_a_container_is_looked_up_by_its_last_parts(model: str, looked_up: tuple[str, ...]) -> None:
    assert names(model) == looked_up


def _case(util: float, estimate: int, total: int) -> Any:
    off = SimpleNamespace(values={"util": util})
    return SimpleNamespace(
        first=lambda kind: off, has=lambda *kinds: False, util=util, total=total, value=lambda kind, name: estimate
    )


@pytest.mark.parametrize(
    ("util", "total", "more", "is_told"),
    [
        (TIGHT, 0, 0, True), (TIGHT - 0.001, 0, 0, False), (0.9, 40 * GIB, 0, False), (0.9, 40 * GIB, 1, True),
        (0.9, 40 * GIB, -1, False), (0.99, 40 * GIB, 0, False), (0.99, 40 * GIB, 1, True),
    ],
)  # fmt: skip
def test_graphs_that_are_not_counted_need_a_gibibyte_more_than_they_take(
    util: float, total: int, more: int, is_told: bool
) -> None:
    room = round((1 - util) * total) - OUTSIDE if total else 2 * GIB
    answer = _graphs_not_counted(_case(util, room - GIB + more, total))
    assert (answer is not None) is is_told
    if answer is not None and total:
        assert f"{gib(max(0, room))} are left" in answer[1]


def test_of_a_start_that_a_parent_reports_the_stage_of_its_last_line() -> None:
    report = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
    assert read_case(START + report).stage == "profile_run"


@pytest.mark.parametrize(("status", "is_doubtful"), [(143, False), (-15, False), (130, False), (1, True), (139, True)])
def test_a_server_that_somebody_stopped_leaves_no_doubt(status: int, is_doubtful: bool) -> None:
    served = 'INFO:     Application startup complete.\nINFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK\n'
    _, observations = observe_raw(read_text(f"{START}{served}server exited with exit code {status}\n"))
    assert (find_doubt(observations) is not None) is is_doubtful


@pytest.mark.parametrize(("kind", "before", "stage"), [
    ("blocks_override", 0, "cudagraph_profile"), ("blocks_override", 8, MILESTONES.get("blocks_override")),
    ("weights", 0, MILESTONES["weights"]), ("kv_tokens", 0, MILESTONES["kv_tokens"]),
])  # fmt: skip
def test_blocks_that_replace_none_are_those_of_graph_profiling(kind: Any, before: int, stage: str) -> None:
    assert milestone([Observation(1, kind, {"before": before})]) == stage


@pytest.mark.parametrize(("width", "is_trouble"), [(76, False), (77, True), (90, True)])
def test_a_warning_of_nccl_says_so_at_its_beginning(width: int, is_trouble: bool) -> None:
    line = Observation(3, "x_nccl", text=f"{' ' * width}WARN")
    assert _ends(line, [line], 0) is is_trouble


@pytest.mark.parametrize(
    ("others", "missing", "counted"),
    [(0, 100, 0), (0, 101, 101), (1, 1001, 1), (1, 1002, 1002), (5, 500, 5)],
)
def test_what_other_processes_hold_where_the_message_lacks_it(others: int, missing: int, counted: int) -> None:
    values = {"total": 10000, "free": 10, "in_use": 10000 - 10 - missing, "allocated": 1, "others": others}
    oom = Observation(1, "torch_oom", values)  # type: ignore[arg-type]
    death: Any = SimpleNamespace(stage="runtime_request", line=1)
    assert (_at_oom([oom], oom, death, 0.9).get("others") or 0) == counted


@pytest.mark.parametrize("free", [0, 20 * GIB])
@pytest.mark.parametrize("total", [0, 24 * GIB])
@pytest.mark.parametrize("util", [0.0, 0.5])
def test_memory_that_nobody_uses_needs_all_three_figures(free: int, total: int, util: float) -> None:
    figures = {"free": free, "total": total}
    account = SimpleNamespace(util=util)
    case: Any = SimpleNamespace(value=lambda kind, name: figures[name], account=account, util=util or 0.5, **VLLM)
    assert bool(_unused(case)) is bool(free and total and util)


@pytest.mark.parametrize(("free", "is_worth_a_line"), [(62 * GIB, True), (61.5 * GIB, True), (61.4 * GIB, False)])
def test_a_gibibyte_outside_of_the_budget_is_worth_a_line(free: float, is_worth_a_line: bool) -> None:
    """100 GiB at 60 %: 61.5 GiB free are 61 % after half a GiB, which is one GiB more."""
    figures = {"free": round(free), "total": 100 * GIB}
    account = SimpleNamespace(util=0.6)
    case: Any = SimpleNamespace(value=lambda kind, name: figures[name], account=account, util=0.6, **VLLM)
    assert bool(_unused(case)) is is_worth_a_line


@pytest.mark.parametrize(("free", "fits"), [(5.2, False), (5.4, True)])
def test_a_smaller_share_is_advised_where_the_smallest_weights_fit_in_what_is_free(free: float, fits: bool) -> None:
    """8 billion parameters at 0.55 bytes are 4.1 GiB; beside them 1 GiB for a cache and 0.2 for what a start takes."""
    text = f"""INFO 05-30 01:45:33 [utils.py:240] non-default args: {{'model': 'Qwen/Qwen3-8B'}}
ERROR 05-30 01:45:33 [core.py:1140] ValueError: Free memory on device cuda:0 ({free}/23.5 GiB) on startup is less than \
desired GPU memory utilization (0.92, 21.62 GiB). Decrease GPU memory utilization or reduce GPU memory used by other \
processes.
"""
    explanation = explain(text, plan=False)
    assert explanation.cause.id == "D01"
    assert any("gpu_memory_utilization" in one.change.flags for one in explanation.remedies) is fits


@pytest.mark.parametrize(("others", "used"), [(None, 0), (0, 0), (5, 5), (1 << 62, 0)])
def test_what_others_hold_counts_where_the_text_says_it(others: int | None, used: int) -> None:
    (card,) = parse_gpus("RTX 4090")
    case: Any = SimpleNamespace(account={} if others is None else {"others": others}, gpus=(card,))
    assert _with_others(case)[0].used_bytes == used
