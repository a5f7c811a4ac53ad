"""Whether an exception says in its own words what ended a run: not a parent's report of another process, and no words
behind which a lack of memory may hide."""

import re

from oomph.ir.observation import Observation
from oomph.text.late import late_pattern

# words behind which memory may hide; an illegal access is a wrong address, not a lack
_MAY_BE = late_pattern(
    r"(?<!illegal )memory(?! (?:access|leak detected))"
    r"|out ?of|ALLOC_FAILED|cuda error(?!: (?!out of|unknown|initiali|unhandled|all CUDA))|NCCL|killed|exit code|died"
    r"|timed? ?out",
    re.IGNORECASE,
)
_REPORTS = late_pattern(
    r"core initialization failed|root cause|background process|EngineCore encountered|Engine loop|stack trace above"
    r"|Background loop|errored already|Executor worker returned error|Executor worker initialization error"
)
_INNER = late_pattern(r"Worker failed with error '?(?P<what>[^\"]{3,300}?)'?, please")
_PASSED = late_pattern(r"Worker failed with error %s.{1,120}?, \"(?P<what>[^\"]{3,300})\"")


# said of another process, or of whoever stopped it
_OF_OTHERS = frozenset(
    {"EngineDeadError", "SystemExit", "KeyboardInterrupt", "ActorDiedError", "ActorUnavailableError", "RayActorError"}
)
# exceptions that say what was wrong by their kind, and that a lack of memory never raises
_WORDLESS = frozenset(
    {"AssertionError", "NotImplementedError", "IndexError", "KeyError", "AttributeError", "TypeError"}
)


def own_words(observation: Observation) -> str:
    """The exception in its own words; "" for a report of another process's, and where memory may be behind it."""
    kind, message = str(observation.values.get("type", "")), str(observation.values.get("message", "")).strip()
    if inner := _PASSED.search(message) or _INNER.search(message):
        return "" if _MAY_BE.search(inner["what"]) else inner["what"]
    if not message and kind in _WORDLESS:
        return kind
    if not message or _REPORTS.search(message) or kind in _OF_OTHERS:
        return ""
    return "" if _MAY_BE.search(f"{kind}: {message}") else f"{kind}: {message}"


_QUOTED = late_pattern(r"[\"“`](?P<what>[^\"”`]{12,200})[\"”`]")
_ASSERTED = late_pattern(r"\bassert (?P<what>[\w.(]{2,}.{4,160})")
_FEWEST = 4  # words of a sentence; fewer are a name or a flag


def quoted_words(title: str) -> str:
    """The sentence that a title quotes; "" where it quotes none, and where memory may be behind it."""
    if asserted := _ASSERTED.search(title[:400] if title.startswith("# ") else ""):
        return f"assert {asserted['what'].strip()}"
    quotes = (match["what"].strip() for match in _QUOTED.finditer(title[:400] if title.startswith("# ") else ""))
    return next((words for words in quotes if len(words.split()) >= _FEWEST and not _MAY_BE.search(words)), "")


_REASON = late_pattern(r"(?:[Ee]rror|terminated|load (?:the model|LLM '[^']{1,120}')):\s{0,4}(?P<why>[^\n]{12,300})$")
# a report of an end, without its reason
_NO_REASON = late_pattern(
    r"(?i)exit status|signal|unexpectedly stopped|process has terminated|no longer running|(?:un|not )?able to load|"
    r"(?:error|fail\w{0,3}) (?:to )?(?:load|creat)|\bEOF\b"
)
FEWEST = 3  # words of a reason


def load_words(text: str) -> str:
    """What stands behind the last colon of a load that failed; "" where that says nothing, or may be about memory."""
    why = text[:1000].strip()
    while match := _REASON.search(why):
        why = match["why"].strip(" '\"")
        if len(why.split()) >= FEWEST and not _REASON.search(why):
            return "" if _NO_REASON.search(why) or _MAY_BE.search(why) else why
    return ""
