# mypy: ignore-errors
"""oracle.py CASES.jsonl > ANSWERS.jsonl: what vLLM itself decides, asked of its own Python without a GPU.

A case: {"id", "model": folder, "gpu": {"name", "sm", "total"}, "flags": {EngineArgs field: value}, "kv_bytes": int or
"need_factor": float (of the bytes that one request of the full length needs), "env": {}}. Cases are answered one after
the other, each in a forked child, grouped by GPU. See README for what is real and what is pretended.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)


def boot(gpu: dict) -> None:
    import pretend

    pretend.install(gpu)

    if not os.environ.get("ORACLE_VERBOSE"):
        os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
    pretend.patch_vllm_nvml()
    import vllm
    import vllm.platforms

    platform = vllm.platforms.current_platform
    assert platform.is_cuda(), platform
    platform.is_fully_connected = classmethod(lambda cls, ids: True)
    for name in PRELOAD:
        try:
            __import__(name)
        except Exception as error:
            if os.environ.get("ORACLE_VERBOSE"):
                traceback.print_exc()
            print("preload", name, repr(error)[:200], file=sys.stderr)
    _patch()


PRELOAD = (
    "vllm.engine.arg_utils", "vllm.model_executor.models.registry", "vllm.model_executor.model_loader.utils",
    "vllm.v1.core.kv_cache_utils", "vllm.v1.worker.gpu_model_runner", "vllm.distributed.parallel_state",
    "vllm.model_executor.layers.fused_moe", "vllm.model_executor.layers.quantization.fp8",
    "vllm.model_executor.layers.quantization.modelopt", "vllm.model_executor.layers.quantization.mxfp4",
    "vllm.model_executor.layers.quantization.compressed_tensors.compressed_tensors",
    "vllm.v1.attention.backends.flashinfer", "vllm.v1.attention.backends.flash_attn",
)  # fmt: skip


def _patch() -> None:
    """Process groups of any size in one process: torch's fake backend, collectives that return what they are given."""

    import vllm.model_executor.models.registry as registry

    # each model class is inspected in this process instead of in a child
    if hasattr(registry, "_run_in_subprocess"):
        registry._run_in_subprocess = lambda function: function()
    # read off the signature of FlashInfer's wrapper, a stand-in here; 0.30 and later ask for a FlashInfer that has it
    import vllm.utils.flashinfer as flashinfer

    if hasattr(flashinfer, "has_flashinfer_sm90_nope_mla"):
        for loaded in list(sys.modules.values()):
            if getattr(loaded, "__name__", "").startswith("vllm") and "has_flashinfer_sm90_nope_mla" in loaded.__dict__:
                loaded.has_flashinfer_sm90_nope_mla = lambda: True


def build(case: dict, out: dict) -> None:
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.engine.arg_utils import EngineArgs
    from vllm.platforms import current_platform
    from vllm.usage.usage_lib import UsageContext

    flags = dict(case["flags"])
    usage = UsageContext.LLM_CLASS if flags.pop("usage", "") == "llm" else UsageContext.OPENAI_API_SERVER
    out["stage"] = "engine_config"
    has_header = os.path.exists(os.path.join(case["model"], "model.safetensors"))
    load_format = flags.pop("load_format", "auto" if has_header else "dummy")
    args = EngineArgs(model=case["model"], load_format=load_format, skip_tokenizer_init=True, **convert(flags))
    config = args.create_engine_config(usage_context=usage)
    out["config"] = config
    out["stage"] = "model_build"
    parallel = config.parallel_config
    groups(config, 0)
    kernels_seen = watch_kernels()
    try:
        import torch
        from vllm.v1.worker.workspace import init_workspace_manager

        init_workspace_manager(torch.device("meta"))
    except (ImportError, AttributeError, TypeError):
        pass
    pp = parallel.pipeline_parallel_size
    specs_by_stage, weights = [], []
    untouched = copy.copy(config.cache_config)
    for stage in range(pp):
        if stage:  # every worker process aligns its own blocks (v1/executor/multiproc_executor.py:701)
            config.cache_config = copy.copy(untouched)
        if pp > 1:
            config.compilation_config.static_forward_context.clear()
            getattr(config.compilation_config, "static_all_moe_layers", []).clear()
        place(config, stage)
        with set_current_vllm_config(config, check_compile=False):
            model, draft = construct(config)
        weights.append(weigh(model, draft))
        current_platform.update_block_size_for_backend(config)
        if stage == 0:
            out["kernels"] = sorted(kernels_seen)
        with set_current_vllm_config(config, check_compile=False):
            specs_by_stage.append(kv_specs(config))
    out["weights"] = weights[0] if pp == 1 else {**weights[0], "stages": [w["bytes"] for w in weights]}
    out["stage"] = "kv_cache_config"
    with set_current_vllm_config(config, check_compile=False):
        answer_kv(case, config, specs_by_stage, out)


def convert(flags: dict) -> dict:
    from vllm.config import CompilationConfig

    flags = dict(flags)
    if isinstance(flags.get("compilation_config"), dict):
        flags["compilation_config"] = CompilationConfig(**flags["compilation_config"])
    return flags


def groups(config, stage: int) -> None:
    """torch's fake process group of the deployment's world size, rank 0, then vLLM's own group construction."""
    import torch
    import torch.distributed as dist
    import vllm.distributed.parallel_state as ps
    from torch.testing._internal.distributed.fake_pg import FakeStore

    parallel = config.parallel_config
    world = parallel.world_size * parallel.data_parallel_size
    dist.init_process_group("fake", rank=0, world_size=world, store=FakeStore())

    class Communicator:
        def __init__(self, *a, **k):
            self.disabled = True

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return lambda *a, **k: a[0] if a else None

    class Group:
        """What a rank sees of one group."""

        def __init__(self, size, rank, ranks):
            self.world_size, self.rank_in_group, self.ranks = size, rank, ranks
            self.rank = ranks[rank]
            self.local_rank = 0
            self.device = torch.device("cpu")
            self.cpu_group = self.device_group = dist.group.WORLD
            self.device_communicator = Communicator()
            self.mq_broadcaster = None
            self.use_device_communicator = False
            self.unique_name = "fake"

        first_rank = property(lambda self: self.ranks[0])
        last_rank = property(lambda self: self.ranks[-1])
        is_first_rank = property(lambda self: self.rank_in_group == 0)
        is_last_rank = property(lambda self: self.rank_in_group == self.world_size - 1)
        next_rank = prev_rank = property(lambda self: self.ranks[0])

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return lambda *a, **k: a[0] if a else None

    tp, pp, dp = parallel.tensor_parallel_size, parallel.pipeline_parallel_size, parallel.data_parallel_size
    pcp = getattr(parallel, "prefill_context_parallel_size", 1)
    dcp = getattr(parallel, "decode_context_parallel_size", 1)

    def make(size, rank=0):
        return Group(size, rank, list(range(size)))

    ps._WORLD = make(world)
    if hasattr(ps, "_INNER_DP_WORLD"):
        ps._INNER_DP_WORLD = make(parallel.world_size)
    if hasattr(ps, "_NODE_COUNT"):
        ps._NODE_COUNT = 1
    ps._TP, ps._PP, ps._DP = make(tp), make(pp, stage), make(dp)
    ps._DCP = make(dcp)
    ps._PCP = make(pcp)
    ps._EP = make(tp * dp * pcp)
    if hasattr(ps, "_EPLB"):
        ps._EPLB = make(tp * dp * pcp)
    for name in ("_ATTN_TP", "_MOE_TP", "_O_TP", "_MLP_TP"):
        if hasattr(ps, name):
            setattr(ps, name, make(tp))


def place(config, stage: int) -> None:
    import vllm.distributed.parallel_state as ps

    ps._PP.rank_in_group = stage
    config.parallel_config.rank = stage * config.parallel_config.tensor_parallel_size


def construct(config):
    """The model class, and the drafter's, on the meta device."""
    import torch
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.utils.torch_utils import set_default_torch_dtype

    with set_default_torch_dtype(config.model_config.dtype), torch.device("meta"), unmapped():
        model = initialize_model(vllm_config=config)
    spec, draft = config.speculative_config, None
    import vllm.distributed.parallel_state as ps

    drafts = spec is not None and getattr(spec, "draft_model_config", None) is not None
    if drafts and ps._PP.is_last_rank and spec.method not in ("ngram", "suffix", "ngram_gpu"):
        own = spec.draft_model_config
        with set_default_torch_dtype(own.dtype), torch.device("meta"), unmapped():
            if spec.method == "draft_model":
                alone = config_of_draft(config)
                draft = initialize_model(vllm_config=alone, model_config=own, prefix="draft_model")
            else:
                draft = initialize_model(vllm_config=config, model_config=own)
    return model, draft


def config_of_draft(config):
    """A draft model's own configuration: a function of its own, later a method of the proposer."""
    with contextlib.suppress(ImportError):
        from vllm.v1.spec_decode.utils import create_vllm_config_for_draft_model

        return create_vllm_config_for_draft_model(config)
    import vllm.v1.spec_decode.draft_model as module

    if hasattr(module, "create_vllm_config_for_draft_model"):
        return module.create_vllm_config_for_draft_model(config)
    proposer = module.DraftModelProposer.__new__(module.DraftModelProposer)
    proposer.vllm_config, proposer.speculative_config = config, config.speculative_config
    return proposer._create_draft_vllm_config()


@contextlib.contextmanager
def unmapped():
    """`.to(device)`, `.item()` and friends of constants that a constructor computes: on the meta device."""
    import torch

    original_to, original_cuda = torch.Tensor.to, torch.Tensor.cuda

    def to(self, *a, **k):
        a = tuple("meta" if _cuda(x) else x for x in a)
        k = {n: ("meta" if _cuda(x) else x) for n, x in k.items()}
        return original_to(self, *a, **k)

    torch.Tensor.to = to
    torch.Tensor.cuda = lambda self, *a, **k: original_to(self, "meta")
    torch.Tensor.pin_memory, pin = (lambda self, *a, **k: self), torch.Tensor.pin_memory
    factories = {}
    for name in ("empty", "zeros", "ones", "full", "arange", "tensor", "randn", "rand", "eye", "linspace"):
        factories[name] = getattr(torch, name)
        setattr(torch, name, _redirect(factories[name]))
    try:
        yield
    finally:
        torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.pin_memory = original_to, original_cuda, pin
        for name, function in factories.items():
            setattr(torch, name, function)


def _redirect(function):
    def call(*a, **k):
        if _cuda(k.get("device")) or isinstance(k.get("device"), int):
            k["device"] = "meta"
        k.pop("pin_memory", None)
        return function(*a, **k)

    return call


def _cuda(value) -> bool:
    import torch

    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and value.startswith("cuda")


def weigh(model, draft) -> dict:
    out = {}
    for key, module in (("", model), ("draft_", draft)):
        if module is None:
            continue
        seen, total, buffers, dtypes, categories = set(), 0, 0, {}, {}
        for kind, named in (("p", module.named_parameters()), ("b", module.named_buffers())):
            for name, tensor in named:
                if id(tensor) in seen:
                    continue
                seen.add(id(tensor))
                size = tensor.numel() * tensor.element_size()
                total += size
                dtypes[str(tensor.dtype)[6:]] = dtypes.get(str(tensor.dtype)[6:], 0) + size
                part = "buffers" if kind == "b" else category(name)
                categories[part] = categories.get(part, 0) + size
                buffers += size if kind == "b" else 0
        figures = {"bytes": total, "buffers": buffers, "by_category": categories, "by_dtype": dtypes}
        out |= {f"{key}{name}": value for name, value in figures.items()}
    return out


TOWERS = frozenset(
    """
    visual vision_tower vision_model audio_tower multi_modal_projector vision_encoder vision_language_adapter
    mm_projector resampler vpm vision_embed_tokens patch_merger pre_mm_projector_norm embed_vision embed_audio
    model_vision
    """.split()  # noqa: SIM905
)


def category(name: str) -> str:
    import re

    parts = name.split(".")
    if TOWERS & set(parts):
        return "multimodal"
    if "lm_head" in parts:
        return "lm_head"
    if "experts" in parts or "routed_experts" in parts:
        return "experts"
    if any("shared_expert" in p for p in parts):
        return "shared_experts"
    if "embed_tokens" in name or "wte" in parts or "word_embeddings" in name or "tok_embeddings" in name:
        return "embed"
    if "norm" in parts[-2] if len(parts) > 1 else False:
        return "norm"
    if re.search(r"attn|attention", name):
        return "attention"
    if re.search(r"mamba|conv1d|mixer|ssm", name):
        return "mamba"
    if "gate" in parts:
        return "router"
    return "mlp"


def watch_kernels() -> set:
    """The expert kernels that vLLM's own selection returns while the model is built."""
    import importlib

    seen: set = set()
    base = "vllm.model_executor.layers.fused_moe.oracle."
    for module, name in (
        ("unquantized", "select_unquantized_moe_backend"), ("fp8", "select_fp8_moe_backend"),
        ("nvfp4", "select_nvfp4_moe_backend"), ("mxfp4", "select_mxfp4_moe_backend"),
        ("mxfp4", "select_gpt_oss_mxfp4_moe_backend"), ("mxfp4", "select_deepseek_v4_mxfp4_moe_backend"),
        ("mxfp8", "select_mxfp8_moe_backend"), ("int8", "select_int8_moe_backend"),
        ("int_wna16", "select_wna16_moe_backend"),
        ("int_wna16", "select_int_wna16_moe_backend"), ("w4a8", "select_w4a8_moe_backend"),
    ):  # fmt: skip
        try:
            loaded = importlib.import_module(base + module)
        except ImportError:
            continue
        original = getattr(loaded, name, None)
        if original is None:
            continue

        def wrapped(*a, _original=original, _module=module, **k):
            result = _original(*a, **k)
            backend = result[0] if isinstance(result, tuple) else result
            kernel = result[1] if isinstance(result, tuple) and len(result) > 1 else None
            seen.add(f"{_module}:{getattr(backend, 'name', backend)}:{getattr(kernel, '__name__', '')}")
            return result

        for other in list(sys.modules.values()):
            if getattr(other, "__name__", "").startswith("vllm") and other.__dict__.get(name) is original:
                setattr(other, name, wrapped)
    return seen


def kv_specs(config) -> dict:
    import types

    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    try:
        import vllm.v1.worker.gpu.attn_utils as attn_utils

        if config.__dict__.get("use_v2_model_runner") or getattr(config, "use_v2_model_runner", False):
            return attn_utils.get_kv_cache_spec(config)
    except ImportError:
        pass
    runner = types.SimpleNamespace(vllm_config=config, shared_kv_cache_layers={})
    return GPUModelRunner.get_kv_cache_spec(runner)


def answer_kv(case: dict, config, specs: list, out: dict) -> None:
    import vllm.v1.core.kv_cache_utils as kv

    cache = config.cache_config
    with contextlib.suppress(ImportError):
        from vllm.v1.engine.core import register_all_kvcache_specs

        register_all_kvcache_specs(config)
    resolved(config, out)
    backends(config, out)
    if not any(specs):
        out["resolved"]["attention_free"] = True
        return
    with contextlib.suppress(ImportError):
        layouts(config, specs)
    bytes_ = case.get("kv_bytes")
    if bytes_ is None:
        need = need_bytes(kv, config, {k: v for s in specs for k, v in s.items()})
        bytes_ = max(int(need * case["need_factor"]), 1 << 20)
    out["kv_bytes"] = bytes_
    cache.num_gpu_blocks_override = case["flags"].get("num_gpu_blocks_override")
    before = config.model_config.max_model_len
    workers = [s for s in specs for _ in range(1)]
    configs = kv.get_kv_cache_configs(config, workers, [bytes_] * len(workers))
    after = config.model_config.max_model_len
    scheduler = kv.generate_scheduler_kv_cache_config(configs)
    cache.num_gpu_blocks = scheduler.num_blocks
    out["resolved"]["max_model_len"] = after
    if after != before:
        out["resolved"]["max_model_len_before_fit"] = before
    out["num_blocks"] = scheduler.num_blocks
    groups_ = scheduler.kv_cache_groups
    out["groups"] = [
        [type(spec).__name__, len(group.layer_names), spec.block_size, spec.page_size_bytes]
        for group in groups_
        for spec in (group.kv_cache_spec,)
    ]
    if groups_:
        cache.block_size = min(g.kv_cache_spec.block_size for g in groups_)
        out["resolved"]["block_size"] = cache.block_size
    config.validate_block_size()
    first = configs[0]
    try:
        concurrency = kv.get_max_concurrency_for_kv_cache_config(config, first)
        out["concurrency"] = concurrency
        out["tokens"] = int(concurrency * after)
    except Exception as error:
        out["concurrency_error"] = repr(error)[:200]


def layouts(config, specs) -> None:
    from vllm.v1.engine.core import resolve_kv_cache_layout

    supported = config_layouts(config)
    layout = resolve_kv_cache_layout(config, supported, [s for w in specs for s in w.values()])
    config.cache_config.kv_cache_layout = config.cache_config.kv_cache_layout or layout.name


def config_layouts(config):
    """What the workers answer to get_supported_kv_cache_layouts."""
    import types

    import vllm.v1.worker.gpu_worker as worker

    runner = types.SimpleNamespace(vllm_config=config)
    configs = {"cache_config": config.cache_config, "parallel_config": config.parallel_config}
    fake = types.SimpleNamespace(vllm_config=config, model_runner=runner, **configs)
    return [worker.Worker.get_supported_kv_cache_layouts(fake)]


def need_bytes(kv, config, specs) -> int:
    try:
        return kv.max_memory_usage_bytes(config, specs.values())
    except Exception:
        groups_ = kv.get_kv_cache_groups(config, specs)
        return kv._max_memory_usage_bytes_from_groups(config, groups_)


def resolved(config, out: dict) -> None:
    model, cache, scheduler = config.model_config, config.cache_config, config.scheduler_config
    capture = config.compilation_config.cudagraph_capture_sizes or []
    out["resolved"] = {
        "max_model_len": model.max_model_len,
        "max_num_seqs": scheduler.max_num_seqs,
        "max_num_batched_tokens": scheduler.max_num_batched_tokens,
        "enable_chunked_prefill": scheduler.enable_chunked_prefill,
        "enable_prefix_caching": cache.enable_prefix_caching,
        "async_scheduling": scheduler.async_scheduling,
        "disable_hybrid_kv_cache_manager": scheduler.disable_hybrid_kv_cache_manager,
        "quantization": model.quantization,
        "dtype": str(model.dtype)[6:],
        "kv_cache_dtype": cache.cache_dtype,
        "cudagraph_mode": config.compilation_config.cudagraph_mode.name,
        "architecture": model.architecture,
        "block_size": cache.block_size,
        "mamba_block_size": getattr(cache, "mamba_block_size", None),
        "capture": {"n": len(capture), "max": max(capture, default=0)},
    }


def backends(config, out: dict) -> None:
    from collections import Counter

    count: Counter = Counter()
    for layer in config.compilation_config.static_forward_context.values():
        get = getattr(layer, "get_attn_backend", None)
        if get is None:
            continue
        with contextlib.suppress(Exception):
            count[get().get_name()] += 1
    out["backends"] = dict(count)


def answer(case: dict) -> dict:
    out: dict = {}
    started = time.time()
    os.environ.update(case.get("env", {}))
    try:
        build(case, out)
        out["ok"] = True
    except BaseException as error:
        out["ok"] = False
        out["error"] = {"stage": out.get("stage"), "type": type(error).__name__, "text": str(error)[:3000]}
        frames = traceback.extract_tb(error.__traceback__)
        out["at"] = [f"{f.filename.split('site-packages/')[-1]}:{f.lineno}:{f.name}" for f in frames[-4:]]
        if os.environ.get("ORACLE_VERBOSE"):
            traceback.print_exc()
        if "config" in out and "resolved" not in out:
            with contextlib.suppress(Exception):
                resolved(out["config"], out)
    out.pop("config", None)
    out.pop("stage", None)

    keep = dict(case)
    return {**keep, "vllm": VERSION, **out, "seconds": round(time.time() - started, 1)}


VERSION = ""


def import_class(case: dict) -> None:
    """The module of a model's class in the parent: the import often takes longer than the answer."""
    import importlib

    from vllm.model_executor.models import registry

    with contextlib.suppress(Exception):
        with open(os.path.join(case["model"], "config.json")) as file:
            name = json.load(file)["architectures"][0]
        module = registry._VLLM_MODELS[name][0]
        importlib.import_module(module if "." in module else f"vllm.model_executor.models.{module}")


def main() -> None:
    global VERSION
    with open(sys.argv[1]) as file:
        cases = [json.loads(line) for line in file if line.strip()]
    from importlib.metadata import version

    VERSION = version("vllm")
    by_gpu: dict = {}
    for case in cases:
        by_gpu.setdefault(json.dumps([case["gpu"], case.get("env", {})], sort_keys=True), []).append(case)
    for key, some in by_gpu.items():
        sys.stdout.flush()
        parent = os.fork()
        if parent:
            os.waitpid(parent, 0)
            continue
        gpu, env = json.loads(key)
        os.environ.update(env)
        boot(gpu)
        for case in some:
            import_class(case)
            sys.stdout.flush()
            child = os.fork()
            if child:
                _, status = os.waitpid(child, 0)
                if status:
                    print(json.dumps({**case, "vllm": VERSION, "oracle_error": f"child status {status}"}), flush=True)
                continue
            import signal

            signal.alarm(int(os.environ.get("ORACLE_LIMIT", "240")))
            print(json.dumps(answer(case), default=str), flush=True)
            os._exit(0)
        os._exit(0)


if __name__ == "__main__":
    main()
