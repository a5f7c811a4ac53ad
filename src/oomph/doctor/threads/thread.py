"""explain_thread(): which posts of a thread hold logs, what each run was, what was tried, and what is settled."""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.doctor.explain import explain
from oomph.doctor.explanation import Explanation
from oomph.doctor.threads.posts import Post, Thread
from oomph.errors import OomphError
from oomph.facts.topics import VARIABLE
from oomph.ir.printed import Printed
from oomph.logs.attempts import read_attempts
from oomph.logs.clean import lines as clean_lines
from oomph.logs.documents import sentences
from oomph.logs.parse import observe
from oomph.logs.reader import RawLine, read_text
from oomph.text.late import late_pattern

LEAST = 2  # observations that make a post a log
_FENCED = late_pattern(r"```.*?(?:```|\Z)", re.DOTALL)
_FLAG = late_pattern(r"(?<![\w-])--?[a-z][a-z0-9]*(?:-[a-z0-9]+)+(?:[ =](?![-`])[^\s`,;)\"']{1,60})?")
_SUGGESTED = late_pattern(
    r"\b(?:try|set|use|using|add|pass|reduce|lower|decrease|increase|raise|recommend|suggest)\b", re.I
)
_UPSTREAM = late_pattern(r"(?:fixed|resolved|addressed)\s{1,3}(?:in|by|with|on)\s{1,3}[^\s.,;]{1,60}", re.IGNORECASE)


class Run(Struct, frozen=True):
    """A post that holds a log."""

    post: int
    author: str
    engine: str
    model: str
    failed: bool | None
    stage: str
    cause: str
    rule: str


class Tried(Struct, frozen=True):
    """A change that somebody names."""

    post: int
    author: str
    change: str
    verdict: str  # "worked", "did not help", "suggested"
    planned: str = ""  # what the plan of the run says to it


class ThreadExplanation(Printed, frozen=True):
    """What `oomph explain` prints of a saved thread."""

    title: str
    state: str
    posts: int
    runs: tuple[Run, ...]
    tried: tuple[Tried, ...]
    settled: str
    explanation: Explanation | None  # of the run that the thread is about
    about: int = 0  # the post that holds it

    def in_short(self) -> str:
        return f"{self.posts} posts, {len(self.runs)} with logs; {self.settled}"


def explain_thread(
    thread: Thread, *, gpus: str = "", engine: str | None = None, command: Sequence[str] = (), plan: bool = True
) -> ThreadExplanation:
    """`gpus`, `engine` and `command` say of the run that the thread is about what its log does not."""
    logs = [(post, explained) for post in thread.posts if (explained := _explained(post)) is not None]
    runs = tuple(_run(post, explained) for post, explained in logs)
    main = _main_run(thread, logs)
    explanation: Explanation | None = None
    if main is not None:
        post, explanation = main
        if plan:
            explanation = _explained(post, gpus=gpus, engine=engine, command=command, plan=True) or explanation
    tried = tuple(_with_plan(one, explanation) for post in thread.posts for one in _tried(post))
    return ThreadExplanation(
        thread.title,
        state=thread.state,
        posts=len(thread.posts),
        runs=runs,
        tried=tried,
        settled=_settled(thread, tried),
        explanation=explanation,
        about=main[0].number if main is not None else 0,
    )


def _explained(
    post: Post, *, gpus: str = "", engine: str | None = None, command: Sequence[str] = (), plan: bool = False
) -> Explanation | None:
    """None where the post holds no log."""
    text = post.own_words
    try:
        if len(observe(clean_lines(read_text(text).lines))) < LEAST:
            return None
        explanation = explain(f"{text}\n", gpus=gpus, engine=engine, command=command, plan=plan)
        return None if explanation.cause.id == "unclear" else explanation
    except OomphError:
        return None


def _run(post: Post, explained: Explanation) -> Run:
    engine = f"{explained.engine.name} {explained.engine.version}".strip()
    return Run(
        post.number,
        author=post.author,
        engine=engine,
        model=explained.model,
        failed=explained.failed,
        stage=explained.stage or "",
        cause=explained.cause.title,
        rule=explained.cause.id,
    )


def _main_run(thread: Thread, logs: list[tuple[Post, Explanation]]) -> tuple[Post, Explanation] | None:
    """The last failure that the thread's author shows; others often have another problem."""
    failed = [(post, explained) for post, explained in logs if explained.failed]
    own = [pair for pair in failed if pair[0].author == thread.author]
    return own[-1] if own else failed[0] if failed else logs[0] if logs else None


def _tried(post: Post) -> Iterator[Tried]:
    """Changes in a post's own sentences, and what it says of them. What the first post names was run, not suggested."""
    words = _FENCED.sub("\n", post.own_words).split("\n")
    story = sentences(clean_lines(RawLine(number, line) for number, line in enumerate(words, 1)))
    verdicts = {"in vain": "did not help", "helped": "worked"}
    named = [one for one in read_attempts(story) if one.words.startswith("-") or "=" in one.words]
    seen: dict[str, str] = {}
    for one in named:
        seen.setdefault(one.words, verdicts[one.result])
    for sentence in story if post.number > 1 else ():
        if _SUGGESTED.search(sentence.text):
            changes = [match[0].strip("`. ") for rule in (_FLAG, VARIABLE) for match in rule.finditer(sentence.text)]
            seen |= {change: "suggested" for change in changes if change not in seen}
    yield from (Tried(post.number, post.author, change, verdict) for change, verdict in seen.items())


def _with_plan(tried: Tried, explanation: Explanation | None) -> Tried:
    """What the plan of the run says to the same change: the flag decides, its value may be another one."""
    if explanation is None:
        return tried
    flag = re.split(r"[ =]", tried.change)[0]
    advice = explanation.advice
    if advice is not None:
        words = {"fixes": "planned: it fits with", "helps": "planned: it helps, not enough alone:"}
        for effect, judged in (("fixes", advice.fixes), ("helps", advice.helps)):
            for one in judged:
                if flag in one.change.label.split():
                    return replace(tried, planned=f"{words[effect]} {one.change.label}")
    why = next((rejected.why for rejected in explanation.rejected if flag in rejected.change.label.split()), None)
    return tried if why is None else replace(tried, planned=f"useless here: {why}")


def _settled(thread: Thread, tried: tuple[Tried, ...]) -> str:
    worked = [one for one in tried if one.verdict == "worked"]
    own = [one for one in worked if one.author == thread.author]
    closed = "closed; " if thread.state == "closed" else "open; " if thread.state == "open" else ""
    if own or worked:
        one = (own or worked)[-1]
        who = "its author" if one.author == thread.author else one.author
        return f"{closed}{who} reports in post {one.post} that {one.change} worked"
    for post in reversed(thread.posts):
        upstream = _UPSTREAM.search(_FENCED.sub("\n", post.own_words))
        if upstream is not None:
            return f"{closed}post {post.number} by {post.author} says: {upstream[0]}"
    return f"{closed}nobody reports that anything worked"
