"""Every deployment that a command, a file or a text describes: the one entry of plan, check, pack and the page.

`read_deployments(words)` takes what people put behind `oomph plan`:

- `["vllm", "serve", "MODEL", ...]`: a command line, wrapped or not;
- `["compose.yaml"]`, `["compose.yaml:chat"]`: a file, or one deployment of it by its name or its model;
- `["start.sh", "MODEL"]`: a script with its arguments;
- `["some text with a command in it"]`: what a post, a manifest or a terminal says.

One of several that cannot be read does not hide the others: its `Entry` says why.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from oomph.commands import files
from oomph.commands.call import TYPOGRAPHIC, UNSET, Around, Call, open_model, pinned_releases, short, shown
from oomph.commands.wrappers import engine_of, peel
from oomph.engines.protocol import EngineProtocol
from oomph.engines.registry import DEFAULT, all_engines, engine_named, engine_of as engine_of_deployment
from oomph.errors import CommandError, OomphError
from oomph.ir import Deployment, Engine
from oomph.ir.deployment import Place
from oomph.sources import boundary
from oomph.sources.place import folders_of
from oomph.text.late import late_pattern

_SCRIPTS = (".sh", ".bash", ".zsh", ".sbatch", ".slurm")
_FILES = (
    *(*_SCRIPTS, ".yaml", ".yml", ".py", ".ipynb", ".service", ".container", ".bat", ".cmd", ".ps1", ".md"),
    *(".hcl", ".nomad", ".tf"),
)
# a remark in a file: "# oomph: gpu = 2x L40S" says on what the deployments below it run
_GPU_REMARK = late_pattern(
    r"^[^\S\n]*(?:#|//|;)+[^\S\n]*oomph:[^\S\n]*gpu[^\S\n]*[=:]?[^\S\n]*(\S[^\n]*)$", re.MULTILINE
)
# "# oomph: model org/name = ./folder" says what a name is, "# oomph: model = ./folder" what those below it serve
_MODEL_REMARK = late_pattern(
    r"^[^\S\n]*(?:#|//|;)+[^\S\n]*oomph:[^\S\n]*model\b[^\S\n]*([^\s=]*)[^\S\n]*=[^\S\n]*(\S+)[^\S\n]*$", re.MULTILINE
)
_PLACEHOLDER = late_pattern(
    r"<[^>]*>|\{\w*\}|\{\{.*|\.\.\.|…|\[[^\]]*\]"
)  # <model>, {model}, [MODEL]: an example's own words
_ODD = frozenset("<{[$`…")  # one of them, or three points, is in all that the two of them match
_VARIABLE = late_pattern(r"\$\{?([A-Za-z_]\w*)\}?")
_OF_ADDRESS = ("--port", "--host", "--served-model-name", "--api-key")
_SHOWN_NAMES = 8
_LONGEST_PATH = 4096  # PATH_MAX
_MOST_COLONS = 8


class Entry(Struct, frozen=True):
    """One deployment of a command or a file, or why it could not be read. One of `deployment` and `error` is there."""

    name: str  # of the service, container, target or command; "" where a command stands alone
    deployment: Deployment | None = None  # its GPUs are not known yet
    error: OomphError | None = None
    line: int = 0  # where the file speaks of it, from 1; 0 = not known


def read_deployments(
    words: str | Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    engine: Engine | str | None = None,
    outside: Mapping[str, str] | None = None,
) -> list[Entry]:
    """At least one entry, in the order of the file; a command, file or text that holds none is an error.

    `environment` is what the engine is started with, `outside` are variables that a file's own $NAME may stand for.
    """
    words = [word.replace("\0", "") for word in ([words] if isinstance(words, str) else words)]
    variables = dict(environment or {})
    around = Around(words[1:], outside or {})
    if is_text(words):
        return entries_of_text(words[0], "", variables, engine, around)
    if _names_file(words):
        return _entries_of_file(words[0], variables, engine, around)
    if any(word[:1] in TYPOGRAPHIC for word in words if word):
        # a shell that met curly quotes has split the command where it should not have
        return entries_of_text(" ".join(words), "", variables, engine, Around())
    call = peel(words, variables)
    call = replace(call, pinned=pinned_releases(" ".join(words[:20])))
    deployments = _deployments(call, engine)
    if not deployments:
        raise CommandError("no serve command is in the command", hint="oomph looks for vllm serve MODEL ...")
    return [Entry(str(i) if len(deployments) > 1 else "", d) for i, d in enumerate(deployments, 1)]


def is_text(words: Sequence[str]) -> bool:
    """One word with a space in it that is no file and none of a file's deployments: a whole command or post."""
    if len(words) != 1 or " " not in words[0].strip() or boundary.exists(words[0]):
        return False
    return "\n" in words[0] or not files.is_text(_split_name(words[0])[0])


def place(words: Sequence[str]) -> str:
    """What to call the place where the entries of `words` stand."""
    if is_text(words):
        return "the text"
    return shown(_split_name(words[0])[0]) if _names_file(words) else "the command"


def entries_of_text(
    text: str, path: str, environment: Mapping[str, str], engine: Engine | str | None, around: Around
) -> list[Entry]:
    """Every deployment of a text; `path` is the file it is from, "" = none."""
    from oomph.commands import texts

    name = os.path.basename(path)
    calls = texts.calls(text, name, environment, around)
    entries = [entry for key, call in calls.items() for entry in _entries(key, call, engine, path)]
    if not entries:
        raise texts.none_found(name)
    placed = _with_named_models(_with_lines(entries, text), text, os.path.dirname(path))
    return _with_named_gpus(_with_remarks(placed, text), text)


def distinct(entries: Iterable[Entry]) -> list[Entry]:
    """The entries that differ in what decides memory; replicas on other ports are the first of them again."""
    first: dict[object, Entry] = {}
    for entry in entries:
        first.setdefault(_memory_key(entry), entry)
    return list(first.values())


def _memory_key(entry: Entry) -> object:
    deployment = entry.deployment
    if deployment is None:
        return entry.name
    flags = repr(engine_of_deployment(deployment).memory_flags(deployment))
    return deployment.model, flags, deployment.engine, deployment.gpu_name, deployment.gpu_count


def only_one(entries: Sequence[Entry], where: str) -> Deployment:
    """The deployment where there is one; else the error, or a sentence that names them."""
    several = distinct(entries)
    if len(several) > 1:
        names = ", ".join(_with_model(entry) for entry in several[:_SHOWN_NAMES])
        more = f" and {len(several) - _SHOWN_NAMES} more" if len(several) > _SHOWN_NAMES else ""
        first = next((entry.name for entry in several if entry.deployment), several[0].name)
        raise CommandError(
            f"{where} holds {len(several)} serve commands: {shown(names)}{more}",
            hint=f"name one as {'FILE' if where.startswith('the ') else where}:{first}",
        )
    entry = several[0]
    if entry.error is not None or entry.deployment is None:
        raise entry.error or CommandError(f"no serve command is in {where}")
    return entry.deployment


def named(entries: Sequence[Entry], wanted: str, where: str) -> list[Entry]:
    """The entries that a name picks: the whole name, what stands behind its last slash or its kind, or the model."""
    for fits in (_is_called, _ends_in, _serves):
        if picked := [entry for entry in entries if fits(entry, wanted)]:
            return picked
    raise CommandError(f"{where} has no {short(wanted)}, only {shown(', '.join(entry.name for entry in entries))}")


def engine_of_call(call: Call) -> EngineProtocol:
    if call.source:
        return next((one for one in all_engines() if one.calls_in(call.source)), engine_named(DEFAULT))
    return engine_named(engine_of(call.words))


def _with_model(entry: Entry) -> str:
    return f"{entry.name} ({entry.deployment.model})" if entry.deployment else entry.name


def _is_called(entry: Entry, wanted: str) -> bool:
    return entry.name == wanted


def _ends_in(entry: Entry, wanted: str) -> bool:
    """`vllm`, `qwen` or `qwen/vllm` for "Deployment qwen/vllm"."""
    return wanted in re.split(r"[ /]", entry.name) or entry.name.endswith(("/" + wanted, " " + wanted))


def _serves(entry: Entry, wanted: str) -> bool:
    return entry.deployment is not None and entry.deployment.model == wanted


def _names_file(words: Sequence[str]) -> bool:
    """FILE, FILE:NAME, or SCRIPT with its arguments; a program's own path is a command."""
    if len(words) != 1:
        return bool(words) and words[0].endswith(_SCRIPTS) and files.is_text(words[0])
    path, name = _split_name(words[0])
    if engine_of(words) and not name:
        return False
    return path.endswith(_FILES) or files.is_text(path)


def _split_name(word: str) -> tuple[str, str]:
    """FILE:NAME; a name may hold colons itself (a model with its quantisation), a file's name may too."""
    if files.is_text(word) or word.endswith(_FILES):
        return word, ""
    for colon in islice(re.finditer(":", word[:_LONGEST_PATH]), _MOST_COLONS):
        at = colon.start()
        if files.is_text(word[:at]) or word[:at].endswith(_FILES):
            return word[:at], word[at + 1 :]
    path, _, name = word.rpartition(":")
    return path or word, name


def _entries_of_file(
    word: str, environment: Mapping[str, str], engine: Engine | str | None, around: Around
) -> list[Entry]:
    path, entry = _split_name(word)
    entries = read_file_text(files.read(path), path, environment=environment, engine=engine, around=around)
    return named(entries, entry, shown(path)) if entry else entries


def read_file_text(
    text: str,
    path: str,
    *,
    environment: Mapping[str, str] | None = None,
    engine: Engine | str | None,
    around: Around | None,
) -> list[Entry]:
    """The deployments of a file whose text is read already; variables of an .env file beside it count."""
    from oomph.commands.neighbours import job_variables, with_neighbours

    around = around or Around()
    beside = files.variables(os.path.join(os.path.dirname(path), ".env"))
    around = replace(around, outside={**job_variables(text), **beside, **around.outside})
    text = with_neighbours(text, path)
    return entries_of_text(text, path, dict(environment or {}), engine, around)


def _entries(key: str, call: Call, engine: Engine | str | None, path: str) -> list[Entry]:
    try:
        deployments = _deployments(call, engine, path)
    except OomphError as error:  # one of several: the others can still be planned
        return [Entry(key, error=_with_all_that_is_open(error, call.words))]
    return [Entry(key if len(deployments) == 1 else f"{key} {i}", d) for i, d in enumerate(deployments, 1)]


def _with_all_that_is_open(error: OomphError, words: Sequence[str]) -> OomphError:
    """An error that asks for one variable asks for all that the command leaves open, but for those of its address."""
    text = str(error)
    if "--set " not in text:
        return error
    pairs = [(before, _VARIABLE.fullmatch(word)) for before, word in zip(("", *words), words, strict=False)]
    names = dict.fromkeys(match[1] for before, match in pairs if match and before not in _OF_ADDRESS)
    more = " ".join(f"--set {name}=..." for name in names if f"--set {name}=" not in text)
    return CommandError(f"{text} {more}", hint=error.hint) if more else error


def _deployments(call: Call, release: Engine | str | None, path: str = "") -> list[Deployment]:
    """`path`: of the file that the command is from; "" = it was typed."""
    if call.refusal is not None:
        raise call.refusal
    call, mounted = _on_this_machine(_with_config_beside(call, os.path.dirname(path)), os.path.dirname(path))
    place = Place(
        folders_of(path) if path else ("",),
        container=call.container or bool(call.image),
        mounted=mounted,
        exact=True,
        believed=not path,
    )
    engine = engine_of_call(call)
    vendor = engine.image_vendor(call.image) if call.image else ""
    read = engine.read_command(call, release)
    deployments = [replace(deployment, place=place, image_vendor=vendor) for deployment in read]
    for deployment in deployments:
        if path.endswith(".service") and re.search(r"^%[a-zA-Z]$|%[iIjJ]", deployment.model):  # systemd's specifiers
            raise open_model(deployment.model)
        if _ODD.isdisjoint(deployment.model) and "..." not in deployment.model:
            continue
        if _PLACEHOLDER.fullmatch(deployment.model):
            raise CommandError(f"the model is {short(deployment.model)}: put its name in its place")
        # $MODELS/x.gguf has a name, $MODELS/$FILE and Qwen/Qwen3-${SIZE}B have none
        if UNSET.fullmatch(deployment.model) or UNSET.search(deployment.model.rpartition("/")[2]):
            raise open_model(deployment.model)
    if not (call.gpu_name or call.memory_limit or call.gpu_memory):
        return deployments
    limits = {"gpu_name": call.gpu_name, "memory_limit": call.memory_limit, "gpu_memory": call.gpu_memory}
    return [replace(deployment, **limits) for deployment in deployments]


def _with_config_beside(call: Call, folder: str) -> Call:
    """`--config FILE` of a script that stands beside the file, wherever it is read from."""
    words = list(call.words)
    for i, word in enumerate(words):
        flag, sign, path = word.partition("=") if word.startswith("--config=") else ("", "", word)
        if not (sign or (i and words[i - 1] == "--config")) or not folder or boundary.exists(path):
            continue
        if boundary.is_file(os.path.join(folder, path)):
            words[i] = f"{flag}{sign}{os.path.join(folder, path)}"
    return replace(call, words=tuple(words))


def _on_this_machine(call: Call, folder: str) -> tuple[Call, tuple[str, ...]]:
    """A container's path where this machine has it: with -v /srv/models:/models, /models/x is /srv/models/x. `folder`:
    where what is mounted by a relative path lies. The paths that were found are returned too."""
    words, notes, mounted = list(call.words), [], []
    for i, word in enumerate(words):
        flag, sign, path = word.partition("=") if word.startswith("--") else ("", "", word)
        for there, here in call.mounts.items():
            if path != there and not path.startswith(there + "/"):
                continue
            host = os.path.normpath(os.path.join(folder, os.path.expanduser(here) + path[len(there) :]))
            if boundary.exists(host):
                words[i] = f"{flag}{sign}{host}"
                mounted.append(host)
                notes.append(f"{short(path)} in the container is {short(host)} on this machine")
    call = replace(call, words=tuple(words), notes=(*call.notes, *notes)) if notes else call
    return call, tuple(mounted)


def _with_lines(entries: list[Entry], text: str) -> list[Entry]:
    """The line that names each one's model (the next time for the next that serves it), else the line of its name."""
    counts: dict[str, int] = {}
    lines = []
    for entry in entries:
        words = [entry.deployment.model] if entry.deployment else []
        at = -1
        for word in filter(None, (*words, re.split(r"[ /]", entry.name)[-1])):
            if word.isdigit():
                continue
            at = text.find(word, counts.get(word, 0))
            at = text.find(word) if at < 0 else at
            if at >= 0:
                counts[word] = at + len(word)
                break
        lines.append(replace(entry, line=text.count("\n", 0, at) + 1 if at >= 0 else 0))
    return lines


def _with_remarks(entries: list[Entry], text: str) -> list[Entry]:
    """The GPUs of the nearest remark above an entry; of the file's first remark where none stands above it."""
    remarks = [(text.count("\n", 0, match.start()) + 1, match[1].strip()) for match in _GPU_REMARK.finditer(text)]
    if not remarks:
        return entries
    out = []
    for entry in entries:
        above = [gpus for line, gpus in remarks if line <= entry.line] or [remarks[0][1]]
        deployment = entry.deployment
        out.append(replace(entry, deployment=replace(deployment, gpu_name=above[-1])) if deployment else entry)
    return out


def _with_named_models(entries: list[Entry], text: str, folder: str) -> list[Entry]:
    """What remarks say of the names of models; `folder`: from where a relative path of theirs counts."""
    remarks = [(text.count("\n", 0, m.start()) + 1, m[1], m[2]) for m in _MODEL_REMARK.finditer(text)]
    if not remarks:
        return entries
    out = []
    for entry in entries:
        deployment = entry.deployment
        if deployment is not None:
            named = [(name, _beside(what, folder)) for _, name, what in remarks if name]
            above = [what for line, name, what in remarks if not name and line <= entry.line]
            named += [(deployment.model, _beside(what, folder)) for what in above[-1:]]
            deployment = with_names(deployment, dict(named))
        out.append(replace(entry, deployment=deployment))
    return out


def _beside(what: str, folder: str) -> str:
    return os.path.normpath(os.path.join(folder, what)) if what.startswith((".", "~")) and folder else what


def built_here(entry: Entry) -> Entry:
    """--own-build: the engine has kernels for the GPUs, whatever its published packages have."""
    return replace(entry, deployment=replace(entry.deployment, own_build=True)) if entry.deployment else entry


def with_names(deployment: Deployment, names: Mapping[str, str]) -> Deployment:
    """The deployment with what somebody says that names of models are."""
    place = replace(deployment.place, names=(*deployment.place.names, *names.items()))
    return replace(deployment, place=place)


def _with_named_gpus(entries: list[Entry], text: str) -> list[Entry]:
    """What the text says about GPUs outside of the deployments themselves."""
    if any(entry.deployment and entry.deployment.gpu_name for entry in entries):
        return entries
    from oomph.commands import named_gpus

    declared, mention = named_gpus.declared(text), named_gpus.mentioned(text)
    if not any((*declared, mention)):
        return entries
    out = []
    for entry in entries:
        deployment = entry.deployment
        if deployment is not None:
            count = deployment.gpu_count or declared.number
            deployment = replace(deployment, gpu_name=declared.gpus, gpu_mention=mention, gpu_count=count)
        out.append(replace(entry, deployment=deployment))
    return out
