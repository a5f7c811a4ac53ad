"""What was started, rebuilt from the log: the args line, the engine's config line, a command pasted beside the log."""

import ast
import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from oomph.engines.registry import DEFAULT, all_engines, engine_named
from oomph.errors import OomphError
from oomph.ir.observation import Observation
from oomph.logs import beside
from oomph.logs.clean import Line
from oomph.logs.parse import engine_of
from oomph.text.late import late_pattern
from oomph.text.nesting import bounded, shell_words

SHORT = {"tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "dp": "data_parallel_size", "q": "quantization"}
# the engine config line's word -> the flag's
RESOLVED = {
    "max_seq_len": "max_model_len", "tensor_parallel_size": "tensor_parallel_size", "quantization": "quantization",
    "pipeline_parallel_size": "pipeline_parallel_size", "data_parallel_size": "data_parallel_size",
    "kv_cache_dtype": "kv_cache_dtype", "enforce_eager": "enforce_eager", "dtype": "dtype",
    "load_format": "load_format",
    "enable_prefix_caching": "enable_prefix_caching", "enable_chunked_prefill": "enable_chunked_prefill",
    "disable_custom_all_reduce": "disable_custom_all_reduce",
}  # fmt: skip
# what the config line shows when nobody asked for it
DEFAULTS = {
    "tensor_parallel_size": 1, "pipeline_parallel_size": 1, "data_parallel_size": 1, "kv_cache_dtype": "auto",
    "enforce_eager": False, "load_format": "auto", "disable_custom_all_reduce": False, "quantization": None,
}  # fmt: skip
_CAPTURE_SIZES = re.compile(r"'?max_cudagraph_capture_size'?: ?(\d+)")
_SPECULATIVE = re.compile(r"SpeculativeConfig\(method='?(\w+)'?,.{0,300}?num_spec(?:ulative)?_tokens=(\d+)")


class Rebuilt(Struct, frozen=True):
    """A deployment as far as the log tells it; sources name the line each flag was read from."""

    engine: str
    version: str = ""
    version_from: str = ""
    model: str = ""
    flags: dict[str, Any] = {}
    resolved: dict[str, Any] = {}  # what the engine made of it: defaults filled in
    sources: dict[str, str] = {}
    command: str = ""
    complete: bool = False  # the args line was there: no other flag was given
    environment: dict[str, str] = {}

    def get(self, name: str, default: Any = None) -> Any:
        return self.flags.get(name, self.resolved.get(name, default))


def rebuild(lines: Sequence[Line], observations: Sequence[Observation], engine: str = "") -> Rebuilt:
    """`engine`: whose it is said to be, whatever its lines say."""
    engine = engine or engine_of(observations) or _by_flags(lines)
    version, version_from = engine_named(engine or DEFAULT).log_release(observations)
    flags: dict[str, Any] = {}
    sources: dict[str, str] = {}
    resolved: dict[str, Any] = {}
    command, model = beside.command(lines, observations)
    environment: dict[str, str] = {}
    if command:
        flags_there, named, environment = _flags_of(command)
        flags_there, named = _of_engine(engine, flags_there, named)
        model = named or model
        _merge(flags, sources, flags_there, "the command in the log")
    printed_model, printed = engine_named(engine or DEFAULT).log_settings(observations)
    model = model or printed_model
    printed = {} if command else printed
    _merge(flags, sources, printed, "the arguments that the log prints")
    complete = False
    for observation in observations:
        if observation.kind == "args":
            flags_there = _literal(observation)
            if flags_there:
                complete = True
                model = str(flags_there.get("model_tag") or flags_there.get("model") or model)
                _merge(flags, sources, flags_there, f"log line {observation.line}")
        elif observation.kind == "engine_config":
            read = config_values(str(observation.values.get("config", "")))
            model = model or str(read.pop("model", ""))
            resolved.update({name: value for name, value in read.items() if name != "model"})
        elif observation.kind in ("max_model_len", "chunked_prefill", "kv_need", "kv_need_v0", "concurrency"):
            for name in ("max_model_len", "max_num_batched_tokens"):
                if name in observation.values:
                    resolved.setdefault(name, observation.values[name])
        elif observation.kind == "load_begin":
            model = model or str(observation.values.get("model", ""))
    refused = [observation.values for observation in observations if observation.kind in ("kv_need", "kv_need_v0")]
    length = next((values["max_model_len"] for values in refused if "max_model_len" in values), None)
    if not complete and length is not None and flags.get("max_model_len") not in (None, length):
        # a command of another run: the one that failed had this length
        flags["max_model_len"], sources["max_model_len"] = length, "the line that it failed with"
    if not complete:
        for name, value in resolved.items():
            if name in DEFAULTS and value != DEFAULTS[name] and name not in flags:
                flags[name], sources[name] = value, "the engine config line"
    for name in ("model", "model_tag"):
        flags.pop(name, None)
    return Rebuilt(
        engine,
        version=version,
        version_from=version_from,
        model=model,
        flags=flags,
        resolved=resolved,
        sources=sources,
        command=command,
        complete=complete,
        environment=environment,
    )


_FLAG = late_pattern(
    r"(?<![\w-])(?:--[a-z][a-z0-9]{1,30}(?:-[a-z0-9]{1,30}){0,6}|-[a-z]{2,4}|-c(?= (?:to |auf )?\d))(?![\w-])"
)
_FEW = 40  # lines of a text in which nobody names an engine


def _by_flags(lines: Sequence[Line]) -> str:
    """Of a text that names no engine: the one that alone has the settings in it."""
    if len(lines) > _FEW:
        return ""
    typed = {flag for line in lines for flag in _FLAG.findall(line.text[:1000])}
    owners = [[engine.name for engine in all_engines() if engine.knows_flag(flag)] for flag in sorted(typed)]
    names = {only[0] for only in owners if len(only) == 1}
    return names.pop() if len(names) == 1 else ""


def _merge(flags: dict[str, Any], sources: dict[str, str], others: dict[str, Any], source: str) -> None:
    flags.update(others)
    sources.update(dict.fromkeys(others, source))


def _literal(observation: Observation) -> dict[str, Any]:
    if "namespace" in observation.values:
        return _namespace(str(observation.values["namespace"]))
    text = str(observation.values.get("args", ""))
    text = text[: text.rfind("}") + 1] or text
    text = re.sub(r"<[\w.]+: ([^<>]{0,80})>", r"\1", text)  # <CUDAGraphMode.FULL: (2, 1)> is no literal
    text = re.sub(r": ,", ": None,", text)  # a forum ate "[]"
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return _pairs(text)
    return {str(k): v for k, v in value.items()} if isinstance(value, dict) else {}


def _pairs(text: str) -> dict[str, Any]:
    """What can be saved of a dict that is no literal any more: its plain values."""
    pairs = re.findall(r"'(\w{1,60})': ('[^']{0,300}'|-?[\d.]+|True|False|None)(?=[,}])", text[: 64 << 10])
    return {name: value_of(value.strip("'")) for name, value in pairs}


def _namespace(text: str) -> dict[str, Any]:
    pairs = re.findall(r"\b(\w{1,60})=('[^']{0,300}'|-?[\d.]+|True|False|None)(?=[,)])", text[: 64 << 10])
    keep = {"model", "max_model_len", "gpu_memory_utilization", "tensor_parallel_size", "max_num_seqs", "enforce_eager",
            "max_num_batched_tokens", "quantization", "kv_cache_dtype", "pipeline_parallel_size", "dtype"}  # fmt: skip
    values = {name: value_of(value.strip("'")) for name, value in pairs if name in keep}
    return {name: value for name, value in values.items() if value is not None}


def config_values(text: str) -> dict[str, Any]:
    """The fields of the engine config line that memory depends on."""
    pairs = re.findall(r"\b(\w{1,40})=('[^']{0,300}'|\[[^\]]{0,600}\]|[^,()\s]{1,120})(?=,|\)|$)", text[: 64 << 10])
    values: dict[str, Any] = {}
    for name, value in pairs:
        key = "model" if name == "model" else RESOLVED.get(name)
        if key and key not in values:
            values[key] = value_of(value.strip("'").removeprefix("torch."))
    if match := _CAPTURE_SIZES.search(text):
        values["max_cudagraph_capture_size"] = int(match[1])
    if match := _SPECULATIVE.search(text):
        values["speculative_config"] = {"method": match[1], "num_speculative_tokens": int(match[2])}
    return values


def value_of(text: str) -> Any:
    if re.fullmatch(r"-?\d{0,18}(?:\.?\d{1,18})[.,;:!?)]{1,3}", text):
        text = text.rstrip(".,;:!?)")  # in a sentence
    lowered = text.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if lowered in ("none", "null"):
        return None
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    if re.fullmatch(r"-?\d{0,18}\.\d{1,18}", text):
        return float(text)
    if text[:1] in "{[" and len(text) < 16 << 10:
        try:
            return json.loads(bounded(text))
        except (ValueError, RecursionError):
            return text
    return text


def _flags_of(command: str) -> tuple[dict[str, Any], str, dict[str, str]]:
    """docker run has options of its own: the part behind the image is the engine's."""
    if re.match(r"(?:docker|podman|nerdctl) run\b", command):
        from oomph.commands.call import memory_variables
        from oomph.commands.manifests.docker import run

        try:
            call = run(shell_words(command), {})
        except (OomphError, ValueError):
            return parse_flags(command)
        flags, model, _ = parse_flags(shlex.join(call.words))
        return flags, model, memory_variables(call.environment)
    return parse_flags(command)


def _of_engine(engine: str, flags: dict[str, Any], model: str) -> tuple[dict[str, Any], str]:
    """What the engine itself has of a command. One of mostly other flags, two at least (one is a slip), is a wrapper's
    (an evaluation, a training script): they are no flags of the engine, and "vllm" behind --model is no model."""
    engines = [engine_named(engine)] if engine else all_engines()

    def known(name: str) -> bool:
        spellings = ("--" + name.replace("_", "-"), "-" + name)
        return any(one.knows_flag(flag) for one in engines for flag in spellings)

    own = {name: value for name, value in flags.items() if known(name)}
    if len(flags) - len(own) < max(2, len(own) + 1):
        return flags, model
    return own, "" if model in {one.name for one in all_engines()} else model


def parse_flags(command: str) -> tuple[dict[str, Any], str, dict[str, str]]:
    """Flags by field name, the model, and VAR=value words in front. Unreadable quoting is split at spaces."""
    command = command.replace("\\\n", " ")[: 2 * beside.LONG]
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    variables = (w.partition("=") for w in words if re.match(r"(?:VLLM|CUDA|PYTORCH|NCCL)_\w+=", w))
    environment = {name: value for name, _, value in variables}
    flags: dict[str, Any] = {}
    model = ""
    rest = [word for i, word in enumerate(words) if word != "-m" and (i == 0 or words[i - 1] != "-m")]
    if "serve" in rest:
        rest = rest[rest.index("serve") + 1 :]
        if rest and not rest[0].startswith("-"):
            model = rest.pop(0)
    while rest:
        word = rest.pop(0)
        if not re.match(r"-{1,2}[a-zA-Z]", word):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        name = SHORT.get(name, name.replace("-", "_"))
        if equals:
            flags[name] = value_of(value)
        elif rest and not re.match(r"-{1,2}[a-zA-Z]", rest[0]):
            flags[name] = value_of(rest.pop(0))
        elif name.startswith("no_"):
            flags[name[3:]] = False
        else:
            flags[name] = True
    model = str(flags.pop("model", "") or model)
    return flags, model, environment


def render(model: str, flags: dict[str, Any], environment: dict[str, str] | None = None) -> str:
    """The command again, ready to paste."""
    words = [f"{name}={shlex.quote(value)}" for name, value in (environment or {}).items()]
    words += ["vllm", "serve", shlex.quote(model) if model else "MODEL"]
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is False:
            words.append("--no-" + flag[2:])
        elif value is None:
            continue
        elif isinstance(value, dict):
            words += [flag, shlex.quote(json.dumps(value))]
        elif isinstance(value, (list, tuple)):
            words += [flag, *(shlex.quote(str(v)) for v in value)]
        else:
            words += [flag, shlex.quote(str(value))]
    return " ".join(words)
