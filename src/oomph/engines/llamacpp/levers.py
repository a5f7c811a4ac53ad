"""What a person can change about a llama.cpp deployment: one row per lever, the mildest setting first."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from oomph.engines.llamacpp.command import model_of
from oomph.facts.llamacpp.builds import LARGE_ALLOCATIONS
from oomph.facts.llamacpp.flags import EXPERTS
from oomph.ir import Change, Lever, Model, Plan, RankPlan
from oomph.ir.advice import Kind
from oomph.units import MIB, gib

_SHARES = ((3.0, 2.0), (2.0, 1.0), (3.0, 1.0))
_SMALLER = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M", "IQ3_XS")
EIGHT_BITS = "keys and values take 8.5 bits instead of 16"
SHORTER = "a shorter context"


def levers(plan: Plan, model: Model | None = None) -> Iterator[Lever]:
    if not plan.ranks or "n_ctx_seq" not in plan.resolved:
        return iter(())
    return chain(
        host_levers(plan),
        large_allocations(plan),
        _experts_back(plan),
        _cache(plan),
        _layers(plan),
        _experts(plan),
        context(plan, "ctx_size", "-c", slots=_slots(plan)),
        _quantisation(plan),
    )


def row(lever: str, label: str, flags: dict[str, Any], cost: str, rank: int, kind: Kind = "flag") -> Lever:
    return Lever(lever, (Change(lever, label, kind, flags, cost=cost, rank=rank),))


def large_allocations(plan: Plan) -> Iterator[Lever]:
    """An Arc A gives no allocation above 4 GiB unless its runtime is told to (facts/cards.py `largest`)."""
    limits = [gpu.largest_allocation for gpu in plan.deployment.gpus if gpu.largest_allocation]
    weights = max((rank.terms["weights"].bytes for rank in plan.ranks if "weights" in rank.terms), default=0)
    if limits and weights > min(limits) and plan.deployment.environment.get(LARGE_ALLOCATIONS) != "1":
        change = Change(
            "large_allocations", f"{LARGE_ALLOCATIONS}=1", "environment", environment={LARGE_ALLOCATIONS: "1"},
            cost="no cost", rank=0,
        )  # fmt: skip
        yield Lever("large_allocations", (change,))


def _cache(plan: Plan) -> Iterator[Lever]:
    flags, resolved = plan.deployment.flags, plan.resolved
    if flags.get("flash_attn") == "off":
        yield row("flash_attn", "-fa on", {"flash_attn": "on"}, "no cost", 0)
    if flags.get("swa_full"):
        yield row("swa_full", "without --swa-full", {"swa_full": None}, "a prompt's old part cannot be reused", 1)
    on_host = {role for role, size in (resolved.get("host") or {}).get("parts", {}).items() if size > MIB}
    if on_host - {"embed", "norm"} and flags.get("op_offload", True):
        yield row(
            "op_offload",
            "--no-op-offload",
            {"op_offload": False},
            "what is on the CPU is multiplied there: slower prompts",
            2,
        )
    if resolved.get("n_ubatch", 0) > 256:
        yield row("ubatch_size", "-ub 256", {"ubatch_size": 256}, "prompts are read more slowly", 2)
    if resolved.get("type_k") == "f16" and resolved.get("flash_attn"):
        eight = {"cache_type_k": "q8_0", "cache_type_v": "q8_0"}
        yield row("cache_type", "-ctk q8_0 -ctv q8_0", eight, EIGHT_BITS, 3)


def _slots(plan: Plan) -> int:
    return 1 if plan.resolved.get("kv_unified") else int(plan.resolved.get("n_seq_max", 1))


def context(plan: Plan, field: str, flag: str, slots: int = 1) -> Iterator[Lever]:
    now = int(plan.resolved.get("n_ctx_seq", 0))
    lengths = dict.fromkeys(n // 256 * 256 for n in (now // 2, now // 4, now // 8, 8192, 4096) if 4096 <= n < now)
    changes = tuple(
        Change(field, f"{flag} {n * slots}", flags={field: n * slots}, cost=SHORTER, rank=4)
        for n in sorted(lengths, reverse=True)
    )
    if changes:
        yield Lever(field, changes)


def _layers(plan: Plan) -> Iterator[Lever]:
    """Which layers are on which GPU, and how many at all."""
    flags, resolved = plan.deployment.flags, plan.resolved
    units = int(resolved.get("layers", 0))
    if "n_gpu_layers" in flags:
        free = {"n_gpu_layers": None, "tensor_split": None}
        yield row("fit", "without -ngl", free, "--fit then moves layers to the CPU", 5)
    elif "tensor_split" in flags:
        free = {"tensor_split": None}
        yield row("fit", "without -ts", free, "layers by free memory, and --fit where that is too much", 1)
    fewer = sorted({units * share // 8 for share in range(1, 8)} - {0}, reverse=True)
    present = flags.get("n_gpu_layers")
    most = present if isinstance(present, int) and 0 <= present < units else units
    changes = tuple(
        Change(
            "n_gpu_layers", f"-ngl {n}", flags={"n_gpu_layers": n}, cost=f"{units - n} layers run on the CPU", rank=6
        )
        for n in fewer
        if n < most
    )
    if changes and plan.verdict.outcome != "fits":
        yield Lever("n_gpu_layers", changes)
    if len(plan.ranks) == 2 and "tensor_split" not in flags and flags.get("override_tensor"):
        # Layers are dealt out by count: a GPU whose layers keep their experts gets more than its share.
        first_is_fuller = _own_bytes(plan.ranks[0]) > _own_bytes(plan.ranks[1])
        shares = [share[::-1] if first_is_fuller else share for share in _SHARES]
        cost = "layers dealt out otherwise"
        yield Lever("tensor_split", tuple(
            Change("tensor_split", f"-ts {more:g},{less:g}", flags={"tensor_split": [more, less]}, cost=cost, rank=1)
            for more, less in shares
        ))  # fmt: skip


def _own_bytes(rank: RankPlan) -> int:
    return sum(term.bytes for term in rank.terms.values())


def _experts(plan: Plan) -> Iterator[Lever]:
    flags, resolved = plan.deployment.flags, plan.resolved
    overrides = list(flags.get("override_tensor", ()))
    has_experts = any(rank.terms["weights"].parts.get("experts", 0) > MIB for rank in plan.ranks)
    if resolved.get("host") is None or not has_experts or overrides != experts_on_cpu(len(overrides)):
        return
    layers = resolved["layers"] - 1
    counts = [n for n in sorted({max(layers // 4, 1), layers // 2, 3 * layers // 4, layers}) if n > len(overrides)]
    changes = tuple(
        Change(
            "n_cpu_moe", f"--n-cpu-moe {n}", flags={"override_tensor": experts_on_cpu(n), "n_gpu_layers": 999},
            cost=f"the experts of {n} layers run on the CPU", rank=5,
        )
        for n in counts
    )  # fmt: skip
    if changes:
        yield Lever("n_cpu_moe", changes)


def _experts_back(plan: Plan) -> Iterator[Lever]:
    """Experts that --n-cpu-moe keeps in host memory, on the GPUs again."""
    if plan.verdict.first_to_break != "host_ram":
        return
    overrides = list(plan.deployment.flags.get("override_tensor", ()))
    count = len(overrides)
    if not count or overrides != experts_on_cpu(count):
        return
    fewer = [n for n in dict.fromkeys((3 * count // 4, count // 2, count // 4)) if n]
    yield Lever("n_cpu_moe", tuple(
        Change("n_cpu_moe", f"--n-cpu-moe {n}", flags={"override_tensor": experts_on_cpu(n)},
               cost="more experts are on the GPUs", rank=3)
        for n in fewer
    ))  # fmt: skip


def experts_on_cpu(count: int) -> list[tuple[str, str]]:
    """What --n-cpu-moe stands for."""
    return [(rf"blk\.{layer}{EXPERTS}", "CPU") for layer in range(count)]


def _quantisation(plan: Plan) -> Iterator[Lever]:
    _, _, quantisation = plan.model.rpartition(":")
    if quantisation not in _SMALLER:
        return
    changes = []
    for lower in _SMALLER[_SMALLER.index(quantisation) + 1 :]:
        names = _renamed(plan.deployment.flags, quantisation, lower)
        if names:
            changes.append(
                Change("checkpoint", f"{lower} instead of {quantisation}", "checkpoint", names,
                       model=model_of({**plan.deployment.flags, **names}), cost="a smaller file, less exact")
            )  # fmt: skip
    if changes:
        yield Lever("checkpoint", tuple(changes))


def _renamed(flags: dict[str, Any], quantisation: str, lower: str) -> dict[str, str]:
    """The flags that name the file, with the other quantisation in its name; {} where the name has none."""
    tag = re.compile(rf"(?<![A-Za-z0-9])(?:UD-)?{re.escape(quantisation)}(?![A-Za-z0-9])", re.IGNORECASE)
    named = next((field for field in ("model", "hf_file", "hf_repo", "model_url") if flags.get(field)), "")
    name = str(flags.get(named, ""))
    if named == "hf_repo" and ":" not in name:  # llama.cpp takes Q4_K_M where the repository's name says nothing
        return {named: f"{name}:{lower}"}
    if named in ("model", "hf_file", "model_url"):
        head, slash, last = name.rpartition("/")
        renamed = head + slash + tag.sub(lower, last)
    else:
        renamed = tag.sub(lower, name)
    return {named: renamed} if renamed != name else {}


def refusal_levers(plan: Plan) -> Iterator[Lever]:
    """-hf with a name that is no repository's, -m with a model's name: repositories with files of what may be meant."""
    from oomph.engines.llamacpp.source import repository_of_files
    from oomph.sources.place import repositories_like

    flags = plan.deployment.flags
    name, _, tag = str(flags.get("hf_repo") or flags.get("model") or "").partition(":")
    if plan.verdict.refusal != "model" or not name:
        return
    files = dict.fromkeys(filter(None, map(repository_of_files, (name, *repositories_like(name)))))
    changes = []
    for rank, repository in enumerate(files):
        named: dict[str, Any] = {"hf_repo": f"{repository}:{tag}" if tag else repository}
        if "model" in flags:
            named["model"] = None
        model = model_of({**plan.deployment.flags, **named})
        changes.append(
            Change("model", f"-hf {named['hf_repo']}", "checkpoint", named, model=model, rank=rank, cost="a repository")
        )
    yield Lever("model", tuple(changes))


# What a person can change about a llama.cpp command that its host has no memory for.


def host_levers(plan: Plan) -> Iterator[Lever]:
    host = plan.host
    if host is None or not host.ram_bytes or plan.verdict.first_to_break != "host_ram":
        return
    flags = plan.deployment.flags
    mapped = "weights that do not fit are read again from disk"
    for field, value, label in (
        ("mmap", False, "without --no-mmap"), ("mlock", True, "without --mlock"),
    ):  # fmt: skip
        if flags.get(field) is value:
            yield Lever(field, (Change(field, label, flags={field: None}, cost=mapped, rank=1),))
    if flags.get("load_mode") not in (None, "mmap"):
        change = Change("load_mode", "--load-mode mmap", flags={"load_mode": "mmap"}, cost=mapped, rank=1)
        yield Lever("load_mode", (change,))
    if host.later and flags.get("cache_ram") != 0:
        cost = "prompts of earlier requests are read again"
        yield Lever("cache_ram", (Change("cache_ram", "--cache-ram 0", flags={"cache_ram": 0}, cost=cost, rank=1),))


# Why a llama.cpp or Ollama plan dies: what of the GPU's memory is taken by what.


def reasons(plan: Plan, model: Model | None = None) -> tuple[str, ...]:
    if plan.verdict.outcome == "fits" or plan.verdict.first_to_break == "host_ram" or not plan.ranks:
        return ()
    rank = plan.ranks[min(plan.verdict.rank, len(plan.ranks) - 1)]
    terms = {name: term.bytes for name, term in rank.terms.items()}
    cache = terms["kv_cache"] + terms["state"]
    parts = f"weights {gib(terms['weights'])}, cache {gib(cache)}, compute {gib(terms['compute'])}"
    occupied = rank.used_by_others_bytes + sum(terms.values())
    return (f"{parts} and the driver's share need {gib(occupied)} of the GPU's {gib(rank.total_bytes)}.",)
