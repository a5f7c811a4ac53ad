"""`python -m sglang.launch_server ...` and `sglang serve ...` to a Deployment, and back, as argparse reads them."""

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from oomph.commands.call import UNSET, Call, finite, program, short
from oomph.engines.common.arguments import SWITCHES, Unread, Use, check_count, meant, most_words, read_words
from oomph.errors import CannotPlan, CommandError
from oomph.facts.sglang.flag_effects import EFFECTS
from oomph.facts.sglang.flag_rows import CONSTANTS
from oomph.facts.sglang.flags import Flag, Options, options_of
from oomph.facts.sglang.versions import parse as parse_version
from oomph.ir import Deployment, Engine
from oomph.text.nesting import bounded

_DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
_SUFFIXES = ". Use a plain integer, SI suffixes (1k, 1M), or IEC suffixes (1Ki, 1Mi). Suffixes are case-sensitive."
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
    negated = {"--no-" + name[2:]: flag for name, flag in options.by_name.items() if flag.kind == "bool"}
    names: dict[str, Flag | None] = {**negated, **options.by_name, **dict.fromkeys(("--config", "--help", "-h"))}
    try:
        for use in read_words(words, names, lambda name: _most(names[name], name), lambda n: _field(names[n], n)):
            _take(flags, notes, use, names, options)
    except Unread as unread:
        raise _refusal(unread, options) from None
    return flags, notes


def _most(flag: Flag | None, name: str) -> int | None:
    """How many words it takes; --config has one."""
    return most_words("str" if flag is None else _kind(flag, name))


def _kind(flag: Flag, name: str) -> str:
    return "store_true" if name in CONSTANTS else flag.kind


def _field(flag: Flag | None, name: str) -> str:
    return name if flag is None else f"{name.startswith('--no-')} {flag.field}"


def _take(
    flags: dict[str, Any], notes: list[str], use: Use, names: Mapping[str, Flag | None], options: Options
) -> None:
    name, texts = use.name, use.texts
    if not name:
        raise CommandError(f"SGLang would stop with: unrecognized arguments: {short(texts[0])}")
    flag = names[name]
    if flag is None and name != "--config":
        raise CommandError("--help prints SGLang's help and starts no server")
    if flag is None:
        notes.append(f"{name} names a file of further flags, which is not read")
        return
    check_count(use, _kind(flag, name))
    if _kind(flag, name) in SWITCHES:
        flags[flag.field] = CONSTANTS.get(name, not name.startswith("--no-"))
    elif any(UNSET.fullmatch(text) for text in texts) and flag.kind != "str":
        notes.append(f"{name} is {short(texts[0])}, which nothing sets: left out")
    else:
        kind = "int" if flag.kind == "human" and not options.has_suffixes else flag.kind
        values = [_value(kind, name, text) for text in texts]
        flags[flag.field] = values if flag.kind.startswith("list") else values[0] if values else True


def _refusal(unread: Unread, options: Options) -> CommandError:
    story = options.story(unread.key)
    if unread.matches:
        choices = ", ".join(sorted(unread.matches)[:6])
        return CommandError(f"ambiguous option: {unread.key} could match {choices}", hint=story)
    return CommandError(
        story or f"SGLang {options.release} has no flag {short(unread.key)}" + _close(unread.key, options),
        hint=f"SGLang would stop with: unrecognized arguments: {short(unread.word)}",
    )


def _close(key: str, options: Options) -> str:
    from difflib import get_close_matches

    return meant(get_close_matches(key, options.by_name, n=2, cutoff=0.75))


def _value(kind: str, name: str, text: str) -> Any:
    try:
        if kind in ("int", "list[int]"):
            return int(text)
        if kind == "human":
            return _human(text)
        if kind == "float":
            return finite(text)
    except (ValueError, OverflowError):
        if kind == "human":
            raise CommandError(f"argument {name}: Invalid integer value: {short(text)}{_SUFFIXES}") from None
        word = "int" if kind == "list[int]" else kind
        raise CommandError(f"argument {name}: invalid {word} value: {short(text)}") from None
    if kind == "json":
        try:
            return json.loads(bounded(text))
        except (ValueError, RecursionError):
            raise CommandError(f"argument {name}: {short(text)} is not JSON") from None
    return text


def _human(text: str) -> int:
    """utils/common.py human_readable_int (0.5.10): 32k is 32,000 and 32Ki is 32,768, and 32K is nothing."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)", text.strip())
    if match is None:
        return int(text)
    number, suffix = match.groups()
    size = Decimal(number) if suffix in _DECIMAL else int(number)
    return int(size * (_DECIMAL | _BINARY)[suffix])


def check(deployment_flags: Mapping[str, Any]) -> None:
    """Numbers that no server has."""
    for field in ("tp_size", "pp_size", "dp_size", "ep_size", "page_size", "attn_dp_size"):
        value = deployment_flags.get(field)
        if isinstance(value, int) and not 1 <= value <= 4096:
            raise CommandError(f"--{field.replace('_', '-')} {value}: it is at least 1")
    for field, least in (("base_gpu_id", 0), ("gpu_id_step", 1)):  # server_args.py check_server_args
        value = deployment_flags.get(field)
        if isinstance(value, int) and not least <= value <= 4096:
            raise CommandError(f"--{field.replace('_', '-')} {value}: it is at least {least}")
    fraction = deployment_flags.get("mem_fraction_static")
    if isinstance(fraction, float) and not 0 < fraction < 1:
        raise CommandError(f"--mem-fraction-static {fraction:g}: it is between 0 and 1")


def to_words(deployment: Deployment) -> list[str]:
    """The command line of a deployment, in the release's own spelling."""
    options = options_of(deployment.engine.version)
    words = ["python", "-m", "sglang.launch_server", "--model-path", deployment.model]
    rows = options.by_field
    for field, value in deployment.flags.items():
        flag = rows.get(field)
        name = options.option(field, deployment.spelling.get(field, ""))
        if flag is None or not name or value is None:
            continue
        if flag.kind in SWITCHES:
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
    rows = options.by_field
    back = {new: old for old, new in _RENAMED.items()}
    flags: dict[str, Any] = {}
    sentences = []
    for field, value in deployment.flags.items():
        name = field if field in rows else _RENAMED.get(field, back.get(field, ""))
        if name in rows:
            flags[name] = value
        else:
            spelled = options_of(deployment.engine.version).option(field) or f"--{field.replace('_', '-')}"
            sentences.append(f"SGLang {options.release} has no {spelled}: left out")
    moved = replace(deployment, flags=flags, engine=replace(deployment.engine, version=options.release))
    return moved, tuple(sentences)
