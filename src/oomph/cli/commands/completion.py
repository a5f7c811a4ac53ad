"""`oomph completion SHELL`: the script that completes commands, options, cards, models, releases and engine flags.

The scripts ask `oomph completion --line LINE` for what may come next, so that they never know less than the program.
"""

import shlex
from collections.abc import Iterator

import click

from oomph.cli.table import COMMANDS, click_command
from oomph.errors import CommandError

MOST = 400
_OPTIONS = ("--json", "--quiet", "--no-color", "--width", "--timeout", "--debug", "--version", "--help")
_GPU = ("--gpu", "--gpus", "-g", "--to-gpu", "--card")
_ENGINE = ("--engine", "--from", "--to")
# commands whose first argument is a model; the others take a serve command, a log, or a file
_MODELS = ("inspect", "fit", "compare", "gpus")
_FILES = ("--html", "--svg", "--trace", "--prices", "--batch", "--root")

SCRIPTS = {
    "bash": """\
_oomph() {
  local current="${COMP_WORDS[COMP_CWORD]}" IFS=$'\\n'
  COMPREPLY=($(oomph completion --line "${COMP_LINE:0:COMP_POINT}" --last "$current" 2>/dev/null))
}
complete -o default -o nosort -F _oomph oomph
""",
    "zsh": """\
#compdef oomph
_oomph() {
  local -a found
  found=("${(@f)$(oomph completion --plain --line "${(j: :)words[1,CURRENT]}" 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then compadd -a found; else _files; fi
}
compdef _oomph oomph
""",
    "fish": """\
function __oomph_complete
  oomph completion --plain --line (commandline -cp) 2>/dev/null
end
complete -c oomph -a "(__oomph_complete)"
""",
}


@click.command()
@click.argument("shell", required=False, default="")
@click.option("--line", hidden=True, default=None, help="The line so far: prints what may come next.")
@click.option("--last", hidden=True, default="", help="What bash takes for the last word.")
@click.option("--plain", is_flag=True, hidden=True, help="Not quoted for bash.")
def command(shell: str, line: str | None, last: str, plain: bool) -> None:
    """Print the completion script of a shell.

    \b
    echo 'source <(oomph completion bash)' >> ~/.bashrc
    oomph completion zsh > "${fpath[1]}/_oomph"
    oomph completion fish > ~/.config/fish/completions/oomph.fish
    """
    if line is not None:
        print("".join(f"{word}\n" for word in (plain_words(line) if plain else quoted(line, last))), end="")
    elif shell in SCRIPTS:
        print(SCRIPTS[shell], end="")
    else:
        raise CommandError(f"there is no completion for {shell[:40]!r}", hint=f"there is: {', '.join(SCRIPTS)}")


def quoted(line: str, last: str) -> list[str]:
    """As bash inserts them: with backslashes, and without what bash takes for earlier words (up to a : or =)."""
    words, current = split(line)
    behind = current[: len(current) - len(last)] if last and current.endswith(last) else ""
    if not last and current:  # bash has cut behind a : or =, or the word is quoted
        behind = current if current[-1:] in ":=" else ""
    return [_escaped(word.removeprefix(behind)) for word in candidates(words, current)]


def plain_words(line: str) -> list[str]:
    return candidates(*split(line))


def _escaped(word: str) -> str:
    return "".join(f"\\{c}" if c in " ()'\"&;<>|`$!*?#~" else c for c in word)


def split(line: str) -> tuple[list[str], str]:
    """(the words before, the one that is being typed), without the program itself."""
    for ending in ("", "'", '"'):
        try:
            words = shlex.split(line + ending)
            break
        except ValueError:
            continue
    else:
        words = line.split()
    current = "" if not line or (line[-1].isspace() and not line.endswith("\\ ")) or not words else words.pop()
    return words[1:], current


def candidates(words: list[str], current: str) -> list[str]:
    """What may stand where `current` begins, after these words."""
    beginning = current.lower()
    matches = dict.fromkeys(word for word in _next(words, current) if word.lower().startswith(beginning))
    return sorted(matches, key=str.lower)[:MOST]


def _next(words: list[str], current: str) -> Iterator[str]:
    before = words[-1] if words else ""
    name = next((word for word in words if word in COMMANDS), "")
    own = words[: words.index("--")] if "--" in words else words
    serve = _serve_words(words)
    if serve is not None:
        yield from _engine_words(serve, current)
    elif before in _GPU:
        yield from _cards()
    elif before in _ENGINE:
        yield from _releases()
    elif before in _FILES:
        return
    elif not name:
        if current.startswith("-"):
            yield from ("--gpu", "--engine", *_OPTIONS)
        elif not own or own[-2:-1] in (["--gpu"], ["--engine"]):
            yield from (*COMMANDS, *_programs())
    elif "--" in words:
        yield from (*_programs(), "docker")
    else:
        yield from _of_command(name, before, current, own)


def _of_command(name: str, before: str, current: str, words: list[str]) -> Iterator[str]:
    options = [one for one in click_command(name).params if isinstance(one, click.Option)]
    for parameter in options:
        if before in parameter.opts and isinstance(parameter.type, click.Choice):
            yield from map(str, parameter.type.choices)
            return
        if before in parameter.opts and not parameter.is_flag:
            yield from _models() if parameter.metavar == "MODEL" else ()
            return
    if current.startswith("-"):
        for parameter in options:
            if not parameter.hidden:
                yield from (*parameter.opts, *parameter.secondary_opts)
        yield from _OPTIONS
    elif name in _MODELS:
        yield from _models()
    elif name == "completion":
        yield from SCRIPTS
    elif name == "rule":
        from oomph.doctor.rules import rules

        yield from (rule.id for rule in rules())


def _programs() -> tuple[str, ...]:
    """Of the engine whose flags are offered: the default one."""
    from oomph.engines.registry import DEFAULT, engine_named

    return engine_named(DEFAULT).programs


def _serve_words(words: list[str]) -> list[str] | None:
    """Everything behind the engine's program; None where it does not stand there yet."""
    at = next((at for at, word in enumerate(words) if word in _programs()), None)
    return None if at is None else words[at + 1 :]


def _engine_words(serve: list[str], current: str) -> Iterator[str]:
    if not serve:
        yield "serve"
    elif not current.startswith("-"):
        yield from _models() if len(serve) == 1 or serve[-1] in ("--model", "--tokenizer") else ()
    else:
        from oomph.facts.vllm.flags import options_of
        from oomph.facts.vllm.versions import NEWEST

        yield from (name for name in options_of(NEWEST).by_name if name.startswith("--"))


def _cards() -> Iterator[str]:
    from oomph.facts.gpus import rows

    yield from (row.name for row in rows())
    yield "auto"


def _models() -> tuple[str, ...]:
    from oomph import catalog

    return tuple(catalog.ids())


def _releases() -> Iterator[str]:
    from oomph.engines.registry import all_engines

    for engine in all_engines():
        yield engine.name
        yield from (f"{engine.name}=={release}" for release in engine.releases())
