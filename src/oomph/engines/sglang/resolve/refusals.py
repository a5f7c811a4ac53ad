"""What SGLang refuses while it builds a model, in its words: shares that do not divide, classes that it lacks."""

from oomph.engines.sglang.resolve.settings import ModelShape, Settings
from oomph.engines.sglang.weights.lora import lora_of
from oomph.engines.sglang.weights.online import format_refusal
from oomph.facts.sglang.choices import CHOICES
from oomph.facts.sglang.facts import Facts
from oomph.facts.transformers import INCOMPATIBLE, NOT_IN_TRANSFORMERS
from oomph.ir import Deployment, Experts, Linear, Model
from oomph.text.tables import first_that_holds


def refusal_before_load(
    model: Model, shape: ModelShape, settings: Settings, facts: Facts, deployment: Deployment
) -> str:
    return (
        _unknown_parser(facts, deployment)
        or _priority_policy(deployment)
        or _text_only(model, facts, deployment)
        or _groups(settings)
        or _no_class(model, shape, facts, deployment)
        or format_refusal(model, str(deployment.flags.get("quantization") or ""))
        or _no_rocm_format(model, facts, deployment)
        or _old_card(model, facts, deployment)
        or _heads(model, settings)
        or _blocks(model, settings)
        or _too_old(deployment)
        or _adapters(model, deployment)
    )


def _adapters(model: Model, deployment: Deployment) -> str:
    lora = lora_of(model, deployment.flags)
    return lora.refusal if lora is not None else ""


def _priority_policy(deployment: Deployment) -> str:
    """validation_hook.py (0.5.23), server_args.py check_server_args (0.5.12)."""
    policy = str(deployment.flags.get("schedule_policy") or "fcfs")
    if not deployment.flags.get("enable_priority_scheduling") or policy in ("fcfs", "lof"):
        return ""
    return (
        "AssertionError: To use priority scheduling, schedule_policy must be 'fcfs' or 'lof'. "
        f"'{policy}' is not supported."
    )


def _unknown_parser(facts: Facts, deployment: Deployment) -> str:
    """argparse's own words: the names are choices of the command line."""
    parsers = {"tool_call_parser": facts.parsers.tool_call_parser, "reasoning_parser": facts.parsers.reasoning_parser}
    known: dict[str, frozenset[str]] = {**parsers, **CHOICES}
    for field, names in known.items():
        name = deployment.flags.get(field)
        if isinstance(name, str | int) and not isinstance(name, bool) and str(name) not in names:
            choices = ", ".join(repr(known_name) for known_name in sorted(names))
            option = "--" + field.replace("_", "-")
            return f"launch_server.py: error: argument {option}: invalid choice: {name!r} (choose from {choices})"
    return ""


def _text_only(model: Model, facts: Facts, deployment: Deployment) -> str:
    """arg_groups/model_hook.py handle_language_model_only."""
    allowed = facts.architectures.text_only
    if not deployment.flags.get("language_model_only") or model.architecture in allowed:
        return ""
    names = sorted(allowed)
    return f"ValueError: --language-model-only does not support ['{model.architecture}']. Supported: {names}."


def _groups(settings: Settings) -> str:
    """arg_groups/parallel_hook.py:326; distributed/parallel_state.py initialize_model_parallel: the ranks
    that share experts are some of the tensor-parallel ones, also where the model has no experts."""
    if settings.tp_size % settings.attn_dp_size:
        return "AssertionError"
    if settings.ep_size > settings.tp_size:
        return f"AssertionError (--ep-size {settings.ep_size} is more than --tp-size {settings.tp_size})"
    if settings.tp_size % settings.ep_size:
        return (
            f"ValueError: the new group's rank should be within the world_size set by init_process_group (--ep-size "
            f"{settings.ep_size} does not divide --tp-size {settings.tp_size})"
        )
    return ""


def _no_class(model: Model, shape: ModelShape, facts: Facts, deployment: Deployment) -> str:
    """model_loader/utils.py resolve_transformers_arch: transformers' own code stands in where it has a class, and one
    whose attention can be replaced; models with states of their own never."""
    name = model.architecture
    if name in facts.models.classes:
        return ""
    if name in NOT_IN_TRANSFORMERS and not deployment.flags.get("trust_remote_code"):
        return (
            f"ValueError: Cannot find model module. '{name}' is not a registered model in the Transformers library "
            "(only relevant if the model is meant to be in Transformers) and 'AutoModel' is not present in the model "
            "config's 'auto_map' (relevant if the model is custom)."
        )
    if not shape.states and name not in INCOMPATIBLE:
        return ""
    return (
        f"ValueError: {name} has no SGlang implementation and the Transformers implementation is not "
        f"compatible with SGLang."
    )


def _too_old(deployment: Deployment) -> str:
    """load_model_utils.py:79 (0.5.23); model_runner.py:174 (0.2.15)."""
    card = deployment.gpus[0]
    is_old = card.vendor == "nvidia" and card.sm < 75
    return "RuntimeError: SGLang only supports sm75 and above." if is_old else ""


def _no_rocm_format(model: Model, facts: Facts, deployment: Deployment) -> str:
    """configs/model_config.py:2156 (0.5.23) _verify_quantization."""
    method = model.quantization.method if model.quantization is not None else deployment.flags.get("quantization") or ""
    if deployment.gpus[0].vendor != "amd" or not method or method in facts.weights.rocm_formats:
        return ""
    name = "modelopt_fp8" if method == "modelopt" else method
    return f"ValueError: {name} quantization is currently not supported in ROCm."


def _old_card(model: Model, facts: Facts, deployment: Deployment) -> str:
    """model_loader/loader.py:259 (0.5.23): the compute capability that the quantisation asks for."""
    method = model.quantization.method if model.quantization is not None else deployment.flags.get("quantization") or ""
    oldest = facts.weights.oldest_cards.get(method, 0)
    major, minor = deployment.gpus[0].capability
    if deployment.gpus[0].vendor != "nvidia" or major * 10 + minor >= oldest:
        return ""
    name = "modelopt_fp8" if method == "modelopt" else method
    return (
        f"ValueError: The quantization method {name} is not supported for the current GPU. Minimum capability: "
        f"{oldest}. Current capability: {major * 10 + minor}."
    )


def _heads(model: Model, settings: Settings) -> str:
    """layers/linear.py QKVParallelLinear: divide(total_num_heads, tp_size)."""
    ranks, heads = settings.attn_tp_size, model.num_heads
    return "" if not heads or heads % ranks == 0 else f"AssertionError: {heads} is not divisible by {ranks}"


def _blocks(model: Model, settings: Settings) -> str:
    """layers/quantization/fp8.py: a rank's share of block-quantised weights is whole blocks."""
    for block in dict.fromkeys(layer.block for layer in model.layers):
        for module in block.modules:
            if isinstance(module, Experts) and (text := _expert_blocks(module, settings)):
                return text
            if isinstance(module, Linear) and (text := _linear_blocks(module, settings)):
                return text
    return ""


def _is_fp8_block(module: Linear | Experts) -> bool:
    scheme = module.scheme
    return scheme is not None and scheme.method == "fp8" and scheme.strategy == "block" and all(scheme.block)


def _expert_blocks(module: Experts, settings: Settings) -> str:
    ranks = max(1, settings.tp_size // settings.ep_size)
    if ranks == 1 or not _is_fp8_block(module):
        return ""
    assert module.scheme is not None
    share, (rows, columns) = module.intermediate // ranks, module.scheme.block
    return first_that_holds(
        (
            share % rows,
            f"ValueError: The output_size of gate's and up's weight = {share} is not divisible by weight quantization "
            f"block_n = {rows}.",
        ),
        (
            share % columns,
            f"ValueError: The input_size of down's weight = {share} is not divisible by weight quantization block_k = "
            f"{columns}.",
        ),
    )


def _linear_blocks(module: Linear, settings: Settings) -> str:
    attention = module.role in ("attention", "linear_attn")
    ranks = settings.attn_tp_size if attention else settings.tp_size
    if ranks == 1 or not _is_fp8_block(module):
        return ""
    assert module.scheme is not None
    rows, columns = module.scheme.block
    if module.shard == "row" and module.in_features // ranks % columns:
        return (
            f"ValueError: Weight input_size_per_partition = {module.in_features // ranks} is not divisible by weight "
            f"quantization block_k = {columns}."
        )
    if module.shard == "column" and len(module.parts) > 1 and not attention:
        for part in module.parts:
            if part.created and part.out_features // ranks % rows:
                share = part.out_features // ranks
                return (
                    f"ValueError: Weight output_partition_size = {share} is not divisible by weight quantization "
                    f"block_n = {rows}."
                )
    return ""
