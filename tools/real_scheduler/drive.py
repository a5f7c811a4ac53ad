"""Steps vLLM's own scheduler: PYTHON tools/real_scheduler/drive.py CASES.jsonl > STEPS.jsonl

PYTHON is one that can import vLLM (README.md); oomph is not needed there. A case (cases.py writes them) has the
settings of a scheduler, as oomph.simulate.config.Config has them, and a list of requests. For each case the real
Scheduler or AsyncScheduler, its KVCacheManager and EngineCore's own step function are built and stepped; the model is a
stand-in that takes one tick for each step and accepts drafts evenly. An answer has, for every step that schedules
something, the requests with their tokens and the blocks that are free afterwards.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import queue
import sys
from collections import deque
from contextlib import nullcontext
from typing import Any

TICK = 10**12  # one step, as oomph.simulate.timing.unit has it
PATIENCE = 60  # calls without a token after which nothing will ever be scheduled
MOST_STEPS = 60_000
sys.modules["torchvision"] = None  # type: ignore[assignment]  # not needed here, and often built for another torch


class Lenient:
    """A configuration with some of its fields; the others are None, and its questions are answered with no."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return (lambda: False) if name.startswith("use_") else None  # methods of a speculative configuration


def load(module: str) -> Any:
    return importlib.import_module(f"vllm.{module}")


def token(job: dict[str, Any], position: int) -> int:
    """The token at a position: the same for requests whose chains share it, else the request's own."""
    start = 0
    for segment, length in job["chain"]:
        if position < start + length:
            return int(segment) * 1_000_000 + position - start
        start += length
    return -(int(job["id"]) + 1) * 1_000_000 - position + start


def name(job: dict[str, Any]) -> str:
    """Ids break ties between requests of one priority and instant; as text they are in the order of the numbers."""
    return f"{job['id']:06d}"


class Model:
    """The executor that EngineCore talks to. A batch is known when its last pipeline stage is done with it."""

    def __init__(self, config: dict[str, Any], jobs: dict[str, dict[str, Any]]) -> None:
        self.config, self.jobs = config, jobs
        self.scheduler: Any = None
        self.clock = 0
        self.stage_ends = [0] * config["stages"]
        self.decodes: dict[str, int] = {}
        self.sampled: list[str] = []
        self.last: Any = None

    def execute_model(self, output: Any, non_block: bool = False) -> Any:
        self.last = output
        end = self.clock
        if output.total_num_scheduled_tokens:
            for stage in range(len(self.stage_ends)):
                end = max(end, self.stage_ends[stage]) + TICK // len(self.stage_ends)
                self.stage_ends[stage] = end
        requests = self.scheduler.requests
        samples = [i for i in output.num_scheduled_tokens if not requests[i].is_prefill_chunk]
        drafts = {i: len(output.scheduled_spec_decode_tokens.get(i, ())) for i in samples}
        self.batch = Batch(self, list(output.num_scheduled_tokens), samples, drafts, end)
        return self.batch.executed() if output.total_num_scheduled_tokens else self.batch

    def sample_tokens(self, grammar: Any, non_block: bool = False) -> Any:
        return self.batch if non_block else self.batch.result()

    def take_draft_token_ids(self) -> Any:
        drafts = [[0] * self.config["spec_tokens"] for _ in self.sampled]
        return load("v1.outputs").DraftTokenIds(list(self.sampled), drafts)

    def accept(self, request: str, drafts: int) -> int:
        """Evenly, as engines/vllm/scheduler/scheduler.py does."""
        if not drafts:
            return 0
        rate, before = self.config["accepted"], self.decodes.get(request, 0)
        self.decodes[request] = before + 1
        return int(min(drafts, (before + 1) * rate // 1000 - before * rate // 1000))


class Batch:
    """A batch in flight: the future that EngineCore waits for."""

    def __init__(self, model: Model, ids: list[str], samples: list[str], drafts: dict[str, int], end: int) -> None:
        self.model, self.ids, self.samples, self.drafts, self.end = model, ids, samples, drafts, end

    def executed(self) -> Any:
        return Lenient(result=self.wait, done=self.done)

    def wait(self) -> None:
        self.model.clock = max(self.model.clock, self.end)

    def done(self) -> bool:
        return self.end <= self.model.clock

    def result(self) -> Any:
        self.wait()
        model = self.model
        tokens: list[list[int]] = []
        for request_id in self.ids:
            request = model.scheduler.requests.get(request_id)
            if request is None or request_id not in self.samples:
                tokens.append([])
                continue
            count = 1 + model.accept(request_id, self.drafts[request_id])
            tokens.append([token(model.jobs[request_id], request.num_tokens + i) for i in range(count)])
        model.sampled = [i for i in self.samples if i in model.scheduler.requests]
        return filled(
            load("v1.outputs").ModelRunnerOutput,
            req_ids=self.ids,
            req_id_to_index={request_id: i for i, request_id in enumerate(self.ids)},
            sampled_token_ids=tokens,
            prompt_logprobs_dict={},
            pooler_output=[],
        )


def filled(kind: Any, **fields: Any) -> Any:
    """A dataclass of this release with those of the fields that it has; what it needs besides is None."""
    known = {f.name: f for f in dataclasses.fields(kind)}
    values = {name: value for name, value in fields.items() if name in known}
    for name, f in known.items():
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            values.setdefault(name, None)
    return kind(**values)


def specs(config: dict[str, Any]) -> list[Any]:
    """One KV cache spec for each group of the block pool."""
    torch = importlib.import_module("torch")
    kinds = load("v1.kv_cache_interface")
    attention = {"num_kv_heads": 1, "head_size": 8, "dtype": torch.float16}
    out: list[Any] = []
    for group in config["groups"]:
        size, kind = group["block_size"], group["kind"]
        if kind == "full":
            spec = kinds.FullAttentionSpec(block_size=size, **attention)
        elif kind == "window":
            spec = kinds.SlidingWindowSpec(block_size=size, sliding_window=group["span"], **attention)
        elif kind == "chunk":
            spec = kinds.ChunkedLocalAttentionSpec(block_size=size, attention_chunk_size=group["span"], **attention)
        else:
            state: dict[str, Any] = {"mamba_cache_mode": "none" if kind == "state" else kind}
            state["num_speculative_blocks"] = group["first"] - 1 if kind == "state" else group["drafts"]
            if group["checkpoint"]:
                state.update(num_prefill_checkpoint_blocks=1, prefill_checkpoint_alignment=group["checkpoint"])
            spec = kinds.MambaSpec(block_size=size, shapes=((8,),), dtypes=(torch.float16,), **state)
        out += [spec] * group["count"]
    return out


def cache_config(config: dict[str, Any]) -> Any:
    kinds = load("v1.kv_cache_interface")
    groups = [filled(kinds.KVCacheGroupSpec, layer_names=[f"layer.{i}"], kv_cache_spec=s) for i, s in
              enumerate(specs(config))]  # fmt: skip
    for group in groups:  # what filled() set to None has defaults in some releases
        for f in dataclasses.fields(group):
            if getattr(group, f.name) is None and f.default is not dataclasses.MISSING:
                object.__setattr__(group, f.name, f.default)
    fields: dict[str, Any] = {"num_blocks": config["num_blocks"], "kv_cache_tensors": [], "kv_cache_groups": groups}
    if config["kept"] == "replay":
        fields["prefix_cache_retention_interval"] = 0
    known = {f.name for f in dataclasses.fields(kinds.KVCacheConfig)}
    return kinds.KVCacheConfig(**{name: value for name, value in fields.items() if name in known})


def engine_config(config: dict[str, Any]) -> Any:
    drafts, eagle = config["spec_tokens"], config["drop_last_hit"]
    spec = None
    if drafts:
        draft_model = config["method"] == "draft_model"
        spec = Lenient(
            num_speculative_tokens=drafts,
            use_eagle=lambda: eagle,
            use_eagle_block_drop=lambda: eagle,
            uses_draft_model=lambda: draft_model,
            max_num_new_slots_for_drafting=config["draft_slots"],
            method=config["method"],
        )
    state = next((g["kind"] for g in config["groups"] if g["kind"] in ("state", "align", "all")), "none")
    batches = config["batches_in_flight"] or 1 + config["lag"]
    return Lenient(
        model_config=Lenient(
            max_model_len=config["max_model_len"], is_encoder_decoder=False, uses_mrope=False, runner_type="generate",
            is_diffusion=False, supports_multimodal_inputs=False,
        ),
        scheduler_config=Lenient(
            max_num_seqs=config["max_num_seqs"], max_num_batched_tokens=config["max_num_batched_tokens"],
            max_num_scheduled_tokens=config["max_scheduled"] or None, policy=config["policy"],
            long_prefill_token_threshold=config["long_prefill_threshold"], enable_chunked_prefill=True,
            scheduler_reserve_full_isl=config["gate"] != "chunk", async_scheduling=bool(config["lag"]),
            watermark=(config["watermark_blocks"] + 0.5) / config["num_blocks"] if config["watermark_blocks"] else 0.0,
        ),
        cache_config=Lenient(
            num_gpu_blocks=config["num_blocks"], enable_prefix_caching=config["prefix_caching"],
            block_size=next((g["block_size"] for g in config["groups"] if g["kind"] != "state"), 16),
            mamba_cache_mode="none" if state == "state" else state,
        ),
        parallel_config=Lenient(
            pipeline_parallel_size=config["stages"], data_parallel_size=1, data_parallel_index=0,
            decode_context_parallel_size=1, prefill_context_parallel_size=1,
        ),
        observability_config=Lenient(), aux_output_config=Lenient(enabled=False),
        ec_manager_config=Lenient(get_encoder_cache_manager_obj=lambda: None),
        speculative_config=spec, num_speculative_tokens=drafts, num_lookahead_tokens=config["lookahead"],
        num_prefill_lookahead_tokens=1 if eagle else 0, max_concurrent_batches=batches,
        max_in_flight_tokens=batches * config["max_num_batched_tokens"], is_mm_encoder_only=False,
        use_v2_model_runner=config["decode_stagger"] > 1,
    )  # fmt: skip


def build(config: dict[str, Any], model: Model) -> tuple[Any, Any, int]:
    """(EngineCore, Scheduler, tokens for which a hash is computed)."""
    settings, caches = engine_config(config), cache_config(config)
    block, hashed = load("v1.core.kv_cache_utils").resolve_kv_cache_block_sizes(caches, settings)
    kind = load("v1.core.sched.async_scheduler").AsyncScheduler if config["lag"] else None
    scheduler = (kind or load("v1.core.sched.scheduler").Scheduler)(
        vllm_config=settings,
        kv_cache_config=caches,
        structured_output_manager=Lenient(
            should_advance=lambda *arguments, **options: False,
            accept_tokens=lambda *arguments, **options: True,
            validate_tokens=lambda request, tokens: tokens,
        ),
        block_size=block,
        hash_block_size=hashed,
        mm_registry=Lenient(supports_multimodal_inputs=lambda model_config: False),
    )
    real = load("v1.engine.core").EngineCore

    class Core(real):  # type: ignore[misc, valid-type]
        """EngineCore with its own step(), step_with_batch_queue() and post_step(), and no processes around it."""

        def __init__(self) -> None:
            self.vllm_config, self.scheduler, self.model_executor = settings, scheduler, model
            self.batch_queue_size = settings.max_concurrent_batches
            places: deque[Any] = deque(maxlen=self.batch_queue_size)
            self.batch_queue = places if self.batch_queue_size > 1 else None
            self.is_ec_consumer = True
            self.is_ec_producer = self.is_pooling_model = self.is_mm_encoder_only = False
            self.use_spec_decode = self.check_for_draft_tokens = bool(config["spec_tokens"])
            self.async_scheduling = bool(config["lag"])
            self.aborts_queue: queue.Queue[Any] = queue.Queue()
            self.log_stats = False

        def log_error_detail(self, output: Any) -> Any:
            return nullcontext()

        log_iteration_details = capture_iteration_details = log_error_detail

        def _attach_iteration_details(self, *details: Any) -> None:
            pass

        _attach_weight_version = _attach_iteration_details

        def _should_throttle_prefills(self) -> bool:
            return False

    return Core(), scheduler, hashed


def drive(case: dict[str, Any]) -> dict[str, Any]:
    config = case["config"]
    jobs = {name(job): job for job in case["jobs"]}
    model = Model(config, jobs)
    core, scheduler, hashed = build(config, model)
    model.scheduler = scheduler
    steps: list[Any] = []
    idle = 0
    schedule = scheduler.schedule

    def recorded(*arguments: Any, **options: Any) -> Any:
        nonlocal idle
        output = schedule(*arguments, **options)
        idle = 0 if output.total_num_scheduled_tokens else idle + 1
        if output.total_num_scheduled_tokens:
            scheduled = [[int(i), n] for i, n in output.num_scheduled_tokens.items()]
            steps.append([scheduled, scheduler.kv_cache_manager.block_pool.get_num_free_blocks()])
        return output

    scheduler.schedule = recorded
    hasher = load("v1.core.kv_cache_utils").get_request_block_hasher(hashed, load("utils.hashing").sha256)
    load("v1.core.kv_cache_utils").init_none_hash(load("utils.hashing").sha256)
    waiting = deque(sorted(case["jobs"], key=lambda job: (job["at"], job["id"])))
    step = core.step if core.batch_queue is None else core.step_with_batch_queue
    while len(steps) < MOST_STEPS:
        while waiting and waiting[0]["at"] <= model.clock:
            scheduler.add_request(request(waiting.popleft(), config, hasher if config["prefix_caching"] else None))
        if not scheduler.has_requests() and not core.batch_queue:
            if not waiting:
                return {"id": case["id"], "steps": steps, "end": "done"}
            model.clock = max(model.clock, waiting[0]["at"])
            continue
        if idle > PATIENCE:
            return {"id": case["id"], "steps": steps, "end": "stuck"}
        _, executed = step()
        core.post_step(executed)
    return {"id": case["id"], "steps": steps, "end": "cut"}


def request(job: dict[str, Any], config: dict[str, Any], hasher: Any) -> Any:
    output = max(1, min(job["output"], config["max_model_len"] - job["prompt"]))
    sampling = load("sampling_params").SamplingParams(max_tokens=output, ignore_eos=True, temperature=0.0)
    fields = {
        "request_id": name(job), "prompt_token_ids": [token(job, i) for i in range(job["prompt"])],
        "sampling_params": sampling, "pooling_params": None, "priority": job["priority"], "block_hasher": hasher,
        "arrival_time": float(job["at"] + job["id"]),  # no two at the same instant
    }  # fmt: skip
    kind = load("v1.request").Request
    if "eos_token_id" in kind.__init__.__code__.co_varnames:  # until 0.15
        fields["eos_token_id"] = None
    made = kind(**fields)
    assert math.isclose(made.num_prompt_tokens, job["prompt"])
    return made


def main() -> int:
    import os

    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    import traceback

    with open(sys.argv[1], encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            try:
                answer = drive(case)
            except Exception:
                answer = {"id": case["id"], "steps": [], "end": "error", "error": traceback.format_exc()[-1500:]}
            print(json.dumps(answer, separators=(",", ":")), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
