"""A text that somebody has, to the serve commands in it: told apart, unwrapped, and its parts read as what they are.

Each may stand inside another: a manifest in a manual, a unit in a script's <<EOF, Python in a notebook.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from oomph.commands import files, shell
from oomph.commands.call import Around, Call, pinned_releases, short, shown
from oomph.commands.expansion import LIMIT
from oomph.commands.pasted import from_windows, rejoined
from oomph.commands.wrappers import script_calls, starts
from oomph.engines.registry import all_engines
from oomph.errors import CommandError
from oomph.text.nesting import bounded

_DEEPEST = 4
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([\w+.-]*)")
# fish: set -gx NAME value
_FISH = re.compile(r"^[ \t]*set[ \t]+(?:-[a-zA-Z]+[ \t]+|--\w+[ \t]+)*(\w+)[ \t]+(\S[^\n;]*)$", re.MULTILINE)
_FISH_DEFAULT = re.compile(
    r"^[ \t]*set -q (\w+)[ \t]*;[ \t]*or set[ \t]+(?:-[a-zA-Z]+[ \t]+)?\1[ \t]+(\S[^\n;]*)$", re.MULTILINE
)
_ENDINGS = {"yaml": ".yaml", "yml": ".yaml", "python": ".py", "py": ".py", "powershell": ".ps1"}


def calls(
    text: str, name: str, environment: Mapping[str, str], around: Around | None = None, depth: int = 0
) -> dict[str, Call]:
    """The calls, each under the name of its service, target, container or command."""
    around = around or Around()
    if depth > _DEEPEST:
        return {}
    described = _described(text, name, environment)
    try:
        here = _calls(text, name, dict(environment), around, depth)
    except CommandError:
        if not described:
            raise
        here = {}
    here = {key: call for key, call in here.items() if starts(call)} or described or here
    pinned = pinned_releases(text) if not depth else {}
    return {key: replace(call, pinned={**pinned, **call.pinned}) for key, call in here.items()} if pinned else here


def _described(text: str, name: str, environment: Mapping[str, str]) -> dict[str, Call]:
    """What a text says in an engine's own form instead of a command: a Modelfile, a container's variables."""
    words = [one.described_in(text, name) for one in all_engines()]
    return {str(i): Call(each, dict(environment)) for i, each in enumerate(filter(None, words), 1)}


def _calls(text: str, name: str, environment: dict[str, str], around: Around, depth: int) -> dict[str, Call]:
    sort = files.sort_of(text, name)
    what = name or "the text"
    if sort == "kubernetes":
        from oomph.commands.manifests import kubernetes

        return kubernetes.calls(text, name or "the manifest", {**around.outside, **environment})
    if sort in ("yaml", "json"):
        from oomph.commands.manifests import jobs as yaml_jobs

        text = files.object_text(text) if sort == "json" else text
        return yaml_jobs.calls(text, {**around.outside, **environment}, name or "the file")
    if sort == "compose":
        from oomph.commands.manifests import compose

        return compose.calls(text, {**around.outside, **environment}, name or "the compose file")
    if sort == "notebook":
        return _notebook(text, what, environment, around)
    if sort == "python":
        return _python(text, environment, around)
    if sort == "dockerfile":
        from oomph.commands.manifests import dockerfile

        return dockerfile.calls(text, {**around.outside, **environment})
    if sort == "makefile":
        from oomph.commands import makefile

        return _recipes(makefile.recipes(text, {**around.outside, **environment}), environment)
    if sort == "justfile":
        from oomph.commands import justfile

        return _recipes(justfile.recipes(text, {**around.outside, **environment}), environment)
    if sort == "hcl":
        from oomph.commands.manifests import hcl

        return hcl.calls(text, {**around.outside, **environment})
    if sort == "markdown":
        calls_here = _fenced(text, environment, around, depth)
        if calls_here or len(text) > LIMIT:  # a manual that long is no script
            return calls_here
    if sort == "unit":
        text = files.unit_script(text)
    if name.endswith(".fish") or re.match(r"#!\S*(?:/|env )fish\b", text):
        text = _FISH_DEFAULT.sub(lambda match: f"{match[1]}=${{{match[1]}:-{match[2]}}}", text)
        text = _FISH.sub(lambda match: f"{match[1]}={match[2]}", text)
    return _shell(from_windows(rejoined(text), name), environment, around, depth)


def _recipes(scripts: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Call]:
    """target -> call; a target that starts several has a number behind it."""
    by_name: dict[str, Call] = {}
    for target, script in scripts.items():
        try:
            started = script_calls(script, environment)
        except CommandError as error:
            started = [Call((), refusal=error)]
        by_name |= {target if len(started) == 1 else f"{target} {i}": call for i, call in enumerate(started, 1)}
    return by_name


def _shell(text: str, environment: dict[str, str], around: Around, depth: int) -> dict[str, Call]:
    """The commands of a script; where it has none itself, those of the texts that it writes or sends elsewhere."""
    started = script_calls(text, environment, around=around)
    if not started:
        try:
            documents = shell.script(text, environment, around).documents
        except CommandError:  # prose, whose apostrophes no shell takes
            documents = []
        started = [call for text in documents for call in calls(text, "", environment, around, depth + 1).values()]
    return {str(number): call for number, call in enumerate(started, 1)}


def _fenced(text: str, environment: dict[str, str], around: Around, depth: int) -> dict[str, Call]:
    """The code blocks of a manual: its shell blocks as one script, since they share their variables."""
    script: list[str] = []
    by_name: dict[str, Call] = {}
    for language, block in fenced_blocks(text):
        name = _ENDINGS.get(language.lower(), "")
        plain_shell = files.sort_of(block, name) == "shell" and not name.endswith(".ps1")
        if plain_shell and not _described(block, name, environment):
            script.append(block)
            continue
        try:
            inner = calls(block, name, environment, around, depth + 1)
        except CommandError:  # an example in a language of its own
            continue
        by_name |= {key if key not in by_name else f"{key} {len(by_name) + 1}": call for key, call in inner.items()}
    if script:
        try:
            inner = _shell(from_windows(rejoined("\n".join(script))), environment, around, depth + 1)
        except CommandError:
            inner = {}
        by_name |= {key if key not in by_name else f"{key} {len(by_name) + 1}": call for key, call in inner.items()}
    return by_name


def fenced_blocks(text: str) -> list[tuple[str, str]]:
    """(language, code) of each ``` block; one that is not closed reaches to the end."""
    blocks: list[tuple[str, str]] = []
    lines: list[str] = []
    fence = language = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence and match and match[1].startswith(fence) and not line.strip().strip("`~"):
            blocks.append((language, "\n".join(lines) + "\n"))
            fence, lines = "", []
        elif fence:
            lines.append(line)
        elif match:
            fence, language = match[1], match[2]
    return [*blocks, (language, "\n".join(lines) + "\n")] if fence else blocks


def _notebook(text: str, what: str, environment: dict[str, str], around: Around) -> dict[str, Call]:
    try:
        cells: Any = json.loads(bounded(text))["cells"]
        sources = [cell["source"] for cell in cells if cell.get("cell_type") == "code"]
        texts = ["".join(source) if isinstance(source, list) else str(source) for source in sources]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CommandError(f"{short(what)} is not a notebook that can be read") from None
    parts = [split_magic(cell) for cell in texts]
    script = "\n".join(part for part, _ in parts)
    return _python_parts(script, "\n".join(source for _, source in parts if _is_python(source)), environment, around)


def _is_python(source: str) -> bool:
    """A cell in another language, or a broken one, does not stop the others."""
    from oomph.commands.python.values import parse

    try:
        parse(source)
    except CommandError:
        return False
    return True


def _python(text: str, environment: dict[str, str], around: Around) -> dict[str, Call]:
    """Python with a notebook's lines for the shell: `!vllm serve ...` and %%bash cells."""
    return _python_parts(*split_magic(text), environment, around)


def _python_parts(script: str, source: str, environment: dict[str, str], around: Around) -> dict[str, Call]:
    from oomph.commands.python import words as python_words

    by_name = _shell(script, environment, around, 1) if script.strip() else {}
    try:
        calls_engine = any(one.calls_in(source) for one in all_engines())
    except CommandError:
        if by_name:
            return by_name
        raise
    by_name |= python_words.calls(source, {**around.outside, **environment})
    if calls_engine:
        by_name["call"] = Call((), environment, source=source)
    return by_name or python_words.documented(source, {**around.outside, **environment})


def split_magic(text: str) -> tuple[str, str]:
    """The lines that a notebook gives to a shell, and the Python that is left, line for line."""
    script: list[str] = []
    source: list[str] = []
    cell = going_on = False
    for line in text.split("\n"):
        if re.match(r"\s*%%(?:bash|sh|script)\b", line):
            cell = True
        elif re.match(r"\s*(?:%%|# COMMAND -)", line):
            cell = False
        shell_line = going_on or cell or re.match(r"\s*[!%](?!=)\s*\w", line)
        going_on = bool(shell_line and not cell and line.rstrip().endswith("\\"))
        (script if shell_line else source).append(line)
        (source if shell_line else script).append("")
    return "\n".join(re.sub(r"^\s*[!%]+", "", line) for line in script), "\n".join(source)


class NoDeployment(CommandError):
    """A text without a serve command."""


def none_found(name: str) -> NoDeployment:
    return NoDeployment(
        f"no serve command is in {shown(name) or 'the text'}", hint="oomph looks for vllm serve MODEL ..."
    )
