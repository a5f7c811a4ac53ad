"""One flag's words to its value and back, with vLLM's own rules and refusals (vllm/engine/arg_utils.py)."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from oomph.commands.call import short
from oomph.errors import CommandError
from oomph.facts.changes import dated_words
from oomph.facts.vllm.config_keys import KEYS
from oomph.facts.vllm.flags import Flag, Options, negated
from oomph.text.late import late_pattern
from oomph.text.nesting import bounded

LIST_KINDS = ("list[int]", "list[float]", "list[str]")
_SUFFIX = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_HUMAN = late_pattern(r'"(?:[^"\\]|\\.)*"?|\b\d+(?:\.\d+)?[kKmMgGtT]\b', re.ASCII | re.DOTALL)
_MOST = 1 << 63
# read with json.loads although a config class is behind them (arg_utils.py:1828, 0.32.0); the others take 80m and 1G
_PLAIN_JSON = ("speculative_config", "watermark_config", "diffusion_config")
_LONGEST = 1 << 16
_DEEPEST = 32  # no argument of the engine nests further

# bounds that the engine leaves to arithmetic further on, where they end in nonsense
_SANE = {
    "kv_cache_memory_bytes": "gt=0",
    "num_gpu_blocks_override": "gt=0",
    "kv_offloading_size": "ge=0",
    "cudagraph_capture_sizes": "ge=0",
    "max_cudagraph_capture_size": "ge=0",
    "max_cpu_loras": "ge=1",
}


class Refused(ValueError):
    """Why a value cannot be meant; the caller names the flag."""


def human_int(text: str) -> int:
    """1k = 1000, 1K = 1024, 25.6k = 25600; no decimals with binary suffixes (human_readable_int)."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgGtT])", text.strip(), re.ASCII)
    if match is None:
        return _int(text)
    number, suffix = match.groups()
    if suffix.islower():
        return _int(str(int(_float(number) * _SUFFIX[suffix]))) if len(number) < 20 else _int(number)
    if "." in number:
        spelling = number + suffix.lower()
        raise Refused(f"decimals are not allowed with binary suffixes like {suffix}; did you mean {spelling}?")
    return _int(number) * _SUFFIX[suffix]


def parse_words(flag: Flag, texts: Sequence[str], options: Options) -> Any:
    """The value of a flag that was given with these words (already as many as its kind takes)."""
    if flag.kind in LIST_KINDS:
        value: Any = [_one(flag, word, options) for word in texts]
        if len(value) == 1 and value[0] is None:
            value = None
    elif flag.kind == "maybe":
        value = texts[0] if texts else True
    else:
        value = _one(flag, texts[0], options)
    check(flag, value, options)
    return value


def _one(flag: Flag, text: str, options: Options) -> Any:
    if flag.nullable and text in ("", "None"):
        return None
    kind = flag.kind
    if kind in ("int", "list[int]"):
        return _int(text)
    if kind in ("float", "list[float]"):
        return _float(text)
    if kind == "human":
        return human_int(text)
    if kind == "human_auto":
        return -1 if text.strip() == "-1" or text.strip().lower() == "auto" else human_int(text)
    if kind == "json" or (kind == "json_or_str" and re.fullmatch(r"\s*\{.*\}\s*", text, re.DOTALL)):
        return json_value(text, options, human=flag.field in KEYS and flag.field not in _PLAIN_JSON)
    if kind == "ids":
        parts = [part.strip() for part in text.split(",")]
        return [int(part) if part.isascii() and part.isdigit() else part for part in parts]
    if kind == "snake":
        return text.lower().replace("-", "_")
    if kind == "level":
        return _int(text[1:] if text[:1] in ("O", "o") else text)
    return text


def json_text(value: Any) -> str:
    import json  # few commands hold JSON

    return json.dumps(value)


def json_value(text: str, options: Options, *, human: bool) -> Any:
    """JSON with, from 0.20 on, numbers such as 80m outside of strings."""
    import json

    if len(text) > _LONGEST:
        raise Refused(f"{len(text)} characters of JSON are more than any argument needs")
    if human and options.reading.json_numbers_are_human:
        text = _expand(text)
    try:
        value = json.loads(bounded(text), parse_constant=_no_constant, parse_float=_float)
    except RecursionError:
        raise Refused("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise Refused(f"it is not valid JSON ({error.msg} at character {error.pos})") from None
    except ValueError as error:
        raise Refused(str(error)) from None
    if depth(value) > _DEEPEST:
        raise Refused("it is nested too deeply")
    return value


def _expand(text: str) -> str:
    """Strings stay as they are; one that is not closed reaches to the end."""
    return _HUMAN.sub(lambda match: match[0] if match[0][0] == '"' else str(human_int(match[0])), text)


def depth(value: Any) -> int:
    """How deep a JSON value nests, without recursion."""
    level, layer = 0, [value]
    while layer and level <= _DEEPEST:
        inside = [item for item in layer if isinstance(item, dict | list)]
        layer = [child for item in inside for child in (item.values() if isinstance(item, dict) else item)]
        level += bool(inside)
    return level


def _no_constant(text: str) -> float:
    raise Refused(f"{text} is not a number")


def _int(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise Refused(f"invalid int value: {short(text)}") from None
    if abs(value) >= _MOST:
        raise Refused(f"{short(text)} is larger than any count")
    return value


def _float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise Refused(f"invalid float value: {short(text)}") from None
    if not math.isfinite(value):
        raise Refused(f"{short(text)} is not a finite number")
    return value


def check(flag: Flag, value: Any, options: Options) -> None:
    """Choices and bounds, as argparse and pydantic would."""
    items = value if isinstance(value, list) else [value]
    allowed = options.allowed(flag)
    for item in items:
        if item is None:
            continue
        if allowed and str(item) not in allowed:
            raise Refused(_choice_sentence(flag, item, allowed, options))
        _check_bounds(flag, item)
    if flag.kind == "level" and value not in (0, 1, 2, 3):
        raise Refused(f"{value} is not one of 0, 1, 2, 3")
    is_object = flag.kind == "json" or (flag.kind == "json_or_str" and not isinstance(flag.default, str))
    if is_object and flag.group == "engine" and value is not None and not isinstance(value, dict):
        raise Refused("it must be a JSON object such as '{\"key\": 1}'")


def check_keys(flag: Flag, value: Any, options: Options) -> str:
    """Refuse a key that the argument's config class does not have, or say that the release drops it."""
    keys = options.keys(flag.field)
    unknown = [key for key in value if key not in keys] if keys and isinstance(value, dict) else []
    if not unknown:
        return ""
    key = unknown[0]
    span = next(((since, until) for word, since, until in dated_words(KEYS[flag.field]) if word == key), None)
    if span is not None and not options.has_begun(span[0]):
        sentence = f"{short(key)} came with vLLM {span[0]}"
    elif span is not None:
        sentence = f"{short(key)} is gone since vLLM {span[1]}"
    else:
        close = _close(key, keys)
        sentence = f"{short(key)} is not one of its keys" + (f"; did you mean {close}?" if close else "")
    if options.refuses_keys(flag.field):
        raise Refused(sentence)
    return f"{options.spelled(flag)[0]}: {sentence}; vLLM {options.release} drops it silently"


def _close(word: str, among: Iterable[str]) -> str:
    listed = list(among)
    if len(word) < 19 and word.isdecimal() and (sizes := sorted(int(one) for one in listed if one.isdecimal())):
        return str(next((size for size in sizes if size >= int(word)), sizes[-1]))  # room for what was asked
    from difflib import get_close_matches  # 2 ms to import, and only for a word that is wrong

    return next(iter(get_close_matches(word, listed, n=1)), "")


def _check_bounds(flag: Flag, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if flag.kind == "human_auto" and value != -1 and value < 1:
        raise Refused(f"{value} must be a positive integer, -1 or auto")
    for bound in filter(None, (flag.bounds or _SANE.get(flag.field, "")).split(",")):
        word, limit = bound.split("=")
        wrong = {"gt": value <= float(limit), "ge": value < float(limit), "lt": value >= float(limit)}.get(
            word, value > float(limit)
        )
        if wrong:
            relation = {"gt": "greater than", "ge": "at least", "lt": "less than", "le": "at most"}[word]
            raise Refused(f"{value} must be {relation} {limit}")


def _choice_sentence(flag: Flag, item: Any, allowed: tuple[str, ...], options: Options) -> str:
    sentence = f"invalid choice: {short(str(item))} (choose from {', '.join(allowed)})"
    span = flag.choice_range(str(item))
    if span is not None:
        came = f"is gone since {span[1]}" if options.has_begun(span[0]) else f"came with vLLM {span[0]}"
        return f"{short(str(item))} {came}, this is {options.release} (choose from {', '.join(allowed)})"
    close = _close(str(item), allowed)
    return sentence + (f"; did you mean {close}?" if close else "")


def check_python(flag: Flag, value: Any, options: Options) -> Any:
    """A keyword's literal in LLM(...): the same value that the command line would give."""
    if value is None or isinstance(value, str):
        return value if value is None or flag.kind in ("str", "maybe", "append") else _from_text(flag, value, options)
    if isinstance(value, tuple | set | frozenset):
        value = sorted(value, key=repr) if isinstance(value, set | frozenset) else list(value)
    plain = flag.kind.removeprefix("list[").rstrip("]")
    items = value if isinstance(value, list) else [value]
    wanted: dict[str, tuple[type, ...]] = {
        "bool": (bool,), "store_true": (bool,), "int": (int,), "human": (int,), "human_auto": (int,), "level": (int,),
        "float": (int, float), "json": (dict,), "json_or_str": (dict,), "str": (str,), "snake": (str,),
        "append": (str,), "maybe": (bool, str), "ids": (int, str),
    }  # fmt: skip
    listed = flag.kind in LIST_KINDS or flag.kind in ("append", "ids")
    typed = all(isinstance(i, wanted[plain]) and (bool in wanted[plain] or not isinstance(i, bool)) for i in items)
    if not typed or isinstance(value, list) != listed:
        raise Refused(f"{short(repr(value))} is not what it takes ({flag.kind})")
    if plain == "float" and not listed:
        value = _float(str(value))
    if isinstance(value, dict):
        try:
            value = json_value(json_text(value), options, human=False)
        except (TypeError, ValueError, RecursionError):
            raise Refused("it is not plain JSON") from None
    if any(isinstance(i, int) and abs(i) >= _MOST for i in items):
        raise Refused("it is larger than any count")
    check(flag, value, options)
    return value


def _from_text(flag: Flag, text: str, options: Options) -> Any:
    if flag.kind in ("bool", "store_true", "json") or (flag.kind in LIST_KINDS and flag.kind != "list[str]"):
        raise Refused(f"{short(text)} is not what it takes ({flag.kind})")
    return parse_words(flag, [text], options)


def render(flag: Flag, value: Any, options: Options, typed: str = "") -> list[str]:
    """The words that give `value`; parse_words of them is `value` again. `typed`: the option as its user wrote it."""
    spelled = options.spelled(flag)
    name = typed if typed in spelled else spelled[0]
    if flag.kind == "bool":
        return [name if value else negated(name)]
    if flag.kind == "store_true" or (flag.kind == "maybe" and value is True):
        return [name] if value else []
    if value is None:
        return [name, "None"]
    if flag.kind in LIST_KINDS:
        return _named(name, str(value[0])) if len(value) == 1 else [name, *map(str, value)]
    if flag.kind == "append":
        return [word for item in value for word in _named(name, item)]
    if flag.kind == "ids":
        return _named(name, ",".join(map(str, value)))
    if isinstance(value, dict) or flag.kind == "json":
        return [name, json_text(value)] if isinstance(value, dict) else _named(name, json_text(value))
    return _named(name, repr(value) if isinstance(value, float) else str(value))


def _named(name: str, text: str) -> list[str]:
    """--name=-1 where the value could be taken for a flag."""
    return [f"{name}={text}"] if text.startswith("-") or not text else [name, text]


def refuse(name: str, error: Refused) -> CommandError:
    return CommandError(f"argument {name}: {error}")
