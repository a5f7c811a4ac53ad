"""The options file of `trtllm-serve` (`--config`, `--extra_llm_api_options`) and the keywords of `LLM(...)` as fields.

A nested group becomes one field per key: `kv_cache_config: {dtype: fp8}` is `kv_cache_config.dtype`. So a lever, a
difference between two files and the command line all speak of the same thing. `cuda_graph_config: null` switches the
graphs off: the field `cuda_graph_config` with the value "null".
"""

import re
from collections.abc import Mapping
from typing import Any

from oomph.commands.call import short
from oomph.commands.files import read_settings
from oomph.errors import CommandError
from oomph.facts.trtllm.flags import ALIASES, BY_FIELD, GROUPS, LISTS, SWITCHES, WHOLE_NUMBERS, WORDS
from oomph.text.late import late_pattern

GRAPHS, OFF = "cuda_graph_config", "null"
_LARGEST = 1 << 62


def read_file(path: str) -> dict[str, Any]:
    return read_text(read_settings(path, "options file"), path)


_TRITON = late_pattern(
    r'key:\s{0,40}"(\w{1,80})"\s{0,40},?\s{0,40}value:\s{0,40}\{\s{0,40}string_value:\s{0,40}"([^"]{0,400})"\s{0,40}\}'
)
_TRITON_POLICIES = {"guaranteed_no_evict": "GUARANTEED_NO_EVICT", "max_utilization": "MAX_UTILIZATION"}


def _triton(text: str, where: str) -> dict[str, Any]:
    """config.pbtxt of Triton's tensorrtllm backend: strings, of which those are read that this engine has too."""
    options: dict[str, Any] = {}
    for key, value in _TRITON.findall(text):
        if not value or value.startswith("${") or key not in _TRITON_KEYS:
            continue
        if key == "batch_scheduler_policy":
            options[key] = _TRITON_POLICIES.get(value.lower(), value)
        elif key == "max_attention_window_size":
            options[key] = [int(part) for part in value.split(",") if part.strip().isdigit()]
        elif value.lower() in ("true", "false"):
            options[key] = value.lower() == "true"
        else:
            try:
                options[key] = float(value) if "." in value else int(value)
            except ValueError:
                raise CommandError(f"{short(where)}: {key} is {short(repr(value))}, not a number") from None
    size = re.search(r"^max_batch_size:\s*(\d{1,9})", text, re.MULTILINE)
    if size and int(size[1]):
        options["max_batch_size"] = int(size[1])
    return fields_of(options, where)


_TRITON_KEYS = (
    "kv_cache_free_gpu_mem_fraction", "max_tokens_in_paged_kv_cache", "enable_kv_cache_reuse", "max_beam_width",
    "kv_cache_host_memory_bytes", "max_attention_window_size", "batch_scheduler_policy", "enable_chunked_context",
)  # fmt: skip


def read_text(text: str, where: str) -> dict[str, Any]:
    if where.endswith(".pbtxt"):
        return _triton(text, where)
    from oomph.commands.manifests.yaml_text import load

    documents = load(text, where)
    if not documents:
        return {}
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise CommandError(f"the options file {short(where)} is not one YAML mapping")
    return fields_of(documents[0], where)


def fields_of(options: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Nested options as flat fields, each of its own kind."""
    fields: dict[str, Any] = {}
    for key, value in options.items():
        if key in ("model", "triton_config"):  # a model.yaml of Triton's: the command names the model
            continue
        if not isinstance(key, str):
            raise CommandError(f"{short(where)}: the key {short(str(key))} is not the name of an option")
        if key in GROUPS and isinstance(value, Mapping):
            for inner, item in value.items():
                put(fields, f"{key}.{inner}", item, where)
            if key == GRAPHS and not value:  # an empty group: graphs with their defaults
                fields.setdefault("cuda_graph_config.enable_padding", False)
        else:
            put(fields, key, value, where)
    return fields


def put(fields: dict[str, Any], field: str, value: Any, where: str) -> None:
    field = ALIASES.get(field, field)
    if field == GRAPHS and value is None:
        value = OFF
    if value is not None:
        fields[field] = _checked(field, value, where)


def _checked(field: str, value: Any, where: str) -> Any:
    kind = BY_FIELD[field].kind if field in BY_FIELD else ""
    if field in WHOLE_NUMBERS or kind == "int":
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST:
            raise CommandError(f"{short(where)}: {field} is {short(repr(value))}, not a whole number")
    elif kind == "float":
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            raise CommandError(f"{short(where)}: {field} is {short(repr(value))}, not a number")
        return float(value)
    elif field in SWITCHES or kind == "flag":
        if not isinstance(value, bool):
            raise CommandError(f"{short(where)}: {field} is {short(repr(value))}, not true or false")
    elif field in WORDS or kind == "str":
        if not isinstance(value, str):
            raise CommandError(f"{short(where)}: {field} is {short(repr(value))}, not a word")
    elif field in LISTS and not (
        isinstance(value, list | tuple)
        and all(isinstance(item, int) and not isinstance(item, bool) and 0 < item < _LARGEST for item in value)
    ):
        raise CommandError(f"{short(where)}: {field} is {short(repr(value))}, not a list of whole numbers above 0")
    return list(value) if field in LISTS else value


def nested(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The way back: flat fields as the mapping that a file holds."""
    out: dict[str, Any] = {}
    for field, value in fields.items():
        group, dot, key = field.partition(".")
        if dot and group in GROUPS:
            inner = out.get(group)
            out[group] = inner if isinstance(inner, dict) else {}
            out[group][key] = value
        elif field not in out:
            out[field] = None if field == GRAPHS and value == OFF else value
    return out


def to_yaml(fields: Mapping[str, Any], *, one_line: bool = False) -> str:
    """Flat fields as YAML; on one line it holds no double quote, dollar or backslash."""
    import yaml

    text: str = yaml.safe_dump(nested(fields), default_flow_style=one_line, sort_keys=False, width=1 << 16)
    return text.strip() if one_line else text
