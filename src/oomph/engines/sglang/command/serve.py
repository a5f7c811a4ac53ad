"""`python -m sglang.launch_server ...` and `sglang serve ...` to a Deployment, and back, as argparse reads them."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from oomph.commands.call import UNSET, Call, finite, program, short
from oomph.errors import CannotPlan, CommandError
from oomph.facts.sglang.flag_effects import EFFECTS
from oomph.facts.sglang.flags import Flag, Options, options_of
from oomph.facts.sglang.versions import parse as parse_version
from oomph.ir import Deployment, Engine
from oomph.text.late import late_pattern
from oomph.text.nesting import bounded

_NEGATIVE = late_pattern(r"-\d+|-\d*\.\d+")
_HUMAN = {"k": 1000, "m": 10**6, "g": 10**9, "K": 1024, "M": 1024**2, "G": 1024**3}
_SERVERS = ("launch_server", "srt.entrypoints.http_server", "bench_one_batch", "bench_offline_throughput")
# fields that nothing of memory depends on, and that two servers of the same kind differ in
FRONTEND = ("host", "port", "served_model_name", "api_key", "admin_api_key", "log_level", "nccl_port")


def deployment(call: Call, release: Engine, notes: Sequence[str] = ()) -> Deployment:
    words = _arguments(call.words)
    release, older = _release_of_flags(words, release)
    flags, remarks = parse(words, options_of(release.version))
    model = flags.pop("model_path", None)
    if not isinstance(model, str) or not model:
        raise CommandError("no model is named: SGLang takes --model-path ORG/NAME or a folder")
    effects = EFFECTS.sentences(flags, {field: "--" + field.replace("_", "-") for field in flags})
    options = options_of(release.version)
    names = {name: field for word in words if (field := options.field_of(name := word.partition("=")[0]))}
    return call.starts(release, model, flags, (*notes, *older, *remarks, *effects), names=names)


def _release_of_flags(words: Sequence[str], release: Engine) -> tuple[Engine, tuple[str, ...]]:
    """Nobody named the release: a flag that went means an older one, and a note says so."""
    if release.version_from != "newest known":
        return release, ()
    options = options_of(release.version)
    names = {word.partition("=")[0] for word in words if word.startswith("--")}
    ends = {last: name for name in sorted(names) if (last := options.last_release_with(name))}
    if not ends:
        return release, ()
    version = min(ends, key=parse_version)
    note = f"{options.story(ends[version])}: nobody names a release, so this is planned as {version}, the last with it"
    return Engine(release.name, version, "the last with all flags"), (note,)


def starts_server(words: Sequence[str]) -> bool:
    if program(words[0]) == "sglang":
        return tuple(words[1:2]) == ("serve",)
    module = words[words.index("-m", 1) + 1] if "-m" in words[1:-1] else ""
    return module.removeprefix("sglang.") in _SERVERS


def _arguments(words: Sequence[str]) -> list[str]:
    """The words after the program; `sglang serve MODEL` names the model first (cli/serve.py)."""
    if program(words[0]) == "sglang":
        if tuple(words[1:2]) != ("serve",):
            raise CannotPlan(f"`sglang {short(' '.join(words[1:2]))}` starts no server: `sglang serve` does")
        rest = list(words[2:])
        return ["--model-path", *rest] if rest and not rest[0].startswith("-") else rest
    return list(words[words.index("-m", 1) + 2 :])


def parse(words: Sequence[str], options: Options) -> tuple[dict[str, Any], list[str]]:
    flags: dict[str, Any] = {}
    notes: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not _is_option(word):
            raise CommandError(f"SGLang would stop with: unrecognized arguments: {short(word)}")
        name, flag, explicit = _resolve(word, options)
        if flag is None:  # --config FILE: read by nobody here
            notes.append(f"{name} names a file of further flags, which is not read")
            at += 0 if explicit is not None else 1
            continue
        if flag.kind in ("store_true", "bool"):
            if explicit is not None:
                raise CommandError(f"argument {name}: ignored explicit argument {short(explicit)}")
            flags[flag.field] = not name.startswith("--no-")
            continue
        if explicit is not None:
            values = [explicit]
        else:
            end = at
            most = None if flag.kind.startswith("list") else 1
            while end < len(words) and not _is_option(words[end]) and (most is None or end - at < most):
                end += 1
            values, at = list(words[at:end]), end
        _put(flags, notes, flag, name, values)
    return flags, notes


def _put(flags: dict[str, Any], notes: list[str], flag: Flag, name: str, values: list[str]) -> None:
    if not values and flag.kind != "maybe":
        raise CommandError(
            f"argument {name}: expected {'at least one' if flag.kind.startswith('list') else 'one'} argument"
        )
    if any(UNSET.fullmatch(value) for value in values) and flag.kind != "str":
        notes.append(f"{name} is {short(values[0])}, which nothing sets: left out")
        return
    if flag.kind.startswith("list"):
        flags[flag.field] = [_value(flag, name, value) for value in values]
    else:
        flags[flag.field] = _value(flag, name, values[0]) if values else True


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-" and not _NEGATIVE.fullmatch(word)


def _resolve(word: str, options: Options) -> tuple[str, Flag | None, str | None]:
    """The flag that a word means: by its name, or by a beginning that only one flag has."""
    names = options.by_name
    key, equals, value = word.partition("=")
    explicit = value if equals else None
    if key in names:
        return key, names[key], explicit
    positive = "--" + key.removeprefix("--no-")
    if key.startswith("--no-") and positive in names and names[positive].kind == "bool":
        return key, names[positive], explicit
    if key == "--config":
        return key, None, explicit
    if key in ("-h", "--help"):
        raise CommandError("--help prints SGLang's help and starts no server")
    meant = {names[name].field: name for name in names if name.startswith(key)} if key.startswith("--") else {}
    if len(meant) == 1:
        name = next(iter(meant.values()))
        return name, names[name], explicit
    if meant:
        choices = ", ".join(sorted(name for name in names if name.startswith(key))[:6])
        hint = options.story(key)
        raise CommandError(f"ambiguous option: {key} could match {choices}", hint=hint)
    raise CommandError(
        options.story(key) or f"SGLang {options.release} has no flag {short(key)}" + _close(key, options),
        hint=f"SGLang would stop with: unrecognized arguments: {short(word)}",
    )


def _close(key: str, options: Options) -> str:
    from difflib import get_close_matches

    close = get_close_matches(key, options.by_name, n=2, cutoff=0.75)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _value(flag: Flag, name: str, text: str) -> Any:
    try:
        if flag.kind in ("int", "list[int]"):
            return int(text)
        if flag.kind == "human":
            return _human(text)
        if flag.kind == "float":
            return finite(text)
    except (ValueError, OverflowError):
        kind = {"list[int]": "int", "human": "int"}.get(flag.kind, flag.kind)
        raise CommandError(f"argument {name}: invalid {kind} value: {short(repr(text))}") from None
    if flag.kind == "json":
        try:
            return json.loads(bounded(text))
        except (ValueError, RecursionError):
            raise CommandError(f"argument {name}: {short(text)} is not JSON") from None
    return text


def _human(text: str) -> int:
    """utils/common.py human_readable_int: 32k is 32,000 and 32K is 32,768."""
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)([kmgKMG]?)", text.strip())
    if match is None:
        raise ValueError(text)
    return int(float(match[1]) * _HUMAN.get(match[2], 1))


def check(deployment_flags: Mapping[str, Any]) -> None:
    """Numbers that no server has."""
    for field in ("tp_size", "pp_size", "dp_size", "ep_size", "page_size", "attn_dp_size"):
        value = deployment_flags.get(field)
        if isinstance(value, int) and not 1 <= value <= 4096:
            raise CommandError(f"--{field.replace('_', '-')} {value}: it is at least 1")
    fraction = deployment_flags.get("mem_fraction_static")
    if isinstance(fraction, float) and not 0 < fraction < 1:
        raise CommandError(f"--mem-fraction-static {fraction:g}: it is between 0 and 1")


def to_words(deployment: Deployment) -> list[str]:
    """The command line of a deployment, in the release's own spelling."""
    options = options_of(deployment.engine.version)
    words = ["python", "-m", "sglang.launch_server", "--model-path", deployment.model]
    known = options.by_field
    for field, value in deployment.flags.items():
        flag = known.get(field)
        name = options.option(field, deployment.spelling.get(field, ""))
        if flag is None or not name or value is None:
            continue
        if flag.kind in ("store_true", "bool"):
            if value:
                words.append(name)
            elif flag.kind == "bool":
                words.append("--no-" + name.removeprefix("--"))
        elif isinstance(value, (list, tuple)):
            words += [name, *(str(item) for item in value)]
        elif flag.kind == "json":
            words += [name, json.dumps(value)]
        else:
            words += [name, f"{value:g}" if isinstance(value, float) else str(value)]
    return words


# The same command under another release: flags that it lacks are left out, those that it renamed are renamed.

# fields that went by another name (0.5.14 gave each kind of graph its own flags)
_RENAMED = {
    "cuda_graph_max_bs": "cuda_graph_max_bs_decode",
    "cuda_graph_bs": "cuda_graph_bs_decode",
    "mamba_scheduler_strategy": "mamba_radix_cache_strategy",
}


def at_release(deployment: Deployment, options: Options) -> tuple[Deployment, tuple[str, ...]]:
    known = options.by_field
    back = {new: old for old, new in _RENAMED.items()}
    flags: dict[str, Any] = {}
    sentences = []
    for field, value in deployment.flags.items():
        name = field if field in known else _RENAMED.get(field, back.get(field, ""))
        if name in known:
            flags[name] = value
        else:
            spelled = options_of(deployment.engine.version).option(field) or f"--{field.replace('_', '-')}"
            sentences.append(f"SGLang {options.release} has no {spelled}: left out")
    moved = replace(deployment, flags=flags, engine=replace(deployment.engine, version=options.release))
    return moved, tuple(sentences)
