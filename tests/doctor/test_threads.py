"""A saved GitHub issue: its posts, the logs in them, what was tried, what is settled, the comment to paste."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st

from oomph.cli.main import main
from oomph.doctor.threads.posts import Thread, read_thread
from oomph.doctor.threads.thread import explain_thread
from oomph.report.screens.thread import comment

FOLDER = Path(__file__).parent / "threads"
ISSUE, COMMENTS, PAGE = ((FOLDER / name).read_text() for name in ("issue.json", "comments.json", "thread.txt"))


def whole() -> str:
    """As `gh issue view --json title,state,author,body,comments` prints it."""
    issue = json.loads(ISSUE)
    comments = [{"author": c["user"], "createdAt": c["created_at"], "body": c["body"]} for c in json.loads(COMMENTS)]
    return json.dumps({"title": issue["title"], "state": "CLOSED", "author": issue["user"], "body": issue["body"],
                       "comments": comments})  # fmt: skip


def graphql() -> str:
    issue = json.loads(whole())
    return json.dumps({"data": {"repository": {"issue": {**issue, "comments": {"nodes": issue["comments"]}}}}})


FORMS = {"REST": [ISSUE, COMMENTS], "gh": [whole()], "GraphQL": [graphql()], "page": [PAGE]}


def thread_of(texts: list[str]) -> Thread:
    thread = read_thread(texts)
    assert thread is not None
    return thread


@pytest.mark.parametrize("form", FORMS)
def test_every_form_holds_the_same_posts(form: str) -> None:
    thread = thread_of(FORMS[form])
    assert [post.author for post in thread.posts] == ["asker", "guesser", "asker", "another", "asker"]
    assert thread.state == "closed" and "CUDA graphs" in thread.title
    assert "did not help" in thread.posts[2].own_words and "lowering" not in thread.posts[2].own_words


@pytest.mark.parametrize("form", FORMS)
def test_what_it_says(form: str) -> None:
    answer = explain_thread(thread_of(FORMS[form]), plan=False)
    assert [(run.post, run.rule, run.failed) for run in answer.runs] == [(1, "P05", True), (4, "K02", True)]
    assert answer.about == 1 and answer.explanation is not None and answer.explanation.cause.id == "P05"
    assert [(one.post, one.change, one.verdict) for one in answer.tried] == [
        (2, "--gpu-memory-utilization 0.8", "suggested"),
        (3, "--gpu-memory-utilization 0.8", "did not help"),
        (5, "--max-num-seqs 8", "worked"),
    ]
    assert answer.tried[0].planned.startswith("useless here")
    assert answer.settled == "closed; its author reports in post 5 that --max-num-seqs 8 worked"


def test_the_comment_holds_cause_and_remedy_and_no_secret() -> None:
    answer = explain_thread(thread_of([whole()]), command=["vllm", "serve", "Qwen/Qwen3-8B"], gpus="RTX 5090")
    text = comment(answer)
    assert "**Why** (post 1)" in text and "throw-away KV cache" in text and "--" in text
    assert "hf_abcdef" not in text and "hf_abcdef" not in json.dumps(answer.to_dict()["comment"])


def test_nothing_to_explain_is_said() -> None:
    thread = thread_of([json.dumps({"title": "help", "state": "open", "body": "it does not work", "comments": []})])
    answer = explain_thread(thread)
    assert not answer.runs and "no post holds a log" in answer.text() and "Could you add" in comment(answer)
    assert answer.settled == "open; nobody reports that anything worked"


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"body": "x"}', "[1, 2]", '{"title": 3}', '[{"body": 7}]', '{"a": ' * 50 + "1" + "}" * 50,
     "one line", (FOLDER.parent / "fixtures" / "P05.log").read_text()],
)  # fmt: skip
def test_what_is_no_thread(text: str) -> None:
    assert read_thread([text]) is None


KEYS = ["title", "body", "comments", "user", "login", "state", "data", "issue", "nodes"]
VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)
LINES = ["asker", "x commented on Mar 3, 2026", "on Mar 3", "opened on May 1, 2025", "```", "> q", "CUDA out of memory",
         "--max-num-seqs 8 works", ""]  # fmt: skip


@given(VALUES)
@example({"comments": {"nodes": 1}})
def test_any_json_is_a_thread_or_none(value: object) -> None:
    thread = read_thread([json.dumps(value)])
    assert thread is None or explain_thread(thread, plan=False).settled


@given(st.lists(st.sampled_from(LINES), max_size=30))
def test_any_page_is_a_thread_or_none(lines: list[str]) -> None:
    thread = read_thread(["\n".join(lines)])
    assert thread is None or explain_thread(thread, plan=False).posts >= 2


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([str(FOLDER / "thread.txt")], [str(FOLDER / "issue.json"), str(FOLDER / "comments.json")]):
        with pytest.raises(SystemExit) as done:
            main(["explain", *words])
        text = capsys.readouterr().out
        assert done.value.code == 0 and "A comment to paste" in text and "hf_abcdef" not in text
