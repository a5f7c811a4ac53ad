"""What somebody has pasted or dropped, told apart: deployments to plan, a log to explain, a model or its config.json to
inspect.

A file's name counts before its content, and so does its form: a compose file is planned although a comment in it speaks
of a lack of memory. Where a text holds both a command and lines that an engine printed, the lines are the question.
"""

import os
import re
from contextlib import suppress
from typing import Literal

from msgspec import Struct

from oomph.commands import detect, files
from oomph.commands.call import Around
from oomph.commands.deployments import Entry, distinct, entries_of_text, read_deployments
from oomph.commands.questions import Understood, gpus_behind, is_question, understand
from oomph.doctor.posted import has_printed_lines, tells_of_failure
from oomph.errors import InputError, OomphError
from oomph.sources import boundary

LONGEST = 1 << 20  # bytes of a text that may hold a command; what is longer is a log
_LONGEST_NAME = 300
_FORMS = (".yaml", ".yml", ".py", ".ipynb", ".sh", ".bash", ".zsh", ".service", ".bat", ".cmd", ".ps1", ".sbatch",
          ".slurm", ".mk", "Makefile", "makefile", "justfile", "Dockerfile", ".md")  # fmt: skip
_LOGS = (".log", ".out", ".err", ".gz")
# Two words or more, of which none is a flag.
_ASKS = re.compile(r"\S\s+\S|[?？吗\u3400-\u9fff]")
_OWN_GPU = re.compile(r"""oomph\s[^\n]{0,200}?--gpu[= ](?:'([^']{1,100})'|"([^"]{1,100})"|(\S{1,100}))""")


class Reading(Struct, frozen=True):
    kind: Literal["deployments", "log", "model", "config", "question"]
    entries: tuple[Entry, ...] = ()
    model: str = ""
    question: Understood | None = None
    gpu: str = ""  # as a command of oomph's own says it: `oomph plan --gpu H100 -- vllm serve ...`


def read(data: bytes, name: str = "", engine: str = "") -> Reading:
    """`data`: the text, or as much of it as tells (LONGEST and one byte more); `name`: of the file that was dropped."""
    if len(data) > LONGEST or data[:2] == b"\x1f\x8b" or name.lower().endswith(_LOGS):
        return Reading("log")
    text = data.decode("utf-8-sig", "replace").replace("\0", "")
    if not text.strip():
        raise InputError("there is nothing to read: the text is empty")
    if text.lstrip()[:1] == "{" and re.search(r'"(?:architectures|model_type)"\s*:', text):
        return Reading("config")
    try:
        if "\n" not in text.strip() and len(text) <= _LONGEST_NAME:
            return _read_line(text.strip(), name, engine)
        if not os.path.basename(name).endswith(_FORMS) and _is_log(text, name):
            return Reading("log")
        return Reading("deployments", tuple(_entries(text, name, engine)))
    except OomphError:
        if name or not tells_of_failure(text, in_any_words=True):
            raise
        return Reading("log")  # nobody's command and nobody's question


def _read_line(line: str, name: str, engine: str) -> Reading:
    """One line: the name of a file, a command, a message that an engine printed, or else the name of a model."""
    if boundary.is_file(line) and not line.endswith((".gguf", ".json")):
        return Reading("deployments", tuple(distinct(read_deployments([line], engine=engine or None))))
    if _is_log(line, name):
        return Reading("log")
    if _is_model(line):
        return Reading("model", model=line)
    if _ASKS.search(line) and is_question(line):
        return Reading("question", question=understand(line))
    if " " in line and (re.search(r"\s-\S|\bserve\b|\brun\b", line) or detect(line.split())):
        gpu = _OWN_GPU.match(line)
        line, words = (line, next(filter(None, gpu.groups()), "")) if gpu else gpus_behind(line)
        return Reading("deployments", tuple(_entries(line + " ", name, engine)), gpu=words)
    with suppress(OomphError):
        return Reading("question", question=understand(line))
    return Reading("model", model=line)


def _is_model(line: str) -> bool:
    from oomph import catalog

    return bool(re.fullmatch(r"[\w.-]+/[\w.:-]+", line)) or bool(catalog.answers(line))


def _entries(text: str, name: str, engine: str) -> list[Entry]:
    return distinct(entries_of_text(text, os.path.basename(name), {}, engine or None, Around()))


def _is_log(text: str, name: str) -> bool:
    """Whether some line is one that an engine printed (its own words about memory, an exception, a traceback), or
    people tell of a failure."""
    sort = files.sort_of(text, name)
    if sort in ("kubernetes", "compose", "yaml"):
        text = re.sub(r"^[ \t]*#.*$", "", text, flags=re.MULTILINE)
    if has_printed_lines(text):
        return True
    return sort in ("shell", "markdown") and _is_told(text) and tells_of_failure(text)


def _is_told(text: str) -> bool:
    """It is long enough to tell of something, and no question."""
    words = len(text.split()) + sum(character >= "\u2e80" for character in text) // 2
    return words >= FEWEST and (words > BRIEF or not _QUESTION_WORDS.search(text))


BRIEF = 20  # words of a question: in more of them its story is told
_QUESTION_WORDS = re.compile(
    r"(?i)[?？]|\b(?:what|why|how|which|wie|warum|wieso|welche\w?)\b|^\W*(?:can|was|kann|is|does|ist|hat)\b|什么|怎么|如何|为何|为啥|吗|多少"
)
FEWEST = 5  # words, or ideographs, in which somebody tells of a failure
