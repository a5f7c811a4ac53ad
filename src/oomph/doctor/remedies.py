"""A rule's remedies and the planner's, judged by the one judge: the failed run with one change, its figures pinned.

A rule says which levers speak to its cause and what cannot be planned (end the process that holds the card). Whether a
change is enough, helps or does nothing is planned: the same objects as in `Plan.advice`.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from oomph.advice.advise import advise
from oomph.advice.judge import Judge, is_earlier, price
from oomph.commands import to_shell
from oomph.doctor.case import Case
from oomph.doctor.explanation import Explanation, noted
from oomph.doctor.rule import Kind, Rejected, Remedy
from oomph.doctor.words import table
from oomph.engines.protocol import fills
from oomph.engines.registry import engine_of
from oomph.errors import OomphError
from oomph.ir import Advice, Change, Deployment, Judged, Model, Plan, advice as ir
from oomph.logs.deployment import render

Planner = Callable[[Deployment], Plan]

# A rule's word for a lever -> the rows of the engines' tables that it stands for.
TABLE_ROWS: dict[str, tuple[str, ...]] = {
    "util_up": ("gpu_memory_utilization_up",),
    "util_down": ("gpu_memory_utilization_down",),
    "fraction_up": ("mem_fraction_static_up", "free_gpu_memory_fraction_up"),
    "fraction_down": ("mem_fraction_static_down", "free_gpu_memory_fraction_down"),
    "max_model_len": ("max_model_len",),
    "context": ("context_length", "max_seq_len", "ctx_size", "num_ctx"),
    "max_num_seqs": ("max_num_seqs", "max_batch_size"),
    "requests": ("max_running_requests",),
    "batched_tokens": ("max_num_batched_tokens", "max_num_tokens"),
    "chunk": ("chunked_prefill_size",),
    "ubatch": ("ubatch_size",),
    "kv_dtype": ("kv_cache_dtype", "cache_type", "kv_cache_type"),
    "flash": ("flash_attn",),
    "layers": ("n_gpu_layers", "fit"),
    "experts": ("n_cpu_moe",),
    "split": ("tensor_split",),
    "eager": ("enforce_eager", "disable_cuda_graph"),
    "capture": ("max_cudagraph_capture_size", "cuda_graph_max_bs"),
    "expandable": ("expandable_segments",),
    "swap": ("swap_space",),
    "prefix_caching": ("enable_prefix_caching",),
    "no_spec": ("speculative_config",),
    "offload": ("cpu_offload_gb",),
    "tp_up": ("tensor_parallel_size", "more_gpus", "tp_size"),
    "multimodal": ("language_model_only",),
    "checkpoint": ("checkpoint",),
    "lora": ("enable_lora",),
}
RULE_WORDS = {row: word for word, rows in TABLE_ROWS.items() for row in rows}
# A remedy that pulls this lever moves these terms: they are not pinned for it.
MOVES: dict[str, tuple[str, ...]] = {
    "offload": ("weights", "load_peak"), "dtype": ("weights", "load_peak", "activation_peak"), "no_spec": ("weights",),
    "checkpoint": ("weights", "load_peak", "activation_peak", "non_torch"), "tp_up": ("weights", "activation_peak"),
    "tp": ("weights", "activation_peak"), "pp": ("weights", "activation_peak"), "lora": ("weights",),
    "lora_rank": ("weights",), "lora_sharded": ("weights",), "context": ("peak", "temporary_kv"),
    "max_num_seqs": ("activation_peak", "cudagraph", "peak", "temporary_kv"),
    "batched_tokens": ("activation_peak", "peak", "temporary_kv"), "chunked": ("activation_peak",),
    "multimodal": ("weights", "activation_peak"), "pixels": ("activation_peak",), "capture": ("cudagraph",),
    "graph_mode": ("cudagraph",), "eager": ("cudagraph",),
    "upgrade": ("activation_peak", "cudagraph", "non_torch"),
}  # fmt: skip
_KINDS: dict[Kind, ir.Kind] = {
    "flag": "flag", "env": "environment", "model": "checkpoint", "hardware": "hardware", "host": "host",
    "version": "release", "none": "host",
}  # fmt: skip
_BACK: dict[ir.Kind, Kind] = {
    "flag": "flag", "environment": "env", "checkpoint": "model", "hardware": "hardware", "host": "host",
    "release": "version", "layout": "flag", "offload": "flag",
}  # fmt: skip
MOST = 8


class Run(Struct, frozen=True):
    """The failed run as a plan has it, and what its log shows of it."""

    case: Case
    plan: Plan  # with the observed figures pinned
    unpinned: Plan  # without the observed KV memory
    model: Model | None  # None: the planner finds it by its name
    planner: Planner
    pool: int | None = None  # observed KV memory: a change moves it by as much as it moves the planned one

    def plan_changed(self, deployment: Deployment) -> Plan:
        pinned = {term: size for term, size in deployment.given.items() if term != "available_kv"}
        deployment = replace(deployment, given=pinned)
        after = self.planner(deployment)
        if self.pool is None or self.case.stage != "kv_check" or after.kv is None or self.unpinned.kv is None:
            return after
        if not after.fits and is_earlier(after.verdict.stage, "kv_check"):
            return after  # the changed start does not get as far as the memory that was observed
        left = self.pool + after.kv.available_bytes - self.unpinned.kv.available_bytes
        return self.planner(replace(deployment, given={**pinned, "available_kv": left}))

    def write(self, deployment: Deployment) -> str:
        """With every flag of the command, also those that no plan reads."""
        if not fills(engine_of(deployment), "log_command"):
            return to_shell(deployment)
        read = self.plan.deployment.flags
        unread = {name: value for name, value in self.case.rebuilt.flags.items() if name not in read}
        return render(deployment.model, {**unread, **deployment.flags}, deployment.environment)


def judge_remedies(run: Run, explanation: Explanation) -> Explanation:
    """The explanation with the plan's advice, and the rule's remedies and rejections as views of it."""
    engine = engine_of(run.plan.deployment)
    judge = Judge(run.plan, run.plan_changed, run.write)
    try:
        levers = tuple(engine.levers(run.plan, run.model))
        advice = advise(judge, levers, engine.reasons(run.plan, run.model))
    except OomphError as error:
        return noted(explanation, f"not planned: {error.message}")
    rows = {lever.name for lever in levers}
    own = [_own(judge, remedy, rows) for remedy in explanation.remedies]
    advice = _with_own(advice, own)
    remedies = _ordered(explanation.remedies, advice, rows, bool(table(run.case)))
    rejected = _rejected(explanation.rejected, advice)
    return replace(explanation, advice=advice, remedies=remedies, rejected=rejected)


def _own(judge: Judge, remedy: Remedy, rows: set[str]) -> Judged | None:
    """A rule's own change, judged; None where no plan can judge it. `rows`: of the engine's table of levers."""
    if not can_be_planned(remedy):
        return None
    base = judge.before.deployment
    gpus = base.gpus[:1] * remedy.gpus if remedy.gpus else ()
    names = TABLE_ROWS.get(remedy.lever, (remedy.lever,))
    lever = next((name for name in names if name in rows), names[0])
    change = Change(
        lever,
        label=remedy.change,
        kind=_KINDS[remedy.kind],
        flags=remedy.flags,
        environment=remedy.environment,
        model=remedy.model,
        version=remedy.version,
        gpus=gpus,
        cost=remedy.costs,
        rank=remedy.rank,
        moves=MOVES.get(remedy.lever, ()),
    )
    if change.kind == "flag" and "cpu_offload_gb" in change.flags:
        change = replace(change, kind="offload")
    return judge.judge(change)


def can_be_planned(remedy: Remedy) -> bool:
    changes = bool(remedy.flags or remedy.environment or remedy.model or remedy.version)
    return changes and remedy.kind not in ("host", "none")


def _with_own(advice: Advice, own: Iterable[Judged | None]) -> Advice:
    """The rule's changes stand for their levers: their figures are the log's."""
    fixes = [judged for judged in own if judged is not None and judged.effect == "fixes"]
    levers = {judged.change.lever for judged in fixes}
    merged = sorted([*fixes, *(j for j in advice.fixes if j.change.lever not in levers)], key=price)
    labels = {judged.change.lever for judged in merged}
    return replace(
        advice,
        fixes=tuple(merged),
        helps=tuple(j for j in advice.helps if j.change.lever not in labels),
        useless=tuple(j for j in advice.useless if j.change.lever not in labels),
    )


def _ordered(remedies: tuple[Remedy, ...], advice: Advice, rows: set[str], own_words: bool) -> tuple[Remedy, ...]:
    """What was planned and fits, the cheapest first; then what no plan can judge: no lever of the engine's table, which
    have been judged, whatever a rule says of them."""
    planned = [_remedy(judged) for judged in advice.fixes]
    unplanned = [
        remedy
        for remedy in remedies
        if not can_be_planned(remedy)
        and (remedy.lever != "checkpoint" or own_words)
        and rows.isdisjoint(TABLE_ROWS.get(remedy.lever, (remedy.lever,)))
    ]
    if not planned:
        planned = [replace(_remedy(judged), verified=False) for judged in advice.helps[:3]]
    free = [r for r in unplanned if r.rank == 0]
    return (*free, *planned[:MOST], *(r for r in unplanned if r.rank))


def _remedy(judged: Judged) -> Remedy:
    change = judged.change
    costs = "; ".join(words for words in (change.cost, judged.why) if words)
    return Remedy(
        RULE_WORDS.get(change.lever.split(" + ")[0], change.lever),
        change=change.label,
        kind=_BACK[change.kind],
        flags=change.flags,
        model=change.model,
        version=change.version,
        gpus=len(change.gpus),
        environment=change.environment,
        costs=costs,
        rank=change.rank,
        gains_bytes=max(0, judged.gain_bytes),
        verified=judged.effect == "fixes",
        command=judged.command,
    )


def _rejected(rejected: tuple[Rejected, ...], advice: Advice) -> tuple[Rejected, ...]:
    """A rule's rejection stands only where the plan says so too: no lever is useful and useless at once."""
    useful = {row for j in (*advice.fixes, *advice.helps) for row in j.change.lever.split(" + ")}
    return tuple(r for r in rejected if not useful.intersection(TABLE_ROWS.get(r.lever, (r.lever,))))
