"""The engines by name. Each is imported when it is first asked for, and its methods import the rest when called."""

from collections.abc import Sequence
from functools import cache
from importlib import import_module

from msgspec.structs import replace

from oomph.engines.protocol import EngineProtocol
from oomph.errors import CommandError, NoKernels
from oomph.ir import Deployment, Device, Model, Plan, Verdict
from oomph.ir.world import shortage
from oomph.text.printable import quoted

NAMES = ("vllm", "sglang", "llamacpp", "ollama", "trtllm")  # in the order in which screens list them
DEFAULT = NAMES[0]  # whose flags are meant where nothing names an engine
FILES = "llamacpp"  # with which a GGUF file is served where nothing names an engine


@cache
def engine_named(name: str) -> EngineProtocol:
    """The engine of a folder's name."""
    if name not in NAMES:
        raise CommandError(f"{name[:40]!r} is not an engine that oomph knows", hint=f"engines: {', '.join(NAMES)}")
    instance: EngineProtocol = import_module(f"oomph.engines.{name}.engine").ENGINE
    return instance


# what PyTorch prints where a library has no code for a card
_NO_CODE = {
    "nvidia": "CUDA error: no kernel image is available for execution on the device",
    "amd": "HIP error: invalid device function",
}


def engine_of(deployment: Deployment) -> EngineProtocol:
    return engine_named(deployment.engine.name)


def plan_with_engine(deployment: Deployment, model: Model | None = None) -> Plan:
    """The plan without its host; refused where the engine runs on none of a vendor's GPUs, or has too few of them."""
    engine = engine_of(deployment)
    _require_bounds(deployment)
    require_kernels(engine, deployment.gpus)
    if wrong := _card_without_code(deployment):
        maker = _MAKERS[deployment.image_vendor]
        text = f"{engine.no_device} (the image is built for {maker} cards, and the {wrong} is none of them)"
        verdict = Verdict(False, "other", 0, text, refusal="card")
        right = right_image(deployment)
        notes = (f"the image with code for the {wrong} is {right}",) if right else ()
        return Plan(deployment, deployment.model, verdict, warnings=(*deployment.notes, *notes))
    if (missing := engine.missing_kernels(deployment)) and not deployment.own_build:
        is_amd = any(gpu.vendor == "amd" for gpu in deployment.gpus)
        text = f"{_NO_CODE['amd' if is_amd else 'nvidia']} ({missing})"
        note = "--own-build plans a build of your own, with code for this card"
        return Plan(
            deployment,
            deployment.model,
            Verdict(False, "other", 0, text, refusal="card"),
            warnings=(*deployment.notes, note),
        )
    short = shortage(engine.world(deployment), deployment.gpus) if deployment.gpus else None
    if short is not None:
        verdict = Verdict(False, "other", 0, engine.too_few_gpus(deployment, short), refusal="gpus")
        return Plan(deployment, deployment.model, verdict, warnings=deployment.notes)
    if model is None and engine.asks_the_hub:
        from oomph.sources.place import refusal_of

        if text := refusal_of(deployment.model, engine.title):
            verdict = Verdict(False, "other", 0, text, refusal="model")
            return Plan(deployment, deployment.model, verdict, warnings=deployment.notes)
    plan = engine.plan(deployment, model)
    if plan.verdict.stage == "other" and not plan.verdict.refusal:
        from oomph.facts.refusal_kinds import kind_of  # only here: naming an engine reads no facts

        plan = replace(plan, verdict=replace(plan.verdict, refusal=kind_of(plan.verdict.message)))
    plan = _with_files(plan, engine)
    missing = engine.missing_kernels(deployment)
    if not missing:
        return plan
    return replace(plan, warnings=(*plan.warnings, f"{missing}: this is the plan of a build of your own (--own-build)"))


_MAKERS = {"nvidia": "NVIDIA's", "amd": "AMD's", "intel": "Intel's"}


def _card_without_code(deployment: Deployment) -> str:
    """The first card of another maker than the one for whose cards the container's image is built."""
    maker = deployment.image_vendor
    if maker not in _MAKERS or deployment.own_build:
        return ""
    return next((gpu.name for gpu in deployment.gpus if gpu.vendor and gpu.vendor != maker), "")


def right_image(deployment: Deployment) -> str:
    """The engine's official image with code for the cards, where that of the container has none; "" = none is known."""
    images = engine_of(deployment).own_images
    if not _card_without_code(deployment):
        return ""
    return next((images[gpu.vendor] for gpu in deployment.gpus if gpu.vendor in images), "")


_LARGEST = 1 << 62  # of any flag: bytes, tokens, seconds


def _require_bounds(deployment: Deployment) -> None:
    """Every number of a command, also inside its JSON, is one that a computer can count with."""
    level: list[tuple[str, object]] = list(deployment.flags.items())
    while level:
        below: list[tuple[str, object]] = []
        for name, value in level:
            if isinstance(value, dict):
                below += [(name, inner) for inner in value.values()]
            elif isinstance(value, list | tuple):
                below += [(name, inner) for inner in value]
            elif isinstance(value, int | float) and not -_LARGEST <= value <= _LARGEST:
                size = f"a number of {len(str(value))} digits" if isinstance(value, int) else f"{value:g}"
                raise CommandError(f"--{name.replace('_', '-')}: {size} is more than any of its values can be")
        level = below


_NO_TOKENIZER = "OSError: Can't load tokenizer for {}: its folder has no tokenizer.json, tokenizer.model or the like"


def _with_files(plan: Plan, engine: EngineProtocol) -> Plan:
    """What a folder of this machine lacks or says beside the weights, for the engines that read it."""
    from oomph.sources.place import path_here  # only here: naming an engine reads no facts

    deployment = plan.deployment
    if not engine.asks_the_hub or not plan.ranks or not path_here(deployment.model):
        return plan
    from oomph.sources.beside import answer_limit, lacks_tokenizer, lacks_weights

    has_own = any(deployment.flags.get(field) for field in ("tokenizer", "tokenizer_path", "skip_tokenizer_init"))
    if not has_own and plan.verdict.outcome != "fails" and lacks_tokenizer(deployment.model):
        verdict = Verdict(False, "other", 0, _NO_TOKENIZER.format(quoted(deployment.model)), refusal="model")
        return replace(plan, verdict=verdict, ranks=(), kv=None)
    notes = []
    if deployment.flags.get("load_format", "auto") == "auto" and lacks_weights(deployment.model):
        name = quoted(deployment.model)
        notes.append(f"{name} has no weights: planned from its config.json, and {engine.title} does not start without")
    if limit := answer_limit(deployment.model):
        notes.append(f"generation_config.json: an answer has at most {limit:,} tokens where its request does not say")
    return replace(plan, warnings=(*plan.warnings, *notes)) if notes else plan


def has_kernels(deployment: Deployment, card: Device) -> bool:
    """Whether the release has code for a card on which nothing runs yet."""
    return not engine_of(deployment).missing_kernels(replace(deployment, gpus=(card,)))


def require_kernels(engine: EngineProtocol, gpus: Sequence[Device]) -> None:
    for vendor, sentence in engine.no_kernels:
        if any(device.vendor == vendor for device in gpus):
            hint = "llama.cpp and Ollama commands can be planned there: llama-server -hf REPOSITORY"
            raise NoKernels(sentence, hint=hint)


def all_engines() -> tuple[EngineProtocol, ...]:
    return tuple(map(engine_named, NAMES))


def names_in(text: str) -> list[str]:
    """Of the engines that are listed: "vllm, llama.cpp"; what is none is named as it stands, to be refused."""
    return [name_of(word) or word for word in map(str.strip, text.split(",")) if word]


def name_of(spelling: str) -> str:
    """The name that a spelling in --engine or of a program stands for; "" = none."""
    word = spelling.lower()
    return next((one.name for one in all_engines() if word in (one.name, *one.aliases, *one.programs)), "")
