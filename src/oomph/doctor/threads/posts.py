"""A thread as people save it -> its posts: GitHub's JSON (REST, GraphQL, `gh issue view --json`), or a copied page.

Posts are a stranger's text: nothing in them is acted on, and every form is bounded.
"""

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from oomph.text.late import late_pattern
from oomph.text.nesting import bounded

MOST_POSTS = 500
LONGEST_POST = 1 << 18  # GitHub's own limit is 65,536 characters
_NAME = r"@?[A-Za-z0-9][A-Za-z0-9-]{0,38}(?:\[bot\])?"
_DAY = r"(?:on |last )?(?:\w+ \d{1,2}(?:, \d{4})?|\d{1,3} \w+ ago|yesterday|week|month|year)"
# "octocat commented on Mar 3, 2026" in one line, or the name above "commented 3 weeks ago" or "opened on Mar 3"
_ONE_LINE = late_pattern(rf"^\s{{0,8}}({_NAME}) (?:commented|opened this issue|opened|left a comment)\b[^\n]{{0,80}}$")
_BELOW = late_pattern(rf"^\s{{0,8}}(?:commented |opened (?:this issue )?)?{_DAY}(?:\s*·[^\n]{{0,60}})?\s*$")
_ALONE = late_pattern(rf"^\s{{0,8}}({_NAME})\s*$")


class Post(Struct, frozen=True):
    number: int  # 1 is the issue itself
    author: str
    at: str  # as it is written
    body: str

    @property
    def own_words(self) -> str:
        """Without what it quotes of others."""
        return "\n".join(line for line in self.body.splitlines() if not line.lstrip().startswith(">"))


class Thread(Struct, frozen=True):
    title: str
    state: str  # "open", "closed", "" where nothing says
    posts: tuple[Post, ...]

    @property
    def author(self) -> str:
        return self.posts[0].author if self.posts else ""


def read_thread(texts: Sequence[str]) -> Thread | None:
    """None where they are no thread: a log, a post, anything else."""
    values = [_json(text) for text in texts]
    if all(value is not None for value in values):
        return _from_json(values)
    return _from_page(texts[0]) if len(texts) == 1 else None


def _json(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(bounded(text))
    except (ValueError, RecursionError):
        return None


def _from_json(values: Sequence[Any]) -> Thread | None:
    """One file with everything, or the issue and its comments as the REST API gives them apart."""
    issue: dict[str, Any] = {}
    comments: list[Any] = []
    for value in values:
        value = _unwrapped(value)
        if isinstance(value, list):
            comments += value
        elif isinstance(value, dict):
            issue = issue or value
            more = value.get("comments")
            more = more.get("nodes") if isinstance(more, dict) else more
            comments += more if isinstance(more, list) else []
    items = [item for item in ([issue] if issue else []) + comments if isinstance(item, dict)]
    if not items or not any(isinstance(item.get("body"), str) for item in items):
        return None
    if issue and "comments" not in issue and "title" not in issue:
        return None  # some other object that has a body
    posts = [_post(number, item) for number, item in enumerate(items[:MOST_POSTS], 1)]
    title, state = issue.get("title"), issue.get("state")
    return Thread(
        title if isinstance(title, str) else "", state.lower()[:20] if isinstance(state, str) else "", tuple(posts)
    )


def _unwrapped(value: Any) -> Any:
    """{"data": {"repository": {"issue": ...}}}, {"issue": ..., "comments": [...]}"""
    for _ in range(4):
        if not isinstance(value, dict):
            return value
        inner = next((value[key] for key in ("data", "repository", "issue", "pullRequest") if key in value), None)
        if not isinstance(inner, dict):
            return value
        value = {**inner, "comments": value["comments"]} if "comments" in value else inner
    return value


def _post(number: int, item: dict[str, Any]) -> Post:
    person = item.get("user") or item.get("author") or {}
    author = person.get("login") if isinstance(person, dict) else person
    at = item.get("created_at") or item.get("createdAt") or ""
    body = item.get("body")
    return Post(
        number,
        author[:60] if isinstance(author, str) else "",
        at[:40] if isinstance(at, str) else "",
        body.replace("\r\n", "\n")[:LONGEST_POST] if isinstance(body, str) else "",
    )


def _from_page(text: str) -> Thread | None:
    lines = text.replace("\r\n", "\n").splitlines()
    heads: list[tuple[int, int, str, str]] = []  # first line, first line of the body, author, when
    at = 0
    while at < len(lines) and len(heads) < MOST_POSTS:
        one, alone = _ONE_LINE.match(lines[at]), _ALONE.match(lines[at])
        below = next((n for n in range(at + 1, min(at + 3, len(lines))) if lines[n].strip()), 0)
        if one is not None:
            heads.append((at, at + 1, one[1].lstrip("@"), lines[at].strip()[len(one[1]) :].strip()))
        elif alone is not None and below and _BELOW.match(lines[below]):
            heads.append((at, below + 1, alone[1].lstrip("@"), lines[below].strip()))
            at = below
        at += 1
    if len(heads) < 2:
        return None
    ends = [first for first, *_ in heads[1:]] + [len(lines)]
    posts = [
        Post(number, author, when, "\n".join(lines[start:end])[:LONGEST_POST])
        for number, ((_, start, author, when), end) in enumerate(zip(heads, ends, strict=True), 1)
    ]
    above = [line.strip() for line in lines[: heads[0][0]] if line.strip()]
    words = {line.lower() for line in above}
    state = "closed" if "closed" in words else "open" if "open" in words else ""
    title = next((line for line in above if len(line) > 12), "")
    return Thread(title[:200], state, tuple(posts))
