"""`ollama run NAME` with its environment to a Deployment, and back."""

import re
from collections.abc import Mapping
from typing import Any

from oomph.commands.call import Call, memory_variables, short
from oomph.errors import CommandError
from oomph.ir import Deployment, Engine

_OTHERS = ("list", "ps", "pull", "push", "rm", "cp", "show", "create", "stop", "help", "signin", "signout")
# variable -> (field, kind)
VARIABLES = {
    "OLLAMA_CONTEXT_LENGTH": ("num_ctx", "int"),
    "OLLAMA_NUM_PARALLEL": ("num_parallel", "int"),
    "OLLAMA_KV_CACHE_TYPE": ("kv_cache_type", "text"),
    "OLLAMA_FLASH_ATTENTION": ("flash_attn", "switch"),
    "OLLAMA_GPU_OVERHEAD": ("gpu_overhead", "int"),
    "OLLAMA_SCHED_SPREAD": ("sched_spread", "bool"),
}
# not Ollama's: the PARAMETERs of a Modelfile and the options of a request, for planning them
OPTIONS = ("num_ctx", "num_parallel", "num_gpu", "num_batch")
_TRUE = {"1", "t", "true", "on", "yes"}


def deployment(call: Call, release: Engine) -> Deployment:
    words = list(call.words[1:])
    what = words.pop(0) if words else ""
    if what in _OTHERS or what.startswith("-"):
        raise CommandError(f"ollama {short(what)} loads no model", hint="oomph plan -- ollama run qwen3:8b")
    flags = from_environment(memory_variables(call.environment))
    model, options = _arguments(words if what in ("run", "serve", "start", "launch") else [what, *words])
    if not model:
        raise CommandError(f"ollama {what or 'run'} names no model", hint="oomph plan -- ollama run qwen3:8b")
    return call.starts(release, model, {**flags, **options})


def from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    flags: dict[str, Any] = {}
    for name, (field, kind) in VARIABLES.items():
        text = environment.get(name, "").strip().strip("\"'")
        if not text:
            continue
        if kind == "int":
            flags[field] = _integer(name, text)
        elif kind == "text":
            flags[field] = text.lower()
        elif kind == "bool":
            flags[field] = text.lower() in _TRUE
        else:
            flags[field] = "on" if text.lower() in _TRUE else "off"
    return {k: v for k, v in flags.items() if not (k == "num_ctx" and v == 0)}


def _arguments(words: list[str]) -> tuple[str, dict[str, Any]]:
    """ollama run [flags] NAME [PROMPT]; --num-ctx and the like stand for a Modelfile's PARAMETER."""
    model, options, at = "", {}, 0
    while at < len(words):
        word = words[at]
        at += 1
        if not word.startswith("-"):
            if model:
                break  # the prompt
            model = word
            continue
        name, equals, value = word.lstrip("-").partition("=")
        field = name.replace("-", "_")
        if field in OPTIONS:
            if not equals:
                if at >= len(words):
                    raise CommandError(f"{word} needs a number")
                value, at = words[at], at + 1
            options[field] = _integer(word, value)
        elif field in ("keepalive", "format", "think") and not equals:
            at += 1
    return model, options


def _integer(name: str, text: str) -> int:
    if not re.fullmatch(r"-?\d{1,18}", text):
        raise CommandError(f"{name}={short(text)}: it is a whole number")
    return int(text)


def to_words(deployment: Deployment) -> list[str]:
    options = [f"--{k.replace('_', '-')}={v}" for k, v in deployment.flags.items() if k in OPTIONS]
    outside = from_environment(deployment.environment)
    return ["ollama", "run", *[g for g in options if deployment.flags != outside], deployment.model]
