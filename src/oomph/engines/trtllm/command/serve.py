"""`trtllm-serve MODEL OPTIONS` to a Deployment, and back, as click reads it.

Settings that only the options file can hold come back as a file that bash writes on the fly:
`--extra_llm_api_options <(echo "{kv_cache_config: {dtype: fp8}}")`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from oomph.commands.call import UNSET, Call, finite, short
from oomph.engines.common.arguments import meant, read_in_order
from oomph.engines.trtllm.command import options_file
from oomph.errors import CannotPlan, CommandError
from oomph.facts.trtllm.facts import Facts, at as facts_at
from oomph.facts.trtllm.flag_effects import EFFECTS
from oomph.facts.trtllm.flags import BY_FIELD, BY_NAME, FILE_NAMES, KV_DTYPE, Option
from oomph.ir import Deployment, Engine

_OTHER_COMMANDS = ("disaggregated", "disaggregated_mpi_worker", "mm_embedding_serve", "grpc", "embeddings")
_CACHE = "kv_cache_config."


def deployment(call: Call, release: Engine, notes: Sequence[str] = ()) -> Deployment:
    words = _arguments(call.words)
    model, fields, path, remarks = parse(words, facts_at(release.version))
    if not model:
        raise CommandError("no model is named: trtllm-serve MODEL, where MODEL is ORG/NAME or a folder")
    if path is not None:
        options, more = _options(path, call.files)
        fields, lost = _over(fields, options, facts_at(release.version))
        remarks += [*more, *lost]
    names = {name: option.field for name, option in BY_NAME.items()}
    return call.starts(release, model, fields, (*notes, *remarks, *EFFECTS.sentences(fields, {})), names=names)


def _options(path: str, written: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """`written`: files of the script around the command; mounted into a container they have another folder."""
    if UNSET.fullmatch(path):
        return {}, [f"the options file is {short(path)}, which nothing sets: not read"]
    if path.lstrip().startswith("{"):  # a file that bash writes on the fly, with its text in place of its name
        return options_file.read_text(path, "the options"), []
    same_name = [name for name in written if name.rpartition("/")[2] == path.rpartition("/")[2]]
    if path in written or len(same_name) == 1:
        name = path if path in written else same_name[0]
        return options_file.read_text(written[name], name), []
    try:
        return options_file.read_file(path), []
    except CommandError as error:
        if "is not there" not in str(error):
            raise
        return {}, [f"{error}: planned without it"]


def _over(fields: dict[str, Any], options: dict[str, Any], facts: Facts) -> tuple[dict[str, Any], list[str]]:
    """The file wins over the command line; of the cache's group older releases take the file's alone."""
    lost = [field for field in fields if field.startswith(_CACHE) and field not in options]
    if facts.memory.merges_cache_config or not lost or not any(field.startswith(_CACHE) for field in options):
        return fields | options, []
    rest = {field: value for field, value in fields.items() if field not in lost}
    names = ", ".join(BY_FIELD[field].names[0] for field in lost)
    return rest | options, [f"{names} is lost in this release: the options file has a kv_cache_config of its own"]


def starts_server(words: Sequence[str]) -> bool:
    return not (len(words) > 1 and words[1] in _OTHER_COMMANDS)


def _arguments(words: Sequence[str]) -> list[str]:
    """`trtllm-serve serve MODEL` and `trtllm-serve MODEL` are the same (commands/serve.py DefaultGroup)."""
    rest = list(words[1:])
    if rest and rest[0] in _OTHER_COMMANDS:
        raise CannotPlan(f"`trtllm-serve {short(rest[0])}` starts no plain server: `trtllm-serve MODEL` does")
    return rest[1:] if rest[:1] == ["serve"] else rest


def parse(words: Sequence[str], facts: Facts) -> tuple[str, dict[str, Any], str | None, list[str]]:
    """(model, fields, options file, notes)."""
    model, path = "", None
    fields: dict[str, Any] = {}
    notes: list[str] = []

    def takes(name: str, _: str) -> bool:
        return name.startswith("--") and (name in FILE_NAMES or _option(name, facts).kind != "flag")

    for use in read_in_order(words, takes):
        name, texts = use.name, use.texts
        if not name.startswith("--"):
            model = _only_model(model, name or texts[0])
            continue
        option = _option(name, facts) if name not in FILE_NAMES else None
        if option is not None and option.kind == "flag":
            if use.is_explicit:
                raise CommandError(f"Option '{name}' does not take a value.")
            fields[option.field] = True
        elif not texts:
            raise CommandError(f"Option '{name}' requires an argument.")
        elif option is None:
            path = texts[0]
        elif UNSET.fullmatch(texts[0]) and option.kind != "str":
            notes.append(f"{name} is {short(texts[0])}, which nothing sets: left out")
        else:
            fields[option.field] = _value(option, name, texts[0])
    return model, fields, path, notes


def _only_model(model: str, word: str) -> str:
    if word.startswith("-") and len(word) > 1:
        raise CommandError(f"trtllm-serve would stop with: No such option: {short(word)}")
    if model:
        raise CommandError(f"trtllm-serve would stop with: Got unexpected extra argument ({short(word)})")
    return word


def _option(name: str, facts: Facts) -> Option:
    if name in BY_NAME:
        return BY_NAME[name]
    if name in KV_DTYPE.names:
        if facts.memory.kv_dtype_option:
            return KV_DTYPE
        raise CommandError(
            f"this release has no {name} yet: write kv_cache_config: {{dtype: fp8}} into the options file"
        )
    if name in ("--help", "-h", "--version"):
        raise CommandError(f"{name} starts no server")
    from difflib import get_close_matches

    spelled = name.replace("-", "_").replace("__", "--", 1)
    close = [spelled] if spelled in BY_NAME else get_close_matches(spelled, BY_NAME, n=2, cutoff=0.75)
    raise CommandError(
        f"trtllm-serve has no option {short(name)}{meant(close)}",
        hint=f"trtllm-serve would stop with: No such option: {short(name)}",
    )


def _value(option: Option, name: str, text: str) -> Any:
    try:
        if option.kind == "int":
            return int(text)
        if option.kind == "float":
            return finite(text)
    except (ValueError, OverflowError):
        kind = {"int": "integer", "float": "float"}[option.kind]
        raise CommandError(f"Invalid value for '{name}': {short(text)} is not a valid {kind}.") from None
    return text


def check(flags: Mapping[str, Any]) -> None:
    """Numbers that no server has."""
    sizes = ("tensor_parallel_size", "pipeline_parallel_size", "moe_expert_parallel_size", "context_parallel_size")
    for field in (*sizes, "max_batch_size", "max_num_tokens", "max_seq_len", "max_beam_width"):
        value = flags.get(field)
        most = 4096 if field in sizes else 1 << 31
        if isinstance(value, int) and not 1 <= value <= most:
            raise CommandError(f"{field} {value}: it is between 1 and {most:,}")
    fraction = flags.get("kv_cache_config.free_gpu_memory_fraction")
    if isinstance(fraction, float) and not 0 < fraction < 1:
        raise CommandError(f"free_gpu_memory_fraction {fraction:g}: it is between 0 and 1")
    block = flags.get("kv_cache_config.tokens_per_block")
    if isinstance(block, int) and not 1 <= block <= 1 << 16:
        raise CommandError(f"kv_cache_config.tokens_per_block {block}: it is between 1 and 65,536")


def to_words(deployment: Deployment) -> list[str]:
    """The command line of a deployment; what only a file can say is a file that bash writes on the fly."""
    rest = file_fields(deployment.flags)
    options = {field: value for field, value in deployment.flags.items() if field not in rest}
    words = ["trtllm-serve", deployment.model, *option_words(options, deployment.spelling)]
    if not rest:
        return words
    from oomph.commands.call import quote

    text = options_file.to_yaml(rest, one_line=True).replace('"', "'")
    line = " ".join(map(quote, words)) + f' {FILE_NAMES[0]} <(echo "{text}")'
    return ["bash", "-c", line]


def option_words(flags: Mapping[str, Any], spelling: Mapping[str, str] | None = None) -> list[str]:
    words: list[str] = []
    for field, value in flags.items():
        option = BY_FIELD.get(field)
        if option is None or value is None:
            continue
        name = (spelling or {}).get(field, option.names[0])
        if option.kind == "flag":
            words += [name] if value else []
        else:
            words += [name, f"{value:g}" if isinstance(value, float) else str(value)]
    return words


def file_fields(flags: Mapping[str, Any]) -> dict[str, Any]:
    """What the command line has no option for; with one setting of the cache in the file, all of them."""
    off = {field for field, value in flags.items() if value is False and field in BY_FIELD}
    grouped = any(field.startswith(_CACHE) and field not in BY_FIELD for field in flags)
    return {
        field: value
        for field, value in flags.items()
        if field not in BY_FIELD or field in off or (grouped and field.startswith(_CACHE))
    }
