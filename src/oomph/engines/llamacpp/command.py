"""`llama-server ...` and `llama-cli ...` to a Deployment, and back."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from oomph.commands.call import Call, program, short
from oomph.engines.common.arguments import Use, meant, read_in_order
from oomph.errors import CannotPlan, CommandError
from oomph.facts.llamacpp.builds import LOAD_MODE_SINCE, parse_build, unknown_release
from oomph.facts.llamacpp.flags import (
    BEFORE_LOAD_MODE,
    BY_NAME,
    EXPERTS,
    MLP,
    NOT_PLANNED,
    ROWS,
    SWITCHED,
    SWITCHES,
    VALUED,
    Flag,
)
from oomph.ir import Deployment, Engine
from oomph.text.late import late_pattern

_MOST = 1 << 31
_PATTERN = 400  # characters of a regular expression that is still one to run
_YES = {"1", "on", "true", "enabled", "yes"}
_NO = {"0", "off", "false", "disabled", "no"}
_METADATA = late_pattern(r"([^=]{1,127})=(?:int|float|bool|str):(.{0,127})")
_ALONE = ("true", "false", "cpu_moe")  # kinds of flags without a value


def deployment(call: Call, release: Engine, request: str = "") -> Deployment:
    """`request`: what --engine says; a release by its number (v0.9.0) is a build by now."""
    name = program(call.words[0])
    if name not in ("llama-server", "llama-cli", "llama", "server", "main"):  # the last two until mid-2024
        raise CannotPlan(f"{short(name)} commands are not read: llama-server's and llama-cli's are")
    words = call.words[1:]
    if name == "llama" and words and words[0][:1] != "-":  # llama serve, llama cli
        words = words[1:]
    flags, notes, passed = parse(words, is_known_build=not unknown_release(release.version))
    if request:
        _refuse_gone_flags(call.words[1:], parse_build(release.version))
    for row in ROWS:
        text = call.environment.get(row.environment) if row.environment else None
        if text is not None and row.field not in flags:
            _set(flags, row, row.environment, text)
    number = request.rpartition("==")[2]
    if "." in number and (newer := unknown_release(number)):
        notes = [*notes, newer]
    flags["program"] = "cli" if name in ("llama-cli", "main") else "server"
    return replace(call.starts(release, model_of(flags), flags, notes, names=_FIELDS), passed=tuple(passed))


_OWN_TAG = late_pattern(r"-((?:I?Q\d\w*|BF16|F16))-GGUF$", re.IGNORECASE)


def model_of(flags: Mapping[str, Any]) -> str:
    if flags.get("model"):
        return str(flags["model"])
    if flags.get("hf_repo"):
        repo, file = str(flags["hf_repo"]), flags.get("hf_file")
        own = _OWN_TAG.search(repo)  # a repository of one file, which its name says: NAME-Q8_0-GGUF
        tag = own[1].upper() if own else "Q4_K_M"
        return f"{repo.partition(':')[0]}/{file}" if file else repo if ":" in repo else f"{repo}:{tag}"
    if flags.get("model_url"):
        return str(flags["model_url"])
    raise CommandError("no model is named: llama-server takes -m FILE.gguf or -hf ORG/NAME:QUANT")


class Parsed(NamedTuple):
    flags: dict[str, Any]
    notes: list[str]
    passed: list[str]  # what decides no memory: --jinja, --port 8080


def parse(words: Sequence[str], *, is_known_build: bool = True) -> Parsed:
    flags: dict[str, Any] = {}
    notes: list[str] = []
    passed: list[str] = []
    for use in read_in_order(words, _takes):
        name, row = use.name, _row(use.name)
        if row is not None:
            _set(flags, row, name, _text(row, use))
        elif not name:
            notes.append(_stray(use.texts[0], is_known_build))
        else:
            if not {name, use.words[0]} & (SWITCHES | VALUED | SWITCHED):
                notes.append(_unknown(name, is_known_build))
            elif name in NOT_PLANNED:
                notes.append(f"{name} is not in this plan: what it adds or moves is not counted")
            passed += use.words
    return Parsed(flags, notes, passed)


def _row(name: str) -> Flag | None:
    return BY_NAME.get(name.replace("_", "-") if name.startswith("--") else name)


def _takes(name: str, word: str) -> bool:
    """Whether the word behind a flag is its value; of a flag that no row has, where it does not look like one."""
    row = _row(name)
    if row is None:
        looks_like_a_flag = word.startswith("-") and not re.fullmatch(r"-\d[\d.]*", word)
        return name not in SWITCHES | SWITCHED and not looks_like_a_flag
    # builds before mid-2025: -fa alone
    return row.kind not in _ALONE and (row.kind != "onoff" or word.lower() in {*row.choices, *_YES, *_NO})


def _text(row: Flag, use: Use) -> str:
    if row.kind in _ALONE or (row.kind == "onoff" and not use.texts):
        return "on"
    if not use.texts:
        raise CommandError(f"error while handling argument {use.name}: expected value for argument")
    return use.texts[0]


def _unknown(name: str, is_known_build: bool) -> str:
    from difflib import get_close_matches

    near = meant(get_close_matches(name, [*BY_NAME, *SWITCHES, *VALUED, *SWITCHED], 1, 0.8))
    if is_known_build:
        raise CommandError(
            f"llama.cpp has no flag {short(name)}",
            hint=f"llama.cpp would stop with: error: invalid argument: {name[:80]}{near}",
        )
    return f"{short(name)} is no flag of llama.cpp that oomph knows{near}"


def _stray(word: str, is_known_build: bool) -> str:
    if is_known_build:
        raise CommandError(
            f"{short(word)} is no flag of llama.cpp, nor the value of one",
            hint=f"llama.cpp would stop with: error: invalid argument: {word[:80]}",
        )
    return f"{short(word)} is no flag of llama.cpp: it would refuse the command"


def _refuse_gone_flags(words: Sequence[str], build: int) -> None:
    """Of a build that is named; where it is only assumed, a note says it."""
    flag = next((word for word in words if word in BEFORE_LOAD_MODE), "")
    if flag and build >= LOAD_MODE_SINCE:
        raise CommandError(
            f"llama.cpp b{build} has no flag {flag} (gone since b{LOAD_MODE_SINCE}): {BEFORE_LOAD_MODE[flag]}",
            hint=f"llama.cpp would stop with: error: invalid argument: {flag}",
        )


def _set(flags: dict[str, Any], row: Flag, name: str, text: str) -> None:
    kind = row.kind
    if kind in ("true", "false"):
        flags[row.field] = (text.lower() not in _NO) == (kind == "true")
    elif kind == "int":
        flags[row.field] = _integer(name, text)
    elif kind == "layers":
        flags[row.field] = {"auto": -1, "all": -2}.get(text) if text in ("auto", "all") else _integer(name, text)
    elif kind == "onoff":
        word = "on" if text.lower() in _YES else "off" if text.lower() in _NO else text.lower()
        if word not in row.choices:
            raise CommandError(f"{name} {short(text)}: it is one of {', '.join(row.choices)}")
        flags[row.field] = word == "on" if row.field == "fit" else word
    elif kind == "choice":
        if text not in row.choices:
            raise CommandError(f"{name} {short(text)}: it is one of {', '.join(row.choices)}")
        flags[row.field] = text
    elif kind == "numbers":
        flags[row.field] = _numbers(name, text, whole=row.field == "fit_target")
    elif kind == "metadata":
        metadata_of(text)
        flags[row.field] = f"{flags[row.field]},{text}" if row.field in flags else text
    elif kind == "overrides":
        flags.setdefault(row.field, []).extend(_overrides(name, text))
    elif kind == "cpu_moe":
        flags.setdefault(row.field, []).append((EXPERTS, "CPU"))
    elif kind in ("n_cpu_moe", "n_cpu_ffn"):
        count = _integer(name, text)
        if not 0 <= count <= 10_000:
            raise CommandError(f"{name} {text}: it is a number of layers")
        pattern = EXPERTS if kind == "n_cpu_moe" else MLP
        flags.setdefault(row.field, []).extend((rf"blk\.{i}{pattern}", "CPU") for i in range(count))
    else:
        flags[row.field] = text


def _integer(name: str, text: str) -> int:
    if not re.fullmatch(r"-?\d{1,10}", text.strip()) or abs(int(text)) > _MOST:
        raise CommandError(f"error while handling argument {name}: {short(text)} is not a whole number")
    value = int(text)
    if name in ("-c", "--ctx-size", "-b", "-ub", "--batch-size", "--ubatch-size") and value < 0:
        raise CommandError(f"{name} {value}: it cannot be negative")
    if name in ("-np", "--parallel") and value > 4096:
        raise CommandError(f"{name} {value}: llama.cpp has at most 256 sequences (LLAMA_MAX_SEQ)")
    return value


def _numbers(name: str, text: str, *, whole: bool) -> list[float] | list[int]:
    parts = re.split(r"[,/]+", text.strip())
    try:
        numbers = [float(p) for p in parts if p]
    except ValueError:
        raise CommandError(f"{name} {short(text)}: it is a list of numbers such as 3,1") from None
    if not numbers or len(numbers) > 128 or not all(0 <= n < _MOST for n in numbers):
        raise CommandError(f"{name} {short(text)}: it is a list of numbers such as 3,1")
    return [int(n) for n in numbers] if whole else numbers


def _overrides(name: str, text: str) -> list[tuple[str, str]]:
    out = []
    for part in text.split(","):
        pattern, equals, target = part.rpartition("=")
        if not equals or not pattern or len(pattern) > _PATTERN:
            raise CommandError(f"{name} {short(part)}: it is REGEX=BUFFER, such as exps=CPU")
        try:
            re.compile(pattern)
        except (re.error, RecursionError) as bad:
            raise CommandError(f"{name} {short(pattern)} is not a regular expression: {bad}") from None
        if re.search(r"\)[*+{]", pattern) or len(re.findall(r"[*+{]", pattern)) > 5:  # (a+)+ takes for ever
            raise CommandError(f"{name} {short(pattern)}: repeated groups and many repetitions are not read")
        out.append((pattern, target))
    return out


def metadata_of(text: str) -> list[tuple[str, str]]:
    """What --override-kv says, key by key (common/common.cpp, string_parse_kv_override)."""
    pairs = []
    for part in filter(None, text.split(",")):
        match = _METADATA.fullmatch(part)
        if match is None:
            raise CommandError(
                f"--override-kv {short(part)}: it is KEY=TYPE:VALUE, such as qwen3moe.expert_used_count=int:4"
            )
        pairs.append((match[1], match[2]))
    return pairs


# Which field an option's spelling is kept under; those that fill -ot's list each have their own.
_LISTS = {"override_tensor": "", "override_tensor_draft": "_draft"}
_FIELDS = {name: row.kind + _LISTS[row.field] if row.field in _LISTS else row.field for name, row in BY_NAME.items()}


def to_words(deployment: Deployment) -> list[str]:
    """A command that gives the same flags again, each as it was typed."""
    words = ["llama-cli" if deployment.flags.get("program") == "cli" else "llama-server"]
    for field, value in deployment.flags.items():
        if field in _LISTS:
            words += _placed(value, deployment.spelling, _LISTS[field])
        elif field != "program":
            words += _written(field, value, deployment.spelling.get(field, ""))
    return [*words, *deployment.passed]


def _written(field: str, value: Any, typed: str) -> list[str]:
    kinds = [row for row in ROWS if row.field == field]
    if not isinstance(value, bool) or kinds[0].kind not in ("true", "false"):
        return [typed or kinds[0].names[0], _shown(value)]
    row = next((row for row in kinds if row.kind == ("true" if value else "false")), None)
    return [] if row is None else [typed if typed in row.names else row.names[-1]]


_COUNTED = {"n_cpu_moe": EXPERTS, "n_cpu_ffn": MLP}
_PLACED = {
    "": {"cpu_moe": "--cpu-moe", "n_cpu_moe": "--n-cpu-moe", "n_cpu_ffn": "--n-cpu-ffn", "overrides": "-ot"},
    "_draft": {"cpu_moe": "-cmoed", "n_cpu_moe": "-ncmoed", "overrides": "-otd"},
}


def _placed(rules: Sequence[tuple[str, str]], spelling: Mapping[str, str], whose: str) -> list[str]:
    """-ot with what --cpu-moe, --n-cpu-moe and --n-cpu-ffn stand for in their own words: 48 layers are 48 patterns."""
    names = {kind: spelling.get(kind + whose, usual) for kind, usual in _PLACED[whose].items()}
    words: list[str] = []
    plain: list[str] = []
    at = 0
    while at < len(rules):
        counted = {kind: _run(rules[at:], _COUNTED[kind]) for kind in names if kind in _COUNTED}
        kind = max(counted, key=lambda kind: counted[kind])
        count = counted[kind]
        if not count and rules[at] != (EXPERTS, "CPU"):
            plain.append("=".join(rules[at]))
            at += 1
            continue
        words += [names["overrides"], ",".join(plain)] if plain else []
        plain = []
        words += [names[kind], str(count)] if count else [names["cpu_moe"]]
        at += count or 1
    words += [names["overrides"], ",".join(plain)] if plain else []
    for kind in (kind for kind in names if kind in _COUNTED):  # of no layer at all
        if names[kind] not in words and (kind + whose in spelling or (not rules and kind == "n_cpu_moe")):
            words += [names[kind], "0"]
    return words


def _run(rules: Sequence[tuple[str, str]], pattern: str) -> int:
    """How many of the first rules are those of the layers 0, 1, 2, ..."""
    layers = (rf"blk\.{layer}{pattern}" for layer in range(len(rules)))
    return next(
        (n for n, (rule, own) in enumerate(zip(rules, layers, strict=True)) if rule != (own, "CPU")), len(rules)
    )


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ",".join(f"{v:g}" for v in value)
    return {-2: "all", -1: "auto"}.get(value, str(value)) if isinstance(value, int) else str(value)
