"""A stand-in for vLLM, torch and NVML, in files of their own: real imports, real classes, no GPU.

`write(folder)` makes the packages; `python -m play STEP ...` there starts an engine as vLLM does (plugin, executor,
worker, runner) and fails where it is told to.
"""

from pathlib import Path

FILES = {
    "pynvml.py": """
from types import SimpleNamespace
class NVMLError(Exception): pass
NVML_ERROR_LIBRARY_NOT_FOUND, NVML_ERROR_DRIVER_NOT_LOADED = 12, 9
TOTAL = 25757220864
def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlDeviceGetCount(): return 1
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetName(handle): return "NVIDIA GeForce RTX 4090"
def nvmlDeviceGetUUID(handle): return "GPU-1"
def nvmlDeviceGetCudaComputeCapability(handle): return (8, 9)
def held(used): return SimpleNamespace(total=TOTAL, used=used, free=TOTAL - used, reserved=0)
def nvmlDeviceGetMemoryInfo(handle, version=None):
    if version: raise NVMLError("not supported")
    return held(2**30)
def nvmlDeviceGetMigMode(handle): raise NVMLError("not supported")
def nvmlDeviceGetComputeRunningProcesses(handle): return [SimpleNamespace(pid=1, usedGpuMemory=2**30)]
""",
    "torch/__init__.py": """
from torch import cuda
class OutOfMemoryError(RuntimeError): pass
""",
    "torch/cuda.py": """
def is_initialized(): return True
def mem_get_info(device): return (2**30, 24 * 2**30)
def memory_stats(device): return {"allocated_bytes.all.current": 20 * 2**30, "reserved_bytes.all.current": 21 * 2**30,
                                  "allocated_bytes.all.peak": 22 * 2**30}
class memory:
    def _record_memory_history(max_entries, stacks): memory.recorded = stacks
    def _dump_snapshot(path): open(path, "w").write(memory.recorded)
""",
    "vllm/__init__.py": "",
    "vllm/version.py": "__version__ = '{version}'",
    "vllm/v1/__init__.py": "",
    "vllm/v1/engine/__init__.py": "",
    "vllm/v1/engine/exceptions.py": """
class EngineDeadError(Exception):
    def __init__(self): super().__init__("EngineCore encountered an issue.")
""",
    "vllm/v1/engine/utils.py": """
def wait_for_engine_startup(): raise RuntimeError("Engine core initialization failed.")
""",
    "vllm/v1/engine/core.py": """
class EngineCore:
    def __init__(self, config, executor_class):
        import oomph_vllm
        oomph_vllm.register()
        self.vllm_config = config
        self.executor = executor_class(config)
        self.blocks = self._initialize_kv_caches(config)
    def _initialize_kv_caches(self, config):
        self.executor.worker.determine_available_memory()
        if config.fails_at == "kv_check":
            raise ValueError("To serve at least one request with the model's max seq len (36000), (4.94 GiB KV cache "
                             "is needed, which is larger than the available KV cache memory (4.36 GiB).")
        self.executor.worker.initialize_from_config(None)
        self.executor.worker.compile_or_warm_up_model()
        return 1985
    def shutdown(self): pass
class EngineCoreProc(EngineCore):
    def run_busy_loop(self): raise SystemExit
class DPEngineCoreProc(EngineCoreProc):
    def run_busy_loop(self): raise AssertionError("a request that nobody knows")
""",
    "vllm/v1/engine/core_client.py": """
class MPClient:
    def __init__(self, config): self.vllm_config = config
    def shutdown(self, timeout=None): pass
""",
    "vllm/v1/core/__init__.py": "",
    "vllm/v1/core/sched/__init__.py": "",
    "vllm/v1/core/sched/scheduler.py": """
from types import SimpleNamespace as N
class Scheduler:
    max_model_len, block_size, waiting = 4096, 16, ()
    kv_cache_config = N(kv_cache_groups=[N(kv_cache_spec=N())])
    kv_cache_manager = N(block_pool=N(get_num_free_blocks=lambda: 20))
    preemptions = 0
    def schedule(self):
        self.preemptions += 20
        return "scheduled"
    @property
    def running(self):
        return [N(num_tokens=1000, max_tokens=2000, num_output_tokens=500, num_preemptions=self.preemptions)] * 4
""",
    "vllm/v1/executor/__init__.py": "",
    "vllm/v1/executor/abstract.py": """
class Executor:
    def __init__(self, config):
        self.config = config
        self._init_executor()
    def _init_executor(self):
        from vllm.v1.worker.gpu_worker import Worker
        self.worker = Worker(self.config)
        self.worker.init_device()
        self.worker.load_model()
""",
    "vllm/v1/worker/__init__.py": "",
    "vllm/v1/worker/gpu/__init__.py": "",
    "vllm/v1/worker/gpu/model_runner.py": """
import torch
class GPUModelRunner:
    def __init__(self, config): self.config, self.vllm_config, self.model_memory_usage = config, config, 16394145792
    def profile_cudagraph_memory(self): return 602013696
    def capture_model(self):
        if self.config.fails_at == "cudagraph_capture": raise torch.OutOfMemoryError("CUDA out of memory.")
        return 500000000
    def sample_tokens(self, batch): return batch
""",
    "vllm/v1/worker/gpu_model_runner.py": """
import torch
class GPUModelRunner:
    def __init__(self, config): self.config, self.vllm_config, self.model_memory_usage = config, config, 16394145792
    def profile_cudagraph_memory(self): return 602013696
    def capture_model(self):
        if self.config.fails_at == "cudagraph_capture": raise torch.OutOfMemoryError("CUDA out of memory.")
        return 500000000
    def sample_tokens(self, batch): return batch
""",
    "vllm/v1/worker/gpu_worker.py": """
import os
from types import SimpleNamespace
import torch
if os.environ.get("VLLM_USE_V2_MODEL_RUNNER") == "0":
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner
else:
    from vllm.v1.worker.gpu.model_runner import GPUModelRunner

class Linear:
    def __init__(self, prefix):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacity of "
            "23.99 GiB of which 21.00 MiB is free.")

class Worker:
    def __init__(self, config, rank=0):
        self.vllm_config, self.rank, self.model_runner = config, rank, GPUModelRunner(config)
    def init_device(self):
        self.device = SimpleNamespace(index=0)
        self.init_snapshot = SimpleNamespace(free_memory=24 * 2**30, total_memory=25757220864)
        self.requested_memory = 23 * 2**30
    def load_model(self):
        if self.vllm_config.fails_at == "weights_load": Linear(prefix="model.layers.7.mlp.gate_up_proj")
    def determine_available_memory(self):
        self.cudagraph_memory_estimate = self.model_runner.profile_cudagraph_memory()
        self.non_torch_memory, self.peak_activation_memory = 94371840, 1278214144
        self.available_kv_cache_memory_bytes = 4684610274
        return 4684610274
    def initialize_from_config(self, config): pass
    def compile_or_warm_up_model(self): return self.model_runner.capture_model()
    def execute_model(self, batch):
        if self.vllm_config.fails_at == "runtime_request": raise torch.OutOfMemoryError("CUDA out of memory.")
        return "output"
    def sleep(self, level=1): pass
    def wake_up(self, tags=None): pass
""",
    "several.py": """
import copy, os, time
import oomph_vllm
oomph_vllm.register()
from vllm.v1.engine.core import DPEngineCoreProc, EngineCoreProc
from vllm.v1.engine.core_client import MPClient
from vllm.v1.engine.exceptions import EngineDeadError
from vllm.v1.executor.abstract import Executor
from vllm.v1.worker.gpu_worker import Worker

class OfTwoRanks(Executor):
    "The second rank is a process of its own, which dies or is killed."
    def _init_executor(self):
        if not (child := os.fork()):
            worker = Worker(self.config, rank=1)
            worker.init_device()
            if self.config.fails_at == "a rank": self.config.fails_at = "weights_load"
            try: worker.load_model()
            finally: os._exit(9)
        os.waitpid(child, 0)
        raise RuntimeError("WorkerProc initialization failed")

def attempt(act):
    try: act()
    except Exception as error: print("raised", type(error).__name__, error, flush=True)

def play(config, kinds):
    for number, kind in enumerate(kinds):
        config = copy.deepcopy(config)
        config.instance_id = str(1000 + number)
        config.fails_at = kind if kind in ("weights_load", "a rank") else ""
        config.parallel_config.data_parallel_index = 2 if kind == "replica" else 0
        if kind in ("a rank", "a lost rank"):
            attempt(lambda: EngineCoreProc(config, OfTwoRanks))
        elif kind == "loop":
            attempt(lambda: DPEngineCoreProc(config, Executor).run_busy_loop())
        elif kind in ("ended", "killed", "stopped"):
            read, write = os.pipe()
            if not (child := os.fork()):
                engine = EngineCoreProc(config, Executor)
                if kind == "ended": engine.shutdown()
                os.write(write, b"ready")
                if kind == "stopped": time.sleep(60)  # until its server kills it
                os._exit(0)
            os.read(read, 5)
            if kind == "stopped":
                MPClient(config).shutdown()
                os.kill(child, 9)
            os.waitpid(child, 0)
        elif kind == "gone":
            print("told", EngineDeadError())
        else:
            attempt(lambda: EngineCoreProc(config, Executor))
""",
    "play.py": """
import json, logging, sys, time
from types import SimpleNamespace as N
handler = logging.StreamHandler(sys.stdout)
handler.setFormatter(logging.Formatter("%(message)s"))
logging.getLogger("vllm").addHandler(handler)
logging.getLogger("vllm").setLevel(logging.INFO)
import vllm.version
from vllm.v1.engine.core import EngineCore
from vllm.v1.executor.abstract import Executor
asked = json.loads(sys.argv[1])
config = N(
    fails_at=asked.get("fails_at", ""), instance_id=str(time.time_ns()),
    model_config=N(model=asked["model"], max_model_len=asked.get("max_model_len", 4096), dtype="torch.bfloat16",
                   enforce_eager=False, hf_config=N(), runner_type="generate", quantization=None),
    cache_config=N(gpu_memory_utilization=0.92, cache_dtype="auto", enable_prefix_caching=True),
    scheduler_config=N(max_num_seqs=64, max_num_batched_tokens=2048),
    parallel_config=N(tensor_parallel_size=1, pipeline_parallel_size=1, world_size=1, data_parallel_rank=0),
    compilation_config=N(cudagraph_mode=N(name="FULL_AND_PIECEWISE"), cudagraph_capture_sizes=[1, 2, 4]),
)
import oomph_vllm.hooks as h, oomph_vllm.planning as q
q.WAIT_S = h.READING_LIMIT_S = h.DEATH_LIMIT_S = 60  # a busy machine is no trouble of ours
exec(asked.get("first", ""))
if asked.get("engines"):
    import several
    several.play(config, asked["engines"])
    sys.exit()
if asked.get("killed_at"):
    import os, time, oomph_vllm
    oomph_vllm.register()
    if not (child := os.fork()):
        if asked["killed_at"] == "weights_load":
            from vllm.v1.worker.gpu_worker import Worker
            Worker.load_model = lambda self: os._exit(9)
            import oomph_vllm.hooks as h, oomph_vllm.watching as w
            import vllm.v1.worker.gpu_worker as g
            h.patch(g, next(k for k in h.HOOKS if k.stage == "weights_load"), w.watch)
        EngineCore(config, Executor)
        os._exit(9)
    os.waitpid(child, 0)
    import vllm.v1.engine.exceptions, vllm.v1.engine.utils
    try:
        if asked["killed_at"] == "weights_load": vllm.v1.engine.utils.wait_for_engine_startup()
        raise vllm.v1.engine.exceptions.EngineDeadError()
    except Exception as error:
        print("raised", type(error).__name__, error)
    sys.exit()
try:
    engine = EngineCore(config, Executor)
    batch = N(num_scheduled_tokens={"req-a": 5, "req-b": 2043}, scheduled_encoder_inputs={"req-b": [0, 1]})
    for step in range(asked.get("steps", 0)):
        from vllm.v1.core.sched.scheduler import Scheduler
        scheduler = globals().setdefault("scheduler", Scheduler())
        print(scheduler.schedule(), engine.executor.worker.execute_model(batch))
    print("result", engine.blocks, engine.executor.worker.execute_model(batch))
except Exception as error:
    print("raised", type(error).__name__, error)
""",
}


def write(folder: Path, version: str) -> None:
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("{version}", version).lstrip())
