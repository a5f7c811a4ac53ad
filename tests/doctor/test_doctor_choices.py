"""Small choices of the doctor by tables: threads as people save them, paths, names of models, disagreeing plans."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from oomph.doctor import diagnose
from oomph.doctor.enrich import names
from oomph.doctor.explain import _is_path
from oomph.doctor.ledger import account
from oomph.doctor.prior import contradiction
from oomph.doctor.reading.failing_stage import AT_RUN_TIME, failing_stage
from oomph.doctor.reading.last_signs import cut_statement
from oomph.doctor.reading.new_case import build_case
from oomph.doctor.reading.stages import Death, _child
from oomph.doctor.rebuild import _as_many
from oomph.doctor.rule import Finding, Tier
from oomph.doctor.rules import rules
from oomph.doctor.threads.posts import LONGEST_POST, MOST_POSTS, _unwrapped, read_thread
from oomph.engines.llamacpp.log import stages as stages_llamacpp
from oomph.ir.observation import Observation
from oomph.logs.clean import Line
from oomph.sources.gpu import parse_gpus
from oomph.units import GIB

BODY = {"body": "it fails", "user": {"login": "one"}, "created_at": "2026-03-01"}
COMMENT = {"body": "try this", "author": "two", "createdAt": "2026-03-02"}


@pytest.mark.parametrize(
    ("values", "title", "authors"),
    [
        ([{**BODY, "title": "A bug", "comments": [COMMENT]}], "A bug", ["one", "two"]),
        ([{**BODY, "title": "A bug", "comments": 3}, [COMMENT]], "A bug", ["one", "two"]),
        ([{**BODY, "comments": [COMMENT]}], "", ["one", "two"]), ([{**BODY, "title": "A bug"}], "A bug", ["one"]),
        ([BODY], None, []), ([{"title": "A bug", "comments": []}], None, []), ([[COMMENT]], "", ["two"]),
        ([[]], None, []),
        ([{"issue": {**BODY, "title": "A bug"}, "comments": [COMMENT]}], "A bug", ["one", "two"]),
        ([{"data": {"repository": {"issue": {**BODY, "title": "A bug", "comments": {"nodes": [COMMENT]}}}}}], "A bug",
         ["one", "two"]),
    ],
)  # fmt: skip
def test_a_thread_as_it_is_saved(values: list[Any], title: str | None, authors: list[str]) -> None:
    thread = read_thread([json.dumps(value) for value in values])
    assert (thread and thread.title) == title
    assert [post.author for post in thread.posts] == authors if thread is not None else not authors


@pytest.mark.parametrize(
    ("value", "inner"),
    [
        ({"data": {"a": 1}}, {"a": 1}), ({"issue": {"a": 1}, "comments": [2]}, {"a": 1, "comments": [2]}), ([1], [1]),
        ({"a": 1}, {"a": 1}), ({"data": 3}, {"data": 3}), ({"pullRequest": {"a": 1}}, {"a": 1}),
        ({"data": {"data": {"data": {"data": {"data": {"a": 1}}}}}}, {"data": {"a": 1}}),
    ],
)  # fmt: skip
def test_what_is_wrapped_around_an_issue(value: Any, inner: Any) -> None:
    assert _unwrapped(value) == inner


def test_a_thread_is_bounded() -> None:
    long = {
        **BODY,
        "title": "A bug",
        "body": "x" * (LONGEST_POST + 1),
        "state": "CLOSED" * 9,
        "user": {"login": "y" * 61},
    }
    thread = read_thread([json.dumps({**long, "comments": [COMMENT] * (MOST_POSTS + 1)})])
    assert thread is not None and len(thread.posts) == MOST_POSTS and thread.state == ("closed" * 9)[:20]
    first = thread.posts[0]
    assert (first.number, len(first.body), first.author, first.at) == (1, LONGEST_POST, "y" * 60, "2026-03-01")


PAGE = [
    "Server dies at the start",
    "Closed",
    "one commented on Mar 3, 2026",
    "it fails",
    "two",
    "",
    "3 weeks ago",
    "try this",
]


def test_a_copied_page() -> None:
    thread = read_thread(["\n".join(PAGE)])
    assert thread is not None
    assert (thread.title, thread.state, thread.author) == ("Server dies at the start", "closed", "one")
    assert [(post.number, post.author, post.at, post.body) for post in thread.posts] == [
        (1, "one", "commented on Mar 3, 2026", "it fails"), (2, "two", "3 weeks ago", "try this"),
    ]  # fmt: skip
    assert read_thread(["\n".join(PAGE[:4])]) is None  # one post is none
    apart = [*PAGE[:5], "", "", *PAGE[6:]]
    assert read_thread(["\n".join(apart)]) is None  # too far below the name
    opened = read_thread(["\n".join(["Short title", "open", *PAGE[2:]])])
    assert opened is not None and (opened.title, opened.state) == ("", "open")


@pytest.mark.parametrize(
    ("text", "is_path"),
    [
        ("a.log", True), ("a.txt", True), ("a.gz", True), ("-", True), ("a b.log", False), ("a\nb.log", False),
        ("", False),
        (" ", False), ("x" * 996 + ".log", True), ("x" * 997 + ".log", False), ("CUDA error", False), ("/", True),
    ],
)  # fmt: skip
def test_a_path_has_no_lines(text: str, is_path: bool) -> None:
    assert _is_path(text) is is_path


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("org/name", ("org/name", "name")), ("name", ("name",)),
        ("/models/org/name", ("/models/org/name", "org/name", "name")),
        ("/name", ("/name", "name")), ("~/name", ("~/name", "name")), ("a/b/c", ("a/b/c",)),
        ("/hub/models--org--name/snapshots/1", ("/hub/models--org--name/snapshots/1", "snapshots/1", "1", "org/name")),
    ],
)  # fmt: skip
def test_the_names_of_a_model(model: str, known: tuple[str, ...]) -> None:
    assert names(model) == known


@pytest.mark.parametrize(
    ("failed", "kind", "basis", "seen", "planned", "words"),
    [
        (True, "torch_oom", "traceback", "weights_load", None, "where the plan fits"),
        (True, "torch_oom", "traceback", "weights_load", "kv_check", "before the plan does (kv_check)"),
        (True, "torch_oom", "traceback", "kv_check", "weights_load", "by the plan this command dies earlier"),
        (True, "torch_oom", "traceback", "kv_check", "kv_check", ""),
        (True, "torch_oom", "guess", "kv_check", None, ""),
        (True, "x_crash", "traceback", "kv_check", None, ""), (False, "torch_oom", "traceback", "kv_check", None, ""),
        (True, "torch_oom", "traceback", None, None, ""),
        (True, "torch_oom", "traceback", "kv_check", "other", ""),  # refused before anything is loaded
    ],
)  # fmt: skip
def test_where_log_and_plan_disagree(
    failed: bool, kind: str, basis: str, seen: str | None, planned: str | None, words: str
) -> None:
    case: Any = SimpleNamespace(failed=failed, death=SimpleNamespace(kind=kind, basis=basis, stage=seen))
    verdict = SimpleNamespace(fits=planned is None, stage=planned)
    said = contradiction(case, verdict)
    assert words in said and bool(said) is bool(words)


@pytest.mark.parametrize("place", [*AT_RUN_TIME, "builder"])
def test_what_an_assertion_is_about_by_its_folder(place: str) -> None:
    failure = Observation(3, "exception", {"type": "Assertion failed", "place": place}, text="Assertion failed")
    stage, _ = failing_stage(failure, (), (), (), (failure,))
    assert (stage == "runtime_request") is (place in AT_RUN_TIME)


@pytest.mark.parametrize(("far", "is_near"), [(59, True), (60, True), (61, False), (-60, True), (-61, False)])
def test_the_words_around_a_failure_are_those_of_sixty_lines(far: int, is_near: bool) -> None:
    failure = Observation(100, "torch_oom", {}, text="torch.OutOfMemoryError: CUDA out of memory.")
    lines = [Line(100, failure.text), Line(100 + far, "some_function was called")]
    case = build_case(sorted(lines, key=lambda line: line.number), (failure,))
    assert ("some_function" in case.text) is is_near


@pytest.mark.parametrize(
    ("functions", "files", "stage"),
    [
        (("load_model",), ("/sglang/srt/model_loader/loader.py",), "weights_load"),
        (("load_model",), ("/vllm/model_loader/loader.py",), "other"), ((), (), "other"),
        (("run_batch",), ("/sglang/srt/managers/scheduler.py",), "other"),
    ],
)  # fmt: skip
def test_an_unknown_architecture_is_met_where_the_engine_looks_it_up(
    functions: tuple[str, ...], files: tuple[str, ...], stage: str
) -> None:
    failure = Observation(3, "x_architecture", {}, text="ValueError: the architecture is not supported")
    assert failing_stage(failure, functions, files, (), (failure,))[0] == stage


@pytest.mark.parametrize("count", [1, 4, 5, 6, 9])
def test_four_further_causes_at_the_most(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ranked = [(rules()[0], Finding(Tier.LIKELY, "words", (), (), ())) for _ in range(count)]
    monkeypatch.setattr(diagnose, "candidates", lambda case, engine: ranked)
    failure = Observation(1, "torch_oom", {}, text="torch.OutOfMemoryError: CUDA out of memory.")
    told = diagnose.explain_case(build_case([Line(1, failure.text)], (failure,)))
    assert len(told.candidates) == min(count - 1, 4)


@pytest.mark.parametrize(("tried", "parts"), [(None, 0), (3, 9), (10, 10), (11, 0)])
def test_tensors_of_the_profiled_cache_are_counted_by_the_size_that_failed(tried: int | None, parts: int) -> None:
    """Of 20 bytes that PyTorch has, ten are weights."""
    weights = Observation(1, "weights", {"weights": 10})
    values: dict[str, Any] = {"total": 100, "free": 50, "in_use": 30, "allocated": 20, "reserved": 5}
    oom = Observation(2, "torch_oom", {**values, **({} if tried is None else {"tried": tried})})
    dead = Death(True, "cudagraph_profile", "message", 2, "torch_oom", completed=frozenset({"weights"}))
    entries = {entry.term: entry.bytes for entry in account((weights, oom), dead, None).entries}
    assert (
        entries["weights"] == 10 and entries.get("profiling_kv", 0) == 10 // tried * tried if parts and tried else True
    )
    assert ("profiling_kv" in entries) is bool(parts)


@pytest.mark.parametrize(
    ("sizes", "grows"),
    [((10, 14), False), ((10, 11, 14), True), ((10, 11, 13), False), ((10, 14, 13), False), ((10, 11, 12, 14), True)],
)
def test_resident_memory_grows_over_three_readings_by_a_third(sizes: tuple[int, ...], grows: bool) -> None:
    rule = next(rule for rule in rules() if rule.id == "R07")
    readings = tuple(Observation(line, "rss", {"rss": size}) for line, size in enumerate(sizes, 1))
    case = build_case([Line(one.line, "rss") for one in readings], readings)
    assert (rule.match(case) is not None) is grows


@pytest.mark.parametrize(("there", "needed", "taken"), [(1, 4, 4), (4, 4, 4), (5, 4, 5), (1, 64, 64), (1, 65, 1)])
def test_a_command_has_as_many_cards_as_it_needs(there: int, needed: int, taken: int) -> None:
    assert len(_as_many(parse_gpus("RTX 4090") * there, needed)) == taken


def test_a_kill_names_what_the_process_held() -> None:
    rule = next(rule for rule in rules() if rule.id == "H03")
    for size, words in ((None, "of anonymous memory"), (2 * GIB, "2.00 GiB of shared")):
        values: dict[str, Any] = {"anon": GIB, **({} if size is None else {"shmem": size})}
        killed = Observation(1, "host_kill", values, text="Out of memory: Killed process 1")
        told = rule.match(build_case([Line(1, killed.text)], (killed,)))
        assert told is not None and "1.00 GiB of anonymous" in told.text and words in told.text


def test_what_was_consumed_holds_the_weights_and_the_context() -> None:
    apart = (Observation(1, "weights", {"weights": 5}), Observation(2, "available_kv", {"available": 7}))
    together = (*apart, Observation(3, "ledger", {"consumed": 9}))
    dead = Death(None, None, "the log ends here")
    assert [entry.term for entry in account(apart, dead, 0.9).entries] == ["weights", "kv"]
    assert sorted(entry.term for entry in account(together, dead, 0.9).entries) == ["consumed", "kv"]


@pytest.mark.parametrize(("before", "is_harmless"), [(1, True), (2, False)])
def test_pinned_memory_at_the_very_start_of_a_log(before: int, is_harmless: bool) -> None:
    lines = (Observation(1, "lc_pinned", {}), Observation(1 + before, "lc_malloc", {}))
    assert stages_llamacpp.harmless(lines, 1) is is_harmless


def test_the_scores_of_the_tiers_are_those_of_the_json() -> None:
    assert {tier.name: int(tier) for tier in Tier} == {
        "SAID": 100, "COMPUTED": 90, "LIKELY": 70, "POSSIBLE": 50, "REMARK": 30,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("available_gpu_memory = self", "profile_run"), ("avai", "profile_run"), ("ava", None), ("nothing of it", None),
        ("kv_cache_configs = get_kv", "kv_check"), ("`self.model_executor.initialize_from_config`", "kv_alloc"),
    ],
)  # fmt: skip
def test_a_paste_that_ends_inside_of_a_statement(text: str, stage: str | None) -> None:
    assert cut_statement([Line(1, "before"), Line(2, text), Line(3, " ")]) == stage


@pytest.mark.parametrize(("tried", "is_larger"), [(110, False), (111, True), (100, False)])
def test_a_buffer_that_is_larger_than_the_whole_file(tried: int, is_larger: bool) -> None:
    failure = Observation(2, "lc_malloc", {"tried": tried})
    file = Observation(1, "lc_file", {"size": 100})
    assert stages_llamacpp._larger_than_model(failure, (file, failure)) is is_larger
    assert not stages_llamacpp._larger_than_model(failure, (failure,))


@pytest.mark.parametrize(("between", "found"), [(0, 0), (398, 0), (399, None), (500, None)])
def test_how_far_a_parents_report_is_from_its_childs_exception(between: int, found: int | None) -> None:
    """A long log repeats its statistics: what is further away belongs to another failure."""
    own = Observation(1, "exception", {}, text="torch.OutOfMemoryError", process="EngineCore")
    noise = Observation(2, "statistics", {}, process="APIServer")
    parent = Observation(3, "engine_dead", {}, process="APIServer")
    assert _child((own, *([noise] * between), parent), between + 1) == found
