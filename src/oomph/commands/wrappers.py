"""Peel a command line down to the engine it starts: variables, sudo, docker run, sh -c, python."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from oomph.commands.call import SERVER, TYPOGRAPHIC, Around, Call, assignment, program, short
from oomph.engines.protocol import fills
from oomph.engines.registry import DEFAULT, NAMES, all_engines, engine_named
from oomph.errors import CommandError
from oomph.sources import boundary
from oomph.text.late import late_pattern
from oomph.text.tables import all_that_hold

if TYPE_CHECKING:
    from oomph.commands import shell

SHELLS = ("sh", "bash", "zsh", "dash", "ash", "ksh")
_SAYS = (
    "echo",
    "printf",
    "pkill",
    "pgrep",
    "grep",
    "which",
    "command",
    "pip",
    "pip3",
    "curl",
    "[",
    "[[",
    "test",
)  # these start nothing
_AHEAD = 8  # `python -X opt -u -m vllm`: the module stands within so many words of the program
_PLAIN_WORD = late_pattern(r"[A-Za-z'’]+[.,:;!?)]*")
_DEEPEST = 6  # docker run ... sh -c "sudo docker run ..." and so on

# a line that starts a server, with the lines that it goes on in
_BLOCK = late_pattern(
    lambda: rf"^[^\n]*(?:{SERVER.pattern})(?:[^\n]*(?:\\[ \t]*\n|\n(?=[ \t]*--?[A-Za-z])))*[^\n]*$", re.MULTILINE
)

# what a post lists below "vllm serve arguments": a model alone in its line, then a flag in each line
_LISTED = late_pattern(
    r"^[ \t]*/?[\w.-]{1,80}(?:/[\w.-]{1,120}){1,6}[ \t]*\\?\n(?:[ \t]*--?[a-z][^\n]{0,400}(?:\n|\Z)){2,}", re.MULTILINE
)


def engine_of(words: Sequence[str]) -> str:
    """The engine that `words` start directly; "" = none."""
    if not words:
        return ""
    head = program(words[0])
    return next((name for name in NAMES if engine_named(name).recognises(head, words)), "")


def starts(call: Call) -> bool:
    """Whether it loads a model at all: `ollama pull`, `vllm bench` and `pip install vllm` do not."""
    if call.source or call.refusal or not call.words:
        return bool(call.source or call.refusal)
    name = engine_of(call.words)
    return not name or engine_named(name).starts_server(call.words)


def peel(words: Sequence[str], environment: Mapping[str, str], *, depth: int = 0) -> Call:
    """The engine's own words, with what the wrappings say of variables, image and GPUs."""
    inner = dict(environment)
    words = list(words)
    while words and (pair := assignment(words[0])):
        inner[pair[0]] = pair[1]
        words.pop(0)
    if not words:
        raise CommandError("there is no command")
    if depth > _DEEPEST:
        raise CommandError("the command is wrapped too deeply")
    if engine_of(words):
        if "-m" in words:
            from oomph.commands import dynamo

            if dynamo.is_worker(words):
                return dynamo.served(words, inner)
        return Call(tuple(words), inner)
    from oomph.commands.manifests import docker  # most commands that people plan are bare

    head = program(words[0])
    if head in docker.PROGRAMS and docker.is_run(words):
        return _within(docker.run(words, inner), depth)
    if head in ("apptainer", "singularity") and (started := _run_image(words, inner)):
        return _within(started, depth)
    if inside := docker.compose_exec(words):
        return peel(inside, inner, depth=depth + 1)
    if head in SHELLS:
        return _shell(words, inner, depth)
    if head == "eval":
        return first_call(" ".join(words[1:]), inner, depth=depth + 1)
    if head == "python":
        return _python(words, inner)
    for index in range(1, len(words)):
        here = words[index : index + _AHEAD]
        if " " in here[0]:  # ssh HOST 'vllm serve ...', tmux new -d "vllm serve ..."
            if SERVER.search(here[0]) and depth < _DEEPEST:
                return first_call(here[0], inner | _pairs(words[1:index]), depth=depth + 1)
        elif (engine_of(here) and not _only_named(here)) or _starts_wrapper(here):
            call = peel(words[index:], inner | _pairs(words[1:index]), depth=depth + 1)
            return call if call.image else structs.replace(call, image=_image(words[:index]))
    if _only_arguments(words) and (len(words) > 1 or not depth):  # alone in a text it is a file that somebody names
        command = engine_named(DEFAULT).serve_command(words[0])
        note = f"no program is named: read as {' '.join(command[:-1])}"
        return Call((*command, *words[1:]), inner, notes=(note,))
    raise CommandError(f"{short(words[0])} is not a serve command that oomph knows", hint=_hint(words))


def _hint(words: Sequence[str]) -> str:
    from difflib import get_close_matches

    programs = [word for one in all_engines() for word in one.programs]
    near = get_close_matches(program(words[0]), [*programs, "docker", "python"], 1, 0.7)
    if near:
        return f"did you mean {near[0]}?"
    if words[0].endswith(".gguf") and len(words[0]) < 200:
        return f"for a GGUF file: llama-server -m {words[0]}"
    if len(words) == 1 and words[0].isprintable() and len(words[0]) < 100:
        return f"for a model: vllm serve {words[0]}, or oomph fit {words[0]} --gpu GPUS"
    titles = [engine.title for engine in all_engines()]
    sentence = f"commands of {', '.join(titles[:-1])} and {titles[-1]} are planned"
    model = next((word for word in words[1:] if re.fullmatch(r"\w[\w.-]{0,95}/\w[\w.-]{0,95}", word)), "")
    return (
        f"{sentence}; for this model: oomph compare {model} --gpu GPUS"
        if model
        else f"{sentence}, such as vllm serve MODEL"
    )


def _only_arguments(words: Sequence[str]) -> bool:
    """ORG/MODEL --max-model-len 8192: what stands below `args:` in a manifest, or below "my parameters" in a post."""
    return bool(re.fullmatch(r"[\w./-]*\w/[\w.-]+", words[0])) and (
        len(words) == 1 or engine_named(DEFAULT).knows_flag(words[1])
    )


def _pairs(words: Sequence[str]) -> dict[str, str]:
    return dict(pair for word in words if (pair := assignment(word)))


def _image(words: Sequence[str]) -> str:
    """The container that a job runs in: srun --container-image=IMAGE, apptainer exec docker://IMAGE or IMAGE.sif."""
    from oomph.commands.manifests import docker

    for i, word in enumerate(words):
        name, _, value = word.partition("=")
        if name == "--container-image":
            return (value or "".join(words[i + 1 : i + 2])).replace("#", "/")
        if word.startswith("docker://"):
            return word.removeprefix("docker://")
        if word.endswith(".sif") and docker.image_engine(word):
            return re.sub(r"[-_](?=v?\d+\.\d)", ":", word.rpartition("/")[2].removesuffix(".sif"), count=1)
    return ""


def _run_image(words: Sequence[str], environment: Mapping[str, str]) -> Call | None:
    """`apptainer run docker://IMAGE ARGUMENTS`: what the image starts with them; None where it is another command."""
    from oomph.commands.manifests import docker

    at = next((i for i, word in enumerate(words) if word.startswith("docker://")), 0)
    image = words[at].removeprefix("docker://")
    if not at or "run" not in words[1:at] or not docker.image_engine(image):
        return None
    return docker.container(image, list(words[at + 1 :]), dict(environment))


def _only_named(words: Sequence[str]) -> bool:
    """`pip install vllm`, `pkill -f "vllm"`: the name of a package, not a program."""
    return program(words[0]) in NAMES and (len(words) < 2 or words[1].startswith("-"))


def _starts_wrapper(words: Sequence[str]) -> bool:
    from oomph.commands.manifests import docker

    head = program(words[0])
    if head in docker.PROGRAMS:
        return docker.is_run(words)
    return head in SHELLS and any(word.startswith("-") and word.endswith("c") for word in words[1:3])


def _within(call: Call, depth: int) -> Call:
    """A container's command may itself be a shell that starts the engine."""
    inside = peel(call.words, call.environment, depth=depth + 1)
    return structs.replace(
        inside,
        image=call.image or inside.image,
        gpu_count=call.gpu_count or inside.gpu_count,
        gpu_ids=call.gpu_ids or inside.gpu_ids,
        gpu_name=call.gpu_name or inside.gpu_name,
        gpu_memory=call.gpu_memory or inside.gpu_memory,
        memory_limit=call.memory_limit or inside.memory_limit,
        mounts={**inside.mounts, **call.mounts},
        notes=call.notes + inside.notes,
        refusal=call.refusal or inside.refusal,
    )


def container_call(call: Call) -> Call:
    return _within(call, 0)


def container_calls(call: Call) -> list[Call]:
    """What a container starts: several engines where its shell text starts several."""
    first = container_call(call)
    words = call.words
    if program(words[0]) not in SHELLS or first.source:
        return [first]
    at = next((i for i, word in enumerate(words[1:-1], 1) if re.fullmatch(r"-\w*c", word)), 0)
    inside = script_calls(words[at + 1], call.environment, depth=1) if at else []
    started = [one for one in inside if starts(one) and not one.source]
    if len(started) < 2:
        return [first]
    return [
        one if one.refusal else _within(structs.replace(call, words=one.words, environment=one.environment), 0)
        for one in started
    ]


def numbered(name: str, calls: Sequence[Call]) -> dict[str, Call]:
    """Under the name where it is one; "name 1", "name 2" where there are several."""
    return {f"{name} {number}" if len(calls) > 1 else name: call for number, call in enumerate(calls, 1)}


def _shell(words: list[str], environment: Mapping[str, str], depth: int) -> Call:
    """bash -c 'TEXT', or bash FILE with the file's arguments."""
    for index, word in enumerate(words[1:-1], 1):
        if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
            arguments = Around(words[index + 3 :])  # behind the text comes $0, then $1
            return first_call(words[index + 1], environment, depth=depth + 1, around=arguments)
    at = next((i for i, word in enumerate(words[1:], 1) if not word.startswith("-")), 0)
    if not at or depth:  # a script inside a script is not opened
        command = short(" ".join(words[:3]))
        raise CommandError(f"{command} is not a serve command: name the file itself, or its text by -c")
    from oomph.commands.files import read

    return first_call(read(words[at]), environment, around=Around(words[at + 1 :]))


def first_call(text: str, environment: Mapping[str, str], *, depth: int = 0, around: Around | None = None) -> Call:
    """The one serve command of a shell text."""
    calls = script_calls(text, environment, depth=depth, around=around)
    if not calls:
        raise CommandError("no serve command is in the shell text", hint="oomph looks for vllm serve MODEL ...")
    if (refusal := calls[-1].refusal) is not None:
        raise refusal
    return calls[-1]


def script_calls(
    text: str, environment: Mapping[str, str], *, depth: int = 0, around: Around | None = None
) -> list[Call]:
    """Every serve command of a script, in order."""
    from oomph.commands import shell
    from oomph.commands.pasted import inline_code, plain  # its patterns take a while to compile

    commands: Sequence[shell.Command] = ()
    whole = _Whole("\n" in text.strip(), bool(TYPOGRAPHIC & set(text)))
    try:
        commands = shell.script(text, environment, around).commands
        calls = _calls(commands, whole, depth)
    except CommandError:
        calls = []
        if not _BLOCK.search(plain(text)):
            raise
    # no shell text as a whole (a post with prose around it): code inside its lines, else the lines that start a server
    started = sum(starts(call) for call in calls)
    if not started:
        blocks = inline_code(text)
    elif any(command.run for command in commands):  # what a shell takes for `...` may be code in prose, but no remark
        blocks = inline_code(re.sub(r"^[ \t]*#[^\n]*$", "", text, flags=re.MULTILINE))
    else:
        blocks = []
    if len(blocks) > started:
        calls = []
    elif calls:
        blocks = []
    else:
        blocks = [*_BLOCK.findall(plain(text)), *_LISTED.findall(plain(text))]
    for block in blocks:
        calls += _calls(shell.script(_sentence(block), environment, around).commands, whole, depth)
    return _with_server([call for call in calls if starts(call)] or _implied(calls), calls) or calls


def _sentence(block: str) -> str:
    """A command in running text ends where its sentence does."""
    end = re.search(r"(?<=\w)[.;:,]?[ \t]*$|(?<=\w)[.;:][ \t]+(?=[A-Z][a-z])", block)
    head = block[: end.start()] if end else block
    return head if "\n" not in block.strip() and head.count('"') % 2 == head.count("'") % 2 == 0 else block


def _implied(calls: Sequence[Call]) -> list[Call]:
    """The models that a script fetches for a server that it starts without one."""
    started = []
    for call in calls:
        name = engine_of(call.words)
        if words := engine_named(name).implied_start(call.words) if name else ():
            note = f"{' '.join(call.words[:2])} beside the server is read as {' '.join(words[:2])}"
            started.append(structs.replace(call, words=words, notes=(*call.notes, note)))
    return started


def _with_server(started: list[Call], calls: Sequence[Call]) -> list[Call]:
    """Where a server is started apart from its models (`ollama serve`), its variables hold for them."""
    apart = {one.name for one in all_engines() if fills(one, "implied_start")}
    servers = [call for call in calls if engine_of(call.words) in apart and not starts(call)]
    variables = {name: value for call in servers for name, value in call.environment.items()}
    return [
        structs.replace(call, environment={**variables, **call.environment}) if engine_of(call.words) in apart else call
        for call in started
    ]


class _Whole(NamedTuple):
    """What is seen in a text once, for all of its commands."""

    has_lines: bool
    is_typographic: bool


def _calls(commands: "Sequence[shell.Command]", text: _Whole, depth: int) -> list[Call]:
    """One of several that cannot be read is a refusal among the calls; where none can, the first refusal is raised."""
    calls: list[Call] = []
    for command in commands:
        if program(command.words[0]) in _SAYS:
            continue
        try:
            call = peel(command.words, command.environment, depth=depth + 1)
        except CommandError as error:
            rests = [command.words[i : i + _AHEAD] for i in range(len(command.words))]
            if any(engine_of(rest) and not _only_named(rest) for rest in rests):
                calls.append(Call((), refusal=error))
            continue
        if call.source or (text.has_lines and _is_prose(call.words)):
            continue
        call = structs.replace(call, words=_without_next_sentence(call.words))
        notes = (
            *call.notes,
            *(f"${name} is set nowhere in the text" for name in dict.fromkeys(command.unset)),
            *all_that_hold(
                (command.run, "the output of another command stands in it, which was not run"),
                (text.is_typographic, "curly quotes and long dashes were read as plain ones"),
            ),
        )
        calls.append(structs.replace(call, notes=notes, files={**command.files, **call.files}))
    if calls and all(call.refusal for call in calls):
        raise calls[0].refusal or CommandError("no serve command is in the shell text")
    return calls


def _without_next_sentence(words: tuple[str, ...]) -> tuple[str, ...]:
    """ "... -hf ORG/NAME:Q4_K_M. One command, straight from the hub": the full stop is not the name's."""
    for i, word in enumerate(words[:-1]):
        following = words[i + 1]
        if word[-1:] in (".", ";") and len(word) > 2 and following[0].isupper() and _PLAIN_WORD.fullmatch(following):
            rest = words[i + 1 :]
            return words if any(later.startswith("-") for later in rest) else (*words[:i], word[:-1])
    return words


def _is_prose(words: Sequence[str]) -> bool:
    """ "the vllm serve arguments", "run llama-server and wait": plain words where a model and flags would stand."""
    rest = [word for word in words[1:] if word not in ("serve", "run", "pull", "-m")]
    if len(rest) == 1 and engine_named(engine_of(words)).plain_names:
        return False
    named = [word for word in rest if not _PLAIN_WORD.fullmatch(word) or boundary.exists(word)]
    return bool(rest) and not named


def _python(words: list[str], environment: Mapping[str, str]) -> Call:
    """python -c CODE, or a script file with an LLM(...) call."""
    if "-c" in words[1:-1]:
        return Call(tuple(words[:1]), dict(environment), source=words[words.index("-c") + 1])
    path = next((word for word in words[1:] if word.endswith(".py")), "")
    if not path:
        raise CommandError(f"{short(' '.join(words[:3]))} does not start a server that oomph knows")
    from oomph.commands.files import read

    return Call(tuple(words[:1]), dict(environment), source=read(path))
