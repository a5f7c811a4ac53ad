"""Steps SGLang's own scheduler: PYTHON tools/real_sglang_scheduler/drive.py CASES.jsonl > STEPS.jsonl

PYTHON is one that can import SGLang on a CPU (README.md); oomph is not needed there. A case (cases.py draws them) has
the settings of a scheduler, as engines/sglang/scheduler/settings.py has them, and a list of requests. The Scheduler's
own methods, its policy, its tree cache and its allocator are stepped as its event loops do; the model is a stand-in
that takes one tick for each step. An answer has, for every step, the kind of batch, its requests with their tokens, and
the tokens that are free afterwards.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
import tempfile
import types
import warnings
from array import array
from collections import deque
from typing import Any

TICK = 10**12  # one step, as oomph.simulate.timing.unit has it
PATIENCE = 50  # rounds without a batch after which nothing will ever be scheduled
MOST_STEPS = 20_000
MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16, "vocab_size": 1 << 30,
    "max_position_embeddings": 1 << 20, "torch_dtype": "bfloat16", "rms_norm_eps": 1e-5, "hidden_act": "silu",
}  # fmt: skip


class Nothing:
    """Metrics, streams, grammars and what else this has no use for: every question is answered with no."""

    def __call__(self, *values: Any, **options: Any) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __bool__(self) -> bool:
        return False

    def __int__(self) -> int:
        return 0

    def __index__(self) -> int:
        return 0

    def __add__(self, other: Any) -> Any:
        return self

    __mod__ = __sub__ = __mul__ = __radd__ = __rsub__ = __add__

    def __lt__(self, other: Any) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __iter__(self) -> Any:
        return iter(())

    @staticmethod
    def first(batch: Any, *values: Any, **options: Any) -> Any:
        return batch

    maybe_prepare_mlp_sync_batch = maybe_convert_decode_to_extend = prepare_for_forward = first
    prepare_mlp_sync_batch = maybe_prepare_ngram_embedding = first


NOTHING = Nothing()


class Model:
    """A model's configuration with some of its fields; the others are None."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def load(module: str) -> Any:
    return importlib.import_module(f"sglang.srt.{module}")


def prepare_imports() -> None:
    torch = importlib.import_module("torch")

    warnings.simplefilter("ignore")
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):  # torchvision is often built for another torch
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    globals()["_library"] = library
    torch.set_num_threads(1)


def publish(config: dict[str, Any]) -> Any:
    """SGLang's settings, from its own ServerArgs."""
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(MODEL, file)
    wanted = {
        "model_path": folder, "load_format": "dummy", "skip_tokenizer_init": True, "device": "cpu",
        "page_size": config["page_size"], "schedule_policy": config["policy"],
        "schedule_conservativeness": config["conservativeness"], "chunked_prefill_size": config["chunk"] or -1,
        "enable_mixed_chunk": config["mixed"], "max_prefill_tokens": config["max_prefill_tokens"],
        "max_running_requests": config["max_running_requests"], "context_length": config["context_length"],
        "disable_radix_cache": not config["radix"], "radix_eviction_policy": config["eviction"],
        "enable_priority_scheduling": config["priority"], "max_total_tokens": config["tokens"],
        "schedule_low_priority_values_first": config["low_first"], "attention_backend": "torch_native",
        "priority_scheduling_preemption_threshold": config["preemption_threshold"],
        "disable_overlap_schedule": not config["overlap"],
    }  # fmt: skip
    kind = load("server_args").ServerArgs
    known = inspect.signature(kind).parameters
    arguments = kind(**{name: value for name, value in wanted.items() if name in known})
    context = load("runtime_context")
    if hasattr(context, "reset_context"):
        context.reset_context()
    if "ranks" in inspect.signature(context.publish).parameters:
        context.publish(arguments, role="scheduler", ranks=context.SpawnRanks(world_rank=0))
    else:
        context.publish(arguments, role="scheduler")
    overwrite(config)
    return arguments


def overwrite(config: dict[str, Any]) -> None:
    """A CPU's defaults are not a GPU's: what a hook changed is set back to what the case says."""
    context = load("runtime_context")
    values = {
        "page_size": config["page_size"], "chunked_prefill_size": config["chunk"] or -1,
        "disable_overlap_schedule": not config["overlap"], "disable_radix_cache": not config["radix"],
        "pp_max_micro_batch_size": config["max_running_requests"], "max_prefill_tokens": config["max_prefill_tokens"],
    }  # fmt: skip
    for name, value in values.items():
        context.get_context().override("drive", **{name: value})


class Kernel:
    """A Triton kernel of the paged allocator, computed one request after the other."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __getitem__(self, grid: Any) -> Any:
        return self.function


def extend_pages(prefixes: Any, lengths: Any, last: Any, free: Any, out: Any, _: int, page: int, *rest: Any) -> None:
    done = taken = 0
    for prefix, length, before in zip(prefixes.tolist(), lengths.tolist(), last.tolist()):
        for position in range(prefix, length):
            if position % page == 0:
                before = int(free[taken]) * page - 1
                taken += 1
            before += 1
            out[done] = before
            done += 1


def decode_pages(lengths: Any, last: Any, free: Any, out: Any, _: int, page: int, *rest: Any) -> None:
    taken = 0
    for row, (length, before) in enumerate(zip(lengths.tolist(), last.tolist())):
        if (length - 1) % page == 0:
            out[row] = int(free[taken]) * page
            taken += 1
        else:
            out[row] = before + 1


def pools(config: dict[str, Any]) -> tuple[Any, Any]:
    torch = importlib.import_module("torch")

    memory = load("mem_cache.memory_pool")
    rows = memory.ReqToTokenPool(config["max_running_requests"], config["context_length"] + 64, "cpu", False)
    if config["window_tokens"]:
        kind = load("mem_cache.allocator.swa").SWATokenToKVPoolAllocator
        base = load("mem_cache.base_swa_memory_pool").BaseSWAKVPool
        cache: Any = types.new_class("Cache", (base,))
        cache.__abstractmethods__ = frozenset()
        stand_in = cache.__new__(cache)
        stand_in.full_kv_pool = stand_in.swa_kv_pool = NOTHING
        stand_in.swa_req_ring_size = None
        stand_in.register_mapping = lambda *values: None
        stand_in.full_to_swa_index_mapping = None
        return rows, kind(config["tokens"], config["window_tokens"], config["page_size"], torch.bfloat16, "cpu",
                          stand_in, False)  # fmt: skip
    if config["page_size"] == 1:
        kind = load("mem_cache.allocator.token").TokenToKVPoolAllocator
        return rows, kind(config["tokens"], torch.bfloat16, "cpu", NOTHING, False)
    paged = load("mem_cache.allocator.paged")
    paged.alloc_extend_kernel, paged.alloc_decode_kernel = Kernel(extend_pages), Kernel(decode_pages)
    allocator = paged.PagedTokenToKVPoolAllocator(
        config["tokens"], config["page_size"], torch.bfloat16, "cpu", NOTHING, False
    )
    allocator.use_triton_kernels = False
    return rows, allocator


def tree(config: dict[str, Any], arguments: Any, rows: Any, allocator: Any) -> Any:
    registry = load("mem_cache.registry")
    params = load("mem_cache.cache_init_params").CacheInitParams(
        disable=not config["radix"], req_to_token_pool=rows, token_to_kv_pool_allocator=allocator,
        page_size=config["page_size"], eviction_policy=config["eviction"],
        chunked_prefill_size=config["chunk"] or None, sliding_window_size=config["window"] or None,
    )  # fmt: skip
    wanted = {
        "server_args": arguments, "params": params, "is_hybrid_swa": bool(config["window_tokens"]),
        "is_hybrid_ssm": False, "enable_hierarchical_cache": False, "disable_radix_cache": not config["radix"],
        "effective_chunked_prefill_size": config["chunk"] or None, "tp_worker": NOTHING, "model_config": NOTHING,
        "tp_size": 1, "tp_rank": 0, "tp_group": None, "full_tokens_per_layer": config["tokens"],
    }  # fmt: skip
    known = inspect.signature(registry.TreeCacheBuildContext).parameters
    context = registry.TreeCacheBuildContext(**{name: value for name, value in wanted.items() if name in known})
    return registry.create_tree_cache(context)


def build(config: dict[str, Any]) -> Any:
    arguments = publish(config)
    rows, allocator = pools(config)
    module = load("managers.scheduler")
    module.get_resolved_model_impl = lambda model_config: None  # it would import every model

    class Driven(module.Scheduler):  # type: ignore[misc, name-defined]
        """The Scheduler with its own scheduling methods; what nobody set answers with nothing."""

        def __init__(self) -> None:
            self.server_args = arguments
            self.forward_ct = self.processed_tokens_counter = 0
            self.page_size = config["page_size"]
            self.schedule_policy = config["policy"]
            self.enable_priority_scheduling = config["priority"]
            self.schedule_low_priority_values_first = config["low_first"]
            self.abort_on_priority_when_disabled = False
            self.priority_scheduling_preemption_threshold = config["preemption_threshold"]
            self.try_preemption = self.enable_priority_preemption = config["priority"]
            self.enable_overlap = config["overlap"]
            self.spec_algorithm = load("speculative.spec_info").SpeculativeAlgorithm.from_string(None)
            self.req_to_token_pool, self.token_to_kv_pool_allocator = rows, allocator
            self.tree_cache = tree(config, arguments, rows, allocator)
            self.is_hybrid_swa = bool(config["window_tokens"])
            self.sliding_window_size = config["window"] or None
            self.max_running_requests = config["max_running_requests"]
            self.max_prefill_tokens = config["max_prefill_tokens"]
            self.max_total_num_tokens = config["tokens"]
            self.max_req_len = min(config["context_length"] - 1, config["tokens"] - 1)
            self.max_queued_requests = None
            self.kv_shard_widening = 1
            self.truncation_align_size = None
            self.disaggregation_mode = load("disaggregation.utils").DisaggregationMode.NULL
            self.model_config = Model(
                is_encoder_decoder=False, vocab_size=1 << 30, is_multimodal=False, hf_config=NOTHING,
                context_len=1 << 20, is_hybrid_swa=self.is_hybrid_swa, hf_text_config=NOTHING, model_is_mrope=False,
                is_generation=True,
            )  # fmt: skip
            self.device = "cpu"
            self.is_generation = True
            self.tp_worker = types.SimpleNamespace(
                model_runner=types.SimpleNamespace(attn_backend=None, prefill_aware_swa=False)
            )
            self.beam_coordinator = types.SimpleNamespace(
                pending_member_rows=lambda batch: 0, retire_group=lambda req: None, is_enabled=False
            )
            self.init_running_status()
            self.init_chunked_prefill()
            self.metrics_reporter = NOTHING
            self.init_schedule_policy()
            self.init_batch_result_processor()

        def init_beam_coordinator(self) -> None:
            pass

        def _record_step_counters(self, *values: Any, **options: Any) -> None:
            pass

        publish_load_snapshot = _record_step_counters

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            if name in NONE:
                return None
            return NOTHING

    return Driven()


# Parts that a scheduler without them has as None, and asks `is not None`.
NONE = {
    "dllm_config", "decode_offload_manager", "min_free_slots_delayer", "dynamic_chunk_sizer", "hisparse_coordinator",
    "draft_worker", "scripted_scheduler_hook", "lora_drainer", "max_new_tokens_limit", "metrics_collector",
    "_pending_chunked_abort_req", "prefill_delayer",
}  # fmt: skip


def token(job: dict[str, Any], position: int) -> int:
    """The token at a position: the same for requests whose chains share it, else the request's own."""
    start = 0
    for segment, length in job["chain"]:
        if position < start + length:
            return int(segment) * 100_000 + position - start
        start += length
    return 500_000_000 + (int(job["id"]) + 1) * 100_000 + position - start


def request(scheduler: Any, job: dict[str, Any], clock: int) -> Any:
    sampling = load("sampling.sampling_params").SamplingParams(max_new_tokens=job["output"], ignore_eos=job["fixed"])
    sampling.normalize(None)
    kind = load("managers.schedule_batch").Req
    ids = array("q", [token(job, i) for i in range(job["prompt"])])
    if "array" not in str(inspect.signature(kind.__init__).parameters["origin_input_ids"].annotation):
        ids = list(ids)  # type: ignore[assignment]
    req = kind(f"{job['id']:06d}", "", ids, sampling, vocab_size=1 << 30, priority=job["priority"])
    req.tokenizer = None
    scheduler.init_req_max_new_tokens(req)
    req.time_stats = Stamps(scheduler, job["at"] + job["id"])
    return req


class Stamps(Nothing):
    """When a request joined the queue: a request that joins again, joins later."""

    def __init__(self, scheduler: Any, at: int) -> None:
        self.scheduler, self.wait_queue_entry_time = scheduler, at

    def set_wait_queue_entry_time(self, *values: Any) -> None:
        self.scheduler.entries = getattr(self.scheduler, "entries", 0) or 0
        self.scheduler.entries += 1
        self.wait_queue_entry_time = self.scheduler.entries


def forward(scheduler: Any, batch: Any, jobs: dict[str, dict[str, Any]]) -> Any:
    """What the model returns: the next token of every request, whichever of them will be used."""
    torch = importlib.import_module("torch")

    scheduler.forward_ct += 1
    if batch.extend_num_tokens and batch.forward_mode.is_extend():
        scheduler.processed_tokens_counter += batch.extend_num_tokens
    batch.input_ids = torch.zeros(len(batch.reqs), dtype=torch.int64)
    tokens = [token(jobs[req.rid], int(n)) for req, n in zip(batch.reqs, batch.seq_lens_cpu.tolist())]
    kind = load("managers.utils").GenerationBatchResult
    wanted = {"logits_output": None, "next_token_ids": torch.tensor(tokens, dtype=torch.int64),
              "can_run_cuda_graph": False, "can_run_graph": False}  # fmt: skip
    known = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in wanted.items() if name in known})


def described(batch: Any, scheduler: Any) -> list[Any]:
    mode = batch.forward_mode
    kind = "mixed" if mode.is_mixed() else "extend" if mode.is_extend() else "decode"
    lengths = [1] * len(batch.reqs)
    if kind != "decode":
        lengths = list(batch.extend_lens)
    rows = [[int(req.rid), int(n)] for req, n in zip(batch.reqs, lengths)]
    allocator = scheduler.token_to_kv_pool_allocator
    if scheduler.is_hybrid_swa:
        return [kind, rows, allocator.full_available_size(), allocator.swa_available_size()]
    return [kind, rows, allocator.available_size()]


def drive(case: dict[str, Any]) -> dict[str, Any]:
    config = case["config"]
    jobs = {f"{job['id']:06d}": job for job in case["jobs"]}
    scheduler = build(config)
    waiting = deque(sorted(case["jobs"], key=lambda job: (job["at"], job["id"])))
    steps: list[Any] = []
    clock = idle = 0
    queue: deque[Any] = deque()
    scheduler.result_queue = queue
    scheduler.enable_skip_finishing_decode = config["overlap"]
    takes = "running_batch" in inspect.signature(scheduler.get_next_batch_to_run).parameters
    while len(steps) < MOST_STEPS:
        while waiting and waiting[0]["at"] <= clock:
            scheduler._add_request_to_queue(request(scheduler, waiting.popleft(), clock))
        if takes:
            plan = scheduler.get_next_batch_to_run(
                running_batch=scheduler.running_batch, last_batch=scheduler.last_batch
            )
            scheduler.running_batch, batch = plan.running_batch, plan.batch_to_run
        else:
            batch = scheduler.get_next_batch_to_run()
        scheduler.cur_batch = batch
        if config["overlap"]:
            if batch:
                steps.append(described(batch, scheduler))
                queue.append((batch.copy(), forward(scheduler, batch, jobs)))
            if scheduler.last_batch:
                scheduler.process_batch_result(*queue.popleft())
        elif batch:
            steps.append(described(batch, scheduler))
            scheduler.process_batch_result(batch, forward(scheduler, batch, jobs))
        if not batch and not scheduler.last_batch:
            scheduler.new_token_ratio = getattr(scheduler, "init_new_token_ratio", 0)
            if hasattr(scheduler, "new_token_ratio_tracker") and scheduler.new_token_ratio_tracker:
                scheduler.new_token_ratio_tracker.reset()
            idle += 1
            if idle > PATIENCE:
                return {"id": case["id"], "steps": steps, "end": "stuck"}
            if not scheduler.waiting_queue and scheduler.chunked_req is None and scheduler.running_batch.is_empty():
                if not waiting:
                    return {"id": case["id"], "steps": steps, "end": "done"}
                clock = max(clock, waiting[0]["at"])
        else:
            idle = 0
        scheduler.last_batch = batch
        if batch:
            clock += TICK
    return {"id": case["id"], "steps": steps, "end": "cut"}


def main() -> int:
    import traceback

    prepare_imports()
    with open(sys.argv[1], encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            try:
                answer = drive(case)
            except Exception:
                answer = {"id": case["id"], "steps": [], "end": "error", "error": traceback.format_exc()[-2500:]}
            print(json.dumps(answer, separators=(",", ":")), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
