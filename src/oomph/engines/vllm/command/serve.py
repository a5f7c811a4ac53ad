"""`vllm serve ...` and `python -m vllm.entrypoints.openai.api_server ...` to a Deployment, and back."""

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from oomph.commands.call import Call, memory_variables, open_model, program, short, shown
from oomph.engines.vllm.command import arguments
from oomph.engines.vllm.command.values import refuse, render
from oomph.errors import CannotPlan, CommandError
from oomph.facts.vllm import environment as variables
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.flag_effects import EFFECTS
from oomph.facts.vllm.flags import Options, negated, options_of, spelled
from oomph.facts.vllm.known import GGUF_NOTE
from oomph.facts.vllm.versions import RELEASES, parse as order
from oomph.ir import Deployment, Engine

# the OpenAI server under its two places, and the demonstration server that old manifests start
SERVERS = (
    "vllm.entrypoints.openai.api_server",
    "vllm.entrypoints.launchers.api_server",
    "vllm.entrypoints.api_server",
)
OTHERS = ("chat", "complete", "bench", "collect-env", "run-batch", "launch", "snapshot")
_OLDER = "the last with all flags"  # where a release that nobody named is from


def deployment(call: Call, release: Engine, notes: Sequence[str] = ()) -> Deployment:
    """`notes` are about the release."""
    options = options_of(release.version)
    words, serve = _after_program(call.words)
    from_flag, words = _model_flag(words, serve, options)
    config, words, config_notes = _config(words, options)
    first = 1 if words and not words[0].startswith("-") else 0  # the file's flags go behind the model
    parsed = arguments.parse([*words[:first], *config, *words[first:]], options)
    flags = dict(parsed.flags)
    # $EXTRA_ARGS; the first word of `vllm serve` is the model
    extra = [word for word in parsed.positional[1 if serve else 0 :] if re.fullmatch(r"\$\{?\w+\}?", word)]
    positional = [word for i, word in enumerate(parsed.positional) if (serve and not i) or word not in extra]
    named = flags.pop("model", None)
    if serve:  # what is left under `serve` comes from a --config file, which a model in the command beats
        named = from_flag if positional or from_flag is not None else named
    model = _model(positional, named, serve, options)
    if model is None:
        default = options.by_field["model"].default
        raise CommandError(f"no model is named: vLLM would serve its default, {default}", hint="vllm serve MODEL ...")
    _check_model(model)
    if model.lower().endswith(".gguf") and (older := _last_release_with_gguf(release)) is not None:
        note = f"{GGUF_NOTE.partition(', and')[0]}; nobody names a release, so this is planned as {older.version}"
        return deployment(call, older, (*notes, note))
    _merge_speculative(flags, options)
    extra_notes = [f"{shown(word)} is set nowhere: left out" for word in extra]
    all_notes = [
        *notes,
        *config_notes,
        *parsed.notes,
        *extra_notes,
        *variables.check(memory_variables(call.environment), release.version),
    ]
    idle = {field: why for field in flags if (why := options.idle(field))}
    all_notes += [
        f"{_name(field, options)} has no effect in vLLM {options.release}: {why}" for field, why in idle.items()
    ]
    others = {field: value for field, value in flags.items() if field not in idle}
    all_notes += EFFECTS.sentences(others, {field: _name(field, options) for field in others})
    started = call.starts(release, model, flags, all_notes, names=options.field_names)
    return replace(started, gpu_count=started.gpu_count or len(flags.get("device_ids") or ()))


def last_release_with(error: arguments.NoSuchFlag, release: Engine) -> tuple[Engine, str] | None:
    """Nobody named the release: a flag that went means an older one, and a note says so. None where it was named."""
    if release.version_from not in ("newest known", _OLDER) or error.status.state != "gone":
        return None
    last = [one for one in RELEASES if order(one) < order(error.status.until)][-1:]
    if not last or order(last[0]) >= order(release.version):
        return None
    note = f"{error.status.sentence}: nobody names a release, so this is planned as {last[0]}, the last that has it"
    return Engine(release.name, last[0], _OLDER), note


def _last_release_with_gguf(release: Engine) -> Engine | None:
    """The same for a GGUF file; None where the release was named, or reads GGUF itself."""
    if release.version_from != "newest known" or at(release.version).support.gguf_in_tree:
        return None
    last = [one for one in RELEASES if at(one).support.gguf_in_tree][-1]
    return Engine(release.name, last, "the last with GGUF in its tree")


def _model(positional: list[str], named: str | None, serve: bool, options: Options) -> str | None:
    """The one model of `vllm serve X`, `vllm serve --model X` or `api_server --model X`."""
    if not serve and positional:  # parsed into model_tag, which only `vllm serve` reads (cli/serve.py:40, 0.10.2)
        raise CommandError(f"the api_server does not read {short(positional[0])}: it takes the model as --model NAME")
    if named is not None and positional:
        raise CommandError(
            f"the model is named twice, as {short(positional[0])} and by --model {short(named)}: vLLM "
            f"{options.release} stops with: unrecognized arguments: {shown(' '.join(positional))}"
        )
    if len(positional) > 1:
        raise CommandError(f"unrecognized arguments: {shown(' '.join(positional[1:]))}")
    return positional[0] if positional else named


def _name(field: str, options: Options) -> str:
    return options.spelled(options.by_field[field])[0]


def _after_program(words: Sequence[str]) -> tuple[list[str], bool]:
    """What follows `vllm serve` or `python -m module`, and whether it was `vllm serve`."""
    rest = list(words[1:])
    if program(words[0]) == "python":
        while rest and rest[0] != "-m":
            rest.pop(0)
        rest = rest[1:]
        if rest[:1] and rest[0] in SERVERS:
            return rest[1:], False
        if rest[:1] and rest[0] in ("vllm", "vllm.entrypoints.cli.main"):
            rest = rest[1:]
        else:
            raise CommandError(f"python -m {short(rest[0] if rest else '')} does not start a vLLM server")
    if rest[:1] == ["serve"]:
        return rest[1:], True
    word = rest[0] if rest else ""
    if word in OTHERS:
        raise CannotPlan(f"vllm {word} starts no server: oomph plans vllm serve")
    raise CommandError(f"vllm has no command {short(word)}; did you mean vllm serve?")


def _model_flag(words: list[str], serve: bool, options: Options) -> tuple[str | None, list[str]]:
    """`vllm serve --model X`: refused by old releases, moved to the front by newer ones."""
    at = next((i for i, word in enumerate(words) if word == "--model" or word.startswith("--model=")), None)
    if not serve or at is None:
        return None, words
    if words[at] == "--model" and not options.reading.moves_model_flag:
        raise CommandError(
            "With `vllm serve`, you should provide the model as a positional argument or in a config file instead of "
            f"via the `--model` option (vLLM {options.release} stops here)."
        )
    if words[at] != "--model":
        return words[at].removeprefix("--model="), words[:at] + words[at + 1 :]
    if at + 1 >= len(words):
        raise CommandError("argument --model: expected one argument")
    return words[at + 1], words[:at] + words[at + 2 :]


def _check_model(model: str) -> None:
    if not model or model.startswith("-") or "\0" in model or "\n" in model:
        raise CommandError(f"{short(model)} is not a model")
    if "$" in model and re.fullmatch(r"\$\{?[1-9]\}?", model):
        raise CommandError(
            f"the model is {model}, an argument of the script", hint="write it behind the file: oomph plan FILE MODEL"
        )
    if "$" in model:
        raise open_model(model)
    if model.startswith("<") or "{{" in model or model in ("...", "…"):
        raise CommandError(f"the model is {short(model)}: put its name in its place")


def _merge_speculative(flags: dict[str, Any], options: Options) -> None:
    """--spec-method, --spec-model and --spec-tokens are keys of --speculative-config (arg_utils.py:2069, 0.32.0)."""
    short_forms = (("spec_method", "method"), ("spec_model", "model"), ("spec_tokens", "num_speculative_tokens"))
    for field, key in short_forms:
        value = flags.pop(field, None)
        if value is None:
            continue
        config = flags.get("speculative_config") or {}
        if key in config:
            raise CommandError(f"{_name(field, options)} and --speculative-config['{key}'] are mutually exclusive")
        flags["speculative_config"] = {**config, key: value}


def _config(words: list[str], options: Options) -> tuple[list[str], list[str], list[str]]:
    """The flags of a `--config FILE`, the words without it, and notes. The file's flags come first: later ones win."""
    notes = [
        f"{shown(word)} is ignored by vLLM: the file is read only as --config FILE, in two words"
        for word in words
        if word.startswith("--config=")
    ]
    if "--config" not in words:
        return [], words, notes
    if words.count("--config") > 1:
        raise CommandError("More than one config file specified!")
    at = words.index("--config")
    if at + 1 >= len(words):
        raise CommandError("No config file specified! Please check your command-line arguments.")
    path = words[at + 1]
    flags, dropped = config_words(_read_config(path), path, options)
    where = shown(path)
    notes += [
        f"{where}: vLLM {options.release} drops '{key}: false'; only 0.28 and later read --no-{key}" for key in dropped
    ]
    return flags, words[:at] + words[at + 2 :], notes


def _read_config(path: str) -> dict[Any, Any]:
    if not path.endswith((".yaml", ".yml")):
        raise CommandError(f"Config file must be of a yaml/yml type. {shown(path.split('.')[-1])} supplied")
    from oomph.commands.files import read_settings
    from oomph.commands.manifests.yaml_text import load

    documents = load(read_settings(path, "config file"), path)
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise CommandError(f"the config file {short(path)} is not one YAML mapping of flags")
    return documents[0]


def config_words(config: dict[Any, Any], path: str, options: Options) -> tuple[list[str], list[str]]:
    """load_config_file: the words that stand for a YAML mapping, and the keys whose `false` was dropped."""
    import json

    out: list[str] = []
    dropped: list[str] = []
    for key, value in config.items():
        if not isinstance(key, str):
            raise CommandError(f"{shown(path)}: the key {short(str(key))} is not a flag")
        name = "--" + key
        if value is True:
            out.append(name)
        elif value is False:
            no = negated(spelled(name))
            if no not in options.by_name:
                continue
            if options.reading.negates_yaml_false:
                out.append(no)
            else:
                dropped.append(key)
        elif isinstance(value, list):
            out += [name, *map(str, value)] if value else []
        elif isinstance(value, dict):
            as_json = options.reading.yaml_mapping_is_json
            try:
                out += [name, json.dumps(value) if as_json else str(value)]
            except (TypeError, ValueError, RecursionError):
                raise CommandError(f"{shown(path)}: the value of {shown(key)} is not plain YAML") from None
        else:
            out += [name, str(value)]
    return out, dropped


def to_words(deployment: Deployment) -> list[str]:
    """`vllm serve MODEL FLAGS` that gives the same flags again."""
    options = options_of(deployment.engine.version)
    words = ["vllm", "serve", deployment.model]
    for field, value in deployment.flags.items():
        if field not in options.by_field:
            raise refuse(field, ValueError(f"vLLM {options.release} has no such flag"))  # type: ignore[arg-type]
        words += render(options.by_field[field], value, options, deployment.spelling.get(field, ""))
    return words


def at_release(deployment: Deployment, options: Options) -> tuple[Deployment, tuple[str, ...]]:
    """The same command under another release: flags that it no longer (or not yet) has are left out, and said."""
    flags, sentences = dict(deployment.flags), []
    for field in deployment.flags:
        status = options.status(field)
        if status.state in ("gone", "not yet"):
            del flags[field]
            sentences.append(status.sentence)
    release = replace(deployment.engine, version=options.release, version_from="--to")
    return replace(deployment, engine=release, flags=flags), tuple(sentences)
