"""What a person can change about a TensorRT-LLM deployment: one row per lever, with the settings worth trying.

The temporary pool, and with it the dummy run, is made large by max_batch_size; the engine's own hint names
max_num_tokens for every stage. Both are in the table: which of them helps is planned by `advice/`, never written here.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from oomph.engines.common.levers import (
    NotRead,
    Setting,
    checkpoint_levers,
    idle_cards_lever,
    larger_cards_lever,
    more_cards_lever,
)
from oomph.engines.trtllm.command.options_file import GRAPHS, OFF
from oomph.facts.trtllm.flags import BY_FIELD
from oomph.ir import Attention, Change, Lever, Model, Plan
from oomph.ir.advice import Kind
from oomph.text.tables import all_that_hold
from oomph.units import gib

FRACTION = "kv_cache_config.free_gpu_memory_fraction"
_BATCHES = (512, 256, 128, 64, 32, 16, 8, 4, 1)
_TOKENS = (4096, 2048, 1024, 512)
_LENGTHS = (262144, 131072, 65536, 32768, 16384, 8192, 4096, 2048)
_AFTER_LOAD = "it is read after the model is created"
_NO_POOL_YET = "the KV cache is sized after the dummy run"
# What another layout, card or checkpoint changes: a figure of a log is planned again.
_WHOLE = ("weights", "load_peak", "peak", "temporary_kv", "available_kv", "non_torch", "activation_peak")
_POOL_FOLLOWS = "the KV cache takes its share of whatever is left"


def levers(plan: Plan, model: Model) -> Iterator[Lever]:
    if "free_gpu_memory_fraction" not in plan.resolved or not plan.ranks:
        return iter(())
    world = int(plan.resolved["tp_size"]) * int(plan.resolved["pp_size"])
    return chain(
        _batch(plan),
        _tokens(plan),
        _fraction(plan),
        _context(plan),
        _graphs(plan),
        _cache(plan, model),
        _layout(plan),
        checkpoint_levers(plan, model, _WHOLE),
        idle_cards_lever(plan, "tensor_parallel_size", spell, world, _WHOLE),
        more_cards_lever(plan, "tensor_parallel_size", spell, world, _WHOLE),
        larger_cards_lever(plan, _WHOLE),
    )


def _lever(
    plan: Plan, field: str, settings: Iterable[Setting], rank: int, moves: tuple[str, ...], not_read: NotRead,
    *, name: str = "", kind: Kind = "flag", popular: bool = False,
) -> Iterator[Lever]:  # fmt: skip
    lever = name or field.rpartition(".")[2]
    changes = tuple(
        Change(lever, spell(field, value), kind, {field: value}, cost=cost, rank=rank, moves=moves)
        for value, cost in settings
        if plan.deployment.flags.get(field) != value
    )
    if changes:
        yield Lever(lever, changes, not_read, popular=popular)


def spell(field: str, value: Any) -> str:
    """On the command line where there is an option for it, else as the options file has it."""
    shown = f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
    option = BY_FIELD.get(field)
    if option is None:
        group, dot, key = field.partition(".")
        return f"{group}: {{{key}: {shown}}}" if dot else f"{field}: {shown}"
    return option.names[0] if option.kind == "flag" else f"{option.names[0]} {shown}"


def _batch(plan: Plan) -> Iterator[Lever]:
    now = int(plan.resolved["max_batch_size"])
    settings = [(n, f"at most {n} requests at once") for n in _BATCHES if n < now]
    moves = ("peak", "temporary_kv", "cudagraph", "decode_logits")
    yield from _lever(plan, "max_batch_size", settings, 1, moves, {"weights_load": _AFTER_LOAD}, popular=True)


def _tokens(plan: Plan) -> Iterator[Lever]:
    now = int(plan.resolved["max_num_tokens"])
    chunked = bool(plan.resolved["chunked_prefill"])
    cost = "long prompts take more steps" if chunked else "prompts longer than this are refused without chunked prefill"
    moves = ("peak", "temporary_kv", "activation_peak")
    settings = [(n, cost) for n in _TOKENS if n < now]
    yield from _lever(plan, "max_num_tokens", settings, 2, moves, {"weights_load": _AFTER_LOAD}, popular=True)


def _fraction(plan: Plan) -> Iterator[Lever]:
    now = float(plan.resolved["free_gpu_memory_fraction"])
    not_read: NotRead = {"weights_load": _NO_POOL_YET}
    lower = [(value, "a smaller KV cache") for value in (0.85, 0.8, 0.7, 0.6, 0.5, 0.4) if value < now - 0.005]
    yield from _lever(plan, FRACTION, lower, 1, (), not_read, name="free_gpu_memory_fraction_down", popular=True)
    higher = [(value, "less room while serving") for value in (0.85, 0.9, 0.95) if value > now + 0.005]
    yield from _lever(plan, FRACTION, higher, 2, (), not_read, name="free_gpu_memory_fraction_up", popular=True)


def _context(plan: Plan) -> Iterator[Lever]:
    length, served = int(plan.resolved["max_seq_len"]), int(plan.resolved["served_max_seq_len"])
    exact = [served] if 0 < served < length else []
    lengths = sorted({*(n for n in _LENGTHS if n < length), *exact}, reverse=True)
    settings = [(n, f"requests of at most {n:,} tokens") for n in lengths]
    not_read: NotRead = {"weights_load": _AFTER_LOAD, "kv_alloc": _POOL_FOLLOWS, "cudagraph_capture": _POOL_FOLLOWS}
    yield from _lever(plan, "max_seq_len", settings, 4, ("peak", "temporary_kv"), not_read, popular=True)


def _graphs(plan: Plan) -> Iterator[Lever]:
    if not plan.resolved["graph_batch_sizes"]:
        return
    settings = [(OFF, "no CUDA graphs: slower decoding")]
    not_read: NotRead = {"weights_load": "graphs are captured after the model is created"}
    yield from _lever(plan, GRAPHS, settings, 6, ("peak", "temporary_kv", "non_torch"), not_read)


def _cache(plan: Plan, model: Model) -> Iterator[Lever]:
    resolved = plan.resolved
    not_read: NotRead = {"weights_load": _NO_POOL_YET, "cudagraph_capture": _POOL_FOLLOWS}
    if resolved["kv_dtype"] in ("BF16", "F16"):
        settings = [("fp8", "KV values in 8 bits")]
        moves = ("peak", "temporary_kv")
        yield from _lever(
            plan, "kv_cache_config.dtype", settings, 3, moves, not_read, name="kv_cache_dtype", popular=True
        )
    windows = _model_windows(model, int(resolved["max_seq_len"]))
    if windows and not resolved["max_attention_window"]:
        settings_windows = [(windows, "prompts that share a beginning are reused less")]
        yield from _lever(
            plan, "kv_cache_config.max_attention_window", settings_windows, 3, ("temporary_kv",), not_read
        )


def _model_windows(model: Model, length: int) -> list[int]:
    """The model's own windows, layer by layer, as short a list as repeats them; [] where there are none."""
    layers = [
        mixer.window if mixer.kind == "sliding_window" else length
        for layer in model.layers
        for mixer in layer.mixers
        if isinstance(mixer, Attention)
    ]
    if len(layers) != len(model.layers) or len(set(layers)) < 2:
        return []
    period = next(n for n in range(1, len(layers) + 1) if all(layers[i] == layers[i % n] for i in range(len(layers))))
    return layers[:period]


def _layout(plan: Plan) -> Iterator[Lever]:
    resolved, tp = plan.resolved, int(plan.resolved["tp_size"])
    latent = plan.kv is not None and any(group.kind == "mla" for group in plan.kv.groups)
    if tp > 1 and latent and not resolved["enable_attention_dp"]:
        cost = "every GPU has all of the attention's weights; each keeps the cache of its own requests"
        yield from _lever(plan, "enable_attention_dp", [(True, cost)], 3, _WHOLE, {}, kind="layout")


# Why a plan dies or is close, in a sentence or two with its figures.


def reasons(plan: Plan, model: Model | None = None) -> tuple[str, ...]:
    if plan.verdict.outcome == "fits" or not plan.ranks:
        return ()
    rank = plan.ranks[min(plan.verdict.rank, len(plan.ranks) - 1)]
    terms, resolved = rank.terms, plan.resolved
    weights, total = terms["weights"].bytes, rank.total_bytes
    stage = plan.verdict.stage or plan.verdict.first_to_break
    if stage == "weights_load":
        return (f"The weights take {gib(weights)} of the {gib(total)} of this GPU.",)
    if stage == "profile_run":
        temporary, blocks = terms["temporary_kv"].bytes, int(resolved["temporary_blocks"])
        if "state" in terms and terms["state"].bytes > temporary:
            slots = int(resolved["max_batch_size"])
            return (
                f"Beside {gib(weights)} of weights the recurrent states of {slots:,} slots (max_batch_size) take "
                f"{gib(terms['state'].bytes)}.",
            )
        field = resolved["temporary_pool_follows"]
        text = f"Beside {gib(weights)} of weights the temporary KV pool takes {gib(temporary)} ({blocks:,} blocks)"
        if temporary > total // 20 and field:
            each = "a block per request" if field == "max_batch_size" else "the blocks of a whole request"
            text += f": {field} {resolved[field]:,} asks for {each}"
        return (f"{text}; the first warm-up and a prefill of {resolved['max_num_tokens']:,} tokens must fit as well.",)
    if stage == "kv_check":
        peak = terms["peak"].bytes
        return (f"The dummy run's peak is {gib(peak)} of {gib(total)}: its share of the rest holds no KV cache.",)
    served, wanted = int(resolved["served_max_seq_len"]), int(resolved["max_seq_len"])
    reserve, logits = int(resolved["reserve_bytes"]), terms["decode_logits"].bytes
    lines = all_that_hold(
        (served < wanted, f"The KV cache holds {served:,} of the {wanted:,} tokens of a full request."),
        (
            logits > reserve > 0,
            f"The KV cache leaves {gib(reserve)} for run time; the dummy prefill has not seen the logits of a full "
            f"batch, {gib(logits)} for {resolved['max_batch_size']:,} requests.",
        ),
    )
    return tuple(lines)
