"""The serve command of a command line: its words, a file that holds it, or `-` for standard input."""

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from oomph.errors import CommandError

if TYPE_CHECKING:
    from oomph.commands import Entry
    from oomph.ir import Deployment, Verdict

_LIMIT = 1 << 20


def deployment(words: Sequence[str], engine: str = "") -> "Deployment":
    """As a user's own shell would start it: what a file leaves unset is looked up in the user's environment."""
    from oomph.commands import parse_command

    return parse_command(given(words), engine=engine or None, outside=os.environ)


def settings_of(pairs: Sequence[str]) -> dict[str, str]:
    """What --set NAME=WHAT says."""
    for pair in pairs:
        if not all(part.strip() for part in pair.partition("=")):
            raise CommandError(f"--set {pair[:80]!r} is not NAME=WHAT, such as MODEL=org/name")
    return {name.strip(): what.strip() for name, _, what in (pair.partition("=") for pair in pairs)}


def entries(
    words: Sequence[str], engine: str = "", settings: Sequence[str] = (), gpu: str = ""
) -> "tuple[list[Entry], str]":
    """The deployments that the words stand for, replicas once, and what to call the place where they are. Of a text
    with an engine's own lines it is the run that printed them.

    `settings`: NAME=WHAT of variables that a file does not set itself; they win over the user's own shell. `gpu`: as
    --gpu says it.
    """
    from oomph.commands import distinct, read_deployments
    from oomph.commands.deployments import place

    texts = given(words)
    if (run := _posted(texts, engine, gpu)) is not None:
        return [run], place(texts)
    try:
        several = read_deployments(texts, engine=engine or None, outside={**os.environ, **settings_of(settings)})
    except CommandError:
        if not _is_post(texts):
            raise
        raise CommandError(
            "no serve command is in the text",
            hint="oomph explain - reads what it tells; oomph looks for vllm serve MODEL",
        ) from None
    return distinct(several), place(texts)


def _is_post(texts: Sequence[str]) -> bool:
    """Somebody's sentences about a failure: what a shell would make of them is nobody's question."""
    from oomph.commands.deployments import is_text

    if not is_text(texts):
        return False
    from oomph.doctor.posted import tells_of_failure

    return tells_of_failure(texts[0], in_any_words=True)


def _posted(texts: Sequence[str], engine: str, gpu: str) -> "Entry | None":
    """The run of a post or a log; a manifest or a script is read as what it is."""
    from oomph.commands import Entry, files
    from oomph.commands.deployments import is_text

    if not is_text(texts) or "\n" not in texts[0] or files.sort_of(texts[0], "") not in ("shell", "markdown"):
        return None
    from oomph.doctor.posted import posted_run

    run = posted_run(texts[0], gpu, engine)
    return None if run is None else Entry("", run)


def exit_code(verdict: "Verdict") -> int:
    """0 it fits, 1 it does not, 4 it is too close to call or at risk after the start."""
    return {"fits": 0, "fails": 1, "close": 4, "at_risk": 4}[verdict.outcome]


def late_gpu(gpu: str | None, words: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """`vllm serve MODEL --gpu H100`: ours, although it stands behind; vLLM takes it for --gpu-memory-utilization."""
    at = next((i for i, word in enumerate(words) if word in ("--gpu", "-g") or word.startswith("--gpu=")), None)
    if gpu is not None or at is None:
        return gpu, words
    _, equals, value = words[at].partition("=")
    used = 1 if equals else 2
    value = value if equals else "".join(words[at + 1 : at + 2])
    if not value or value.replace(".", "", 1).isdigit():
        raise CommandError("--gpu stands behind the serve command", hint="oomph plan --gpu GPUS -- vllm serve MODEL")
    return value, words[:at] + words[at + used :]


def given(words: Sequence[str]) -> list[str]:
    if len(words) != 1 or not re.fullmatch(r"-|/dev/stdin|/dev/fd/\d+|/proc/self/fd/\d+", words[0]):
        return list(words)
    try:  # `<(kubectl get pod -o yaml)` is a pipe with a number
        with open(0 if words[0] == "-" else words[0], "rb", closefd=words[0] != "-") as file:
            data = file.read(_LIMIT + 1)
    except OSError as bad:
        raise CommandError(f"standard input cannot be read: {bad.strerror or bad}") from None
    if len(data) > _LIMIT:
        raise CommandError(f"standard input is over {_LIMIT} bytes: too long to hold a serve command")
    text = data.decode("utf-8-sig", "replace").replace("\0", "")
    if not text.strip():
        raise CommandError("standard input is empty", hint="cat start.sh | oomph plan --gpu H100 -")
    return [text + " "]  # a text, not a word: parse_command tells them apart by the space
