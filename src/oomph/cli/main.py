"""The `oomph` command: finds the command's file, runs it, and turns every refusal into one sentence.

`oomph vllm serve ...` is short for `oomph plan -- vllm serve ...`; options may stand before the command's name.
`--help` is answered here, without click: it starts in the time that Python itself takes.
"""

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from oomph.cli.plain import read_plainly, takes_value
from oomph.cli.table import COMMANDS, EXIT_CODES, INTERSPERSED, click_command
from oomph.errors import CommandError, OomphError, error_fields

if TYPE_CHECKING:
    from oomph.cli.settings import Settings

# Programs that start another one and look like a misspelt command of ours.
_RUNNERS = frozenset(("srun", "jsrun", "prun", "crun", "runai"))
# Before the GPUs that people write behind a command, as commands/questions/words.py has them.
_ON = frozenset(("on", "with", "auf", "mit", "en", "con", "sur", "avec"))
# What people write for an option of ours; the engine's release in whatever words.
_ALIASES = {"--gpus": "--gpu", "-g": "--gpu", "-j": "--json", "-h": "--help", "-V": "--version"}
_RELEASE = frozenset(("--vllm", "--vllm-version", "--engine-version", "--release", "--version"))

# A disk that is full or failing, and a quota that is used up: nothing of oomph is wrong.
_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))

# Whoever starts a thread or wants to be called at the end of the process imports one of them.
_WAITS_AT_THE_END = frozenset(("threading", "atexit", "coverage"))

USAGE = """\
Usage: oomph COMMAND ...
       oomph [--gpu GPUS] vllm serve MODEL FLAGS     short for oomph plan -- ...
       oomph "can I run gpt-oss-120b on 2x 4090?"    a question in words

oomph foresees and explains GPU memory in LLM serving.

Commands:
{commands}

Options:
  --json         print JSON (each command)
  -q, --quiet    print nothing: the exit code is the answer
  --no-color     no colours, as with NO_COLOR=1
  --width N      columns of the screen, 40 to 400
  --timeout S    how long the hub may take in all; 60 seconds by default
  --debug        a traceback instead of a sentence
  -V, --version  the version of oomph, and how old its facts are
  -h, --help     this; after a command's name, that command's help

{codes}

Try:
  oomph inspect "gemma-4-31b nvfp4"
  oomph --gpu "2x RTX 5070 Ti" vllm serve nvidia/Gemma-4-31B-IT-NVFP4 -tp 2
  oomph explain server.log
"""


def main(argv: Sequence[str] | None = None) -> None:
    from oomph.cli.output import guarded
    from oomph.cli.settings import in_force, take_settings

    args = list(sys.argv[1:] if argv is None else argv)
    settings = take_settings(args)
    try:
        with guarded(args), in_force(settings):
            code = _answer(args, settings)
    except BrokenPipeError:
        _silence_stdout()
        code = 141  # 128 + SIGPIPE: what a shell shows for every program whose reader went away
    except OSError as full:
        if full.errno not in _NO_ROOM:
            raise
        _silence_stdout()
        code = _complain(f"the output cannot be written: {(full.strerror or str(full)).lower()}", "", 2)
    if argv is None and _WAITS_AT_THE_END.isdisjoint(sys.modules):
        sys.stderr.flush()
        os._exit(code)  # taking hundreds of modules apart takes an eighth of a plan's time
    sys.exit(code)


def _answer(args: list[str], settings: "Settings") -> int:
    """Run the command. Every refusal is one sentence, unless --debug asks for the traceback."""
    debug = settings.debug
    try:
        settings.check()
        code = _run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        return 130
    except OomphError as refused:
        if debug:
            raise
        return _refuse(args, refused.kind, refused.message, refused.hint, refused.exit_code)
    except (RecursionError, MemoryError) as error:
        if debug:
            raise
        sentence = f"this input is too deep or too large to read ({type(error).__name__})"
        return _refuse(args, "input_error", sentence, "", 2)
    except Exception as error:
        if debug or (isinstance(error, OSError) and error.errno in _NO_ROOM):
            raise
        sentence = f"a bug in oomph: {type(error).__name__}: {error}"
        return _refuse(args, "bug", sentence, "run it again with --debug and report it", 70)


def _refuse(args: list[str], kind: str, message: str, hint: str, code: int) -> int:
    """One sentence on standard error; whoever asked for JSON gets an object on standard output too."""
    if _asks_for_json(args):
        import json

        answer = error_fields(kind, message, hint)
        if "explain" in args[:4]:
            answer["failed"] = None  # as in every answer of explain: nobody can tell
        with suppress(BrokenPipeError):
            print(json.dumps(answer, ensure_ascii=False), flush=True)
    return _complain(message, hint, code)


def _asks_for_json(args: list[str]) -> bool:
    """--json, unless it stands behind the serve command and is the engine's own."""
    words = args[: args.index("--")] if "--" in args else args
    options, rest = _split(_meant(words))
    name = rest[0] if rest else ""
    more = rest[1:] if name in INTERSPERSED else _split(rest[1:])[0] if name in COMMANDS else []
    return not {"--json", "-j"}.isdisjoint((*options, *more))


def _run(args: list[str]) -> int:
    name, rest = dispatch(args)
    if name == "--version":
        from oomph.cli.version import version_text

        print(version_text(), end="")
        return 0
    if name == "--help":
        commands = "\n".join(f"  {name:<12}{text}" for name, text in COMMANDS.items())
        text = USAGE.format(commands=commands, codes=EXIT_CODES)
        getattr(sys.stdout, "write_own", sys.stdout.write)(text)  # not guarded where somebody calls this from Python
        return 0
    return _call(name, rest)


def _call(name: str, rest: list[str]) -> int:
    _begin_lightly()
    if (options := read_plainly(name, rest)) is not None:
        from oomph.cli import answers

        result: int = getattr(answers, f"answer_{_file(name)}")(**options)
        return result
    return _call_click(name, rest)


def _begin_lightly() -> None:
    """What takes a tenth of a plan's time and gives it nothing.

    msgspec asks typing_extensions for two names that `typing` has as well, and takes those where it is not there: its
    import, with `inspect` and `ast` behind it, takes as long as the plan itself. It imports `uuid`, which asks
    `platform` once what system this is, and `textwrap` for the schemas that it can write. And the collector of cycles,
    which looks at every object of every module again and again, waits for more of them.
    """
    import gc

    gc.set_threshold(200_000)
    if "msgspec" in sys.modules:
        return
    system = os.uname().sysname if hasattr(os, "uname") else "Windows"
    instead = {
        "typing_extensions": None,
        "platform": _StandIn("platform", system=lambda: system),
        "textwrap": _StandIn("textwrap"),
    }
    instead = {name: module for name, module in instead.items() if name not in sys.modules}
    sys.modules.update(instead)  # type: ignore[arg-type]
    try:
        import msgspec  # noqa: F401
    finally:
        for name in instead:
            del sys.modules[name]


class _StandIn:
    """A module that is imported when something is asked of it that is not known here."""

    def __init__(self, name: str, **known: Any) -> None:
        self.__dict__.update(known)
        self.__name__ = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):  # the import itself looks for __spec__
            raise AttributeError(attribute)
        from importlib import import_module

        return getattr(import_module(self.__name__), attribute)


def _call_click(name: str, rest: list[str]) -> int:
    import click

    command = click_command(name)
    command.epilog = command.epilog or "\b\n" + EXIT_CODES
    try:
        # not command.main(): it would take a closed pipe for its own and end the process
        with command.make_context(f"oomph {name}", rest) as context:
            result = command.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.exceptions.Abort:
        raise KeyboardInterrupt from None
    except click.NoSuchOption as wrong:
        raise _no_option(name, wrong.option_name, wrong.format_message()) from None
    except click.ClickException as wrong:
        raise CommandError(wrong.format_message().replace("\n", " "), hint=f"oomph {name} --help") from None
    return result if isinstance(result, int) else 0


def _no_option(name: str, option: str, sentence: str) -> CommandError:
    """What was meant by an option that the command does not have: a release, a size, a flag of the engine."""
    if option in _RELEASE:
        return CommandError(f"{option}: the release is a number", hint=f"oomph {name} --engine vllm==0.32.0 ...")
    if option in ("--vram", "--memory", "--mem"):
        return CommandError(f"there is no {option}: --gpu takes a size too", hint=f"oomph {name} --gpu 24GiB ...")
    from oomph.facts.vllm.flags import options_of
    from oomph.facts.vllm.versions import NEWEST

    if name not in INTERSPERSED and options_of(NEWEST).status(option).state != "unknown":
        return CommandError(
            f"{option} is a flag of the engine: it stands in the command",
            hint=f"oomph {name} --gpu H100 -- vllm serve MODEL {option if option != '--model' else ''}".rstrip(),
        )
    return CommandError(sentence.replace("\n", " "), hint=f"oomph {name} --help")


def _file(name: str) -> str:
    return name.replace("-", "_")


def dispatch(args: list[str]) -> tuple[str, list[str]]:
    """(command, its arguments). The first word that is no option decides; what is no command of ours is planned."""
    options, rest = _split(_meant(args))
    if not rest:
        if "--version" in options:
            return "--version", []
        if not options or options[-1] in ("-h", "--help"):
            return "--help", []
        raise CommandError(f"{options[0]} belongs to a command", hint="oomph --gpu H100 vllm serve MODEL; oomph --help")
    word = rest[0]
    if word == "help" and len(rest) <= 2:
        return (rest[1], ["--help"]) if rest[1:] and rest[1] in COMMANDS else ("--help", [])
    if word in COMMANDS:
        return word, [*options, *rest[1:]]
    if word == "--":
        rest = rest[1:]
    elif near := _misspelt(rest):
        raise CommandError(f"there is no command {word[:60]!r}", hint=f"did you mean oomph {near}?")
    elif (answer := question(rest, "--gpu" in options)) is not None:
        return answer[0], [*options, *answer[1:]]
    if "--gpu" not in options and not _ON.isdisjoint(" ".join(rest).split()):
        rest, gpus = _gpus_behind(rest)
        options += ["--gpu", gpus] if gpus else []
    return "plan", [*options, "--", *rest]


def _gpus_behind(rest: list[str]) -> tuple[list[str], str]:
    """A command without the GPUs that stand behind it in words: vllm serve MODEL on RTX 4090."""
    from oomph.commands.questions import gpus_behind

    line, gpus = gpus_behind(" ".join(rest))
    if not gpus:
        return rest, ""
    print(f"read as: on {_printable(gpus)}", file=sys.stderr, flush=True)
    return ([line] if len(rest) == 1 else rest[: len(line.split())]), gpus


def question(rest: list[str], names_gpus: bool = False) -> list[str] | None:
    """The command that answers a question in words; None where the words are a serve command, a file or a flag's.
    `names_gpus`: --gpu stands before it, so that a model is not asked for its cards but fitted to these."""
    line = " ".join(rest)
    if rest[1:2] == ["serve"] or any(word.startswith("-") and word != "-" for word in rest) or os.path.exists(rest[0]):
        return None
    from msgspec.structs import replace

    from oomph.commands.questions import is_question, understand

    if not is_question(line):
        return None
    try:
        understood = understand(line)
    except OomphError:
        if " " not in line.strip():  # a file that is not there, a word that nobody knows
            return None
        raise
    unused = f"   not used: {', '.join(understood.unused)}" if understood.unused else ""
    if names_gpus and understood.command == "gpus" and not understood.cards:
        understood = replace(understood, command="fit")
    print(f"read as: {_printable(understood.typed() + unused)}", file=sys.stderr, flush=True)
    return understood.arguments()


def _meant(args: list[str]) -> list[str]:
    """`--gpus H100` and `--vllm 0.28.0` as --gpu and --engine, up to the serve command."""
    out: list[str] = []
    name = ""
    at = 0
    while at < len(args):
        word = args[at]
        at += 1
        key, equals, value = word.partition("=")
        if word == "--" or (not word.startswith("-") and (name or word not in COMMANDS) and name not in INTERSPERSED):
            return [*out, word, *args[at:]]
        if not word.startswith("-"):
            name = name or word
        elif key in _RELEASE and (value or (at < len(args) and args[at].lstrip("v")[:1].isdigit())):
            if not equals:
                value, at = args[at], at + 1
            out += ["--engine", f"vllm=={value}"]
            continue
        else:
            word = _ALIASES.get(key, key) + equals + value
            if not equals and at < len(args) and takes_value(word, args):
                out.append(word)
                word, at = args[at], at + 1
        out.append(word)
    return out


def _split(args: list[str]) -> tuple[list[str], list[str]]:
    at = 0
    while at < len(args) and args[at].startswith("-") and args[at] != "--":
        at += 1 if "=" in args[at] or not takes_value(args[at], args) else 2
    return args[:at], args[at:]


def _misspelt(words: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(words[0].lower(), COMMANDS, 1, 0.7)
    if not near or words[0] in _RUNNERS:
        return ""
    from oomph.commands.questions import begins_question

    return "" if begins_question(words) else near[0]


def _complain(message: str, hint: str, code: int) -> int:
    try:
        print(f"oomph: error: {_printable(message)}", file=sys.stderr)
        if hint:
            print(f"  hint: {_printable(hint)}", file=sys.stderr)
    except BrokenPipeError:
        pass
    return code


def _printable(text: str) -> str:
    """Names come from strangers: nothing that a terminal would act on, and one line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _silence_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
