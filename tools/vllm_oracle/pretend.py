# mypy: ignore-errors
"""Makes vLLM's Python believe in a GPU, on a machine that has none. Call `install(gpu)` before `import vllm`.

gpu: {"name": ..., "sm": 90, "total": bytes, "count": 8}. What is compiled becomes an empty stub; NVML and torch.cuda
answer from `gpu`; what vLLM decides from these answers is vLLM's own.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import os
import sys
import types

GPU: dict = {}

# packages whose Python is not needed: taken to be usable, as in an image with all of vLLM's requirements
STUBS = {
    "flashinfer", "flashinfer_cubin", "deep_gemm", "tilelang", "quack", "cutlass", "humming", "tokenspeed_mla", "nvtx",
    "cuda", "flash_mla", "fastsafetensors", "instanttensor", "torchcodec", "PyNvVideoCodec",
    "flash_attn_4", "cudnn", "torchaudio", "flash_kda",
}  # fmt: skip
COMPILED = (
    "vllm._C", "vllm._C_stable_libtorch", "vllm._moe_C", "vllm._moe_C_stable_libtorch", "vllm._qutlass_C",
    "vllm._flashmla_C", "vllm._flashmla_extension_C", "vllm._rocm_C", "vllm.cumem_allocator", "vllm._deep_gemm_C",
    "vllm.vllm_flash_attn._vllm_fa2_C", "vllm.vllm_flash_attn._vllm_fa3_C", "vllm.vllm_flash_attn._vllm_fa4_C",
    "vllm.third_party.deep_gemm._C", "vllm.spinloop", "vllm.fs_io_C",
)  # fmt: skip


# real packages, imported while torch still says that there is no GPU
FIRST = (
    "torchvision", "transformers", "transformers.modeling_utils", "transformers.processing_utils", "tvm_ffi",
    "xgrammar", "llguidance", "compressed_tensors", "numba", "triton", "triton.language", "pydantic", "fastapi",
)  # fmt: skip


class Nothing:
    """Callable, iterable, false; as a decorator it returns what it decorates."""

    def __init__(self, name="stub", *a, **k):
        self.__dict__["_n"] = str(name)

    def __call__(self, *a, **k):
        if len(a) == 1 and not k and callable(a[0]) and not isinstance(a[0], Nothing):
            return a[0]
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(self._n + "." + name)

    def __getitem__(self, key):
        return self

    def __iter__(self):
        return iter(())

    def __bool__(self):
        return False

    def __mro_entries__(self, bases):
        return (object,)

    def __or__(self, other):
        return self

    __ror__ = __or__

    def __repr__(self):
        return f"<stub {self._n}>"


class Member(Nothing):
    """A member of a stub enumeration: true, and equal to itself alone; as a number it is 1."""

    def __add__(self, other):
        return 1

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = __truediv__ = __mod__ = (
        __lshift__
    ) = __add__

    def __index__(self):
        return 1

    __int__ = __index__

    def __bool__(self):
        return True


class Meta(type):
    """A stub class: its members are stubs too, unequal to each other."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = Member(f"{cls.__name__}.{name}")
        value.__dict__.update(name=name, value=name)
        setattr(cls, name, value)
        return value

    def __getitem__(cls, key):
        return cls


class Stub(types.ModuleType):
    __path__ = ()

    def __getattr__(self, name):
        if name == "__version__":
            return "99.0.0"
        if name.startswith("__"):
            raise AttributeError(name)
        is_class = name[:1].isupper()
        value = (
            Meta(name, (), {"__init__": lambda s, *a, **k: None}) if is_class else Nothing(f"{self.__name__}.{name}")
        )
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in STUBS or name in COMPILED:
            return importlib.machinery.ModuleSpec(name, self, is_package=name not in COMPILED)
        return None

    def create_module(self, spec):
        module = Stub(spec.name)
        module.__file__ = "<stub>"
        return module

    def exec_module(self, module):
        pass


def capability() -> tuple[int, int]:
    return GPU["sm"] // 10, GPU["sm"] % 10


def _properties():
    return types.SimpleNamespace(
        name=GPU["name"],
        total_memory=GPU["total"],
        major=capability()[0],
        minor=capability()[1],
        multi_processor_count=GPU.get("sms", 132),
        shared_memory_per_block_optin=GPU.get("smem")
        or {80: 166912, 90: 232448, 100: 232448, 103: 232448}.get(GPU["sm"], 101376),
        shared_memory_per_block=49152,
        shared_memory_per_multiprocessor=233472,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        is_integrated=False,
        warp_size=32,
        gcnArchName="",
        L2_cache_size=50 << 20,
        uuid="GPU-0",
    )


def install(gpu: dict) -> None:
    GPU.update({"count": 64, **gpu})
    os.environ.update(
        HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", VLLM_NO_USAGE_STATS="1", VLLM_DO_NOT_TRACK="1",
        VLLM_HAS_FLASHINFER_CUBIN="1", OMP_NUM_THREADS="1", VLLM_PLUGINS="", TOKENIZERS_PARALLELISM="false",
    )  # fmt: skip
    import torch
    import torch._dynamo
    import torch._inductor.utils  # before torch.cuda says otherwise
    import torch.distributed

    torch.set_num_threads(1)
    vision = torch.library.Library(
        "torchvision", "DEF"
    )  # torchvision's own operators, which its package wants to describe
    vision.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    vision.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    GPU["_vision"] = vision
    for module in FIRST:
        try:
            __import__(module)
        except Exception as error:
            if os.environ.get("ORACLE_VERBOSE"):
                print("pre-import", module, repr(error)[:200], file=sys.stderr)
    sys.meta_path.insert(0, Finder())
    _torch(torch)
    _nvml()
    _triton()
    known = importlib.metadata.version

    def version(name):
        try:
            return known(name)
        except importlib.metadata.PackageNotFoundError:
            if name.replace("-", "_").split("_")[0] in ("flashinfer", "deep", "tilelang", "quack", "nvidia", "humming"):
                return "99.0.0"
            raise

    importlib.metadata.version = version


def _torch(torch) -> None:
    cuda = torch.cuda
    cuda.get_device_properties = lambda *a, **k: _properties()
    cuda.get_device_capability = lambda *a, **k: capability()
    cuda.get_device_name = lambda *a, **k: GPU["name"]
    cuda.device_count = lambda: GPU["count"]
    cuda._device_count_nvml = lambda: GPU["count"]
    cuda._is_compiled = lambda: True
    cuda.current_device = lambda: 0
    cuda.set_device = lambda *a, **k: None
    cuda.is_available = lambda: True
    cuda.is_initialized = lambda: False
    cuda.is_bf16_supported = lambda *a, **k: GPU["sm"] >= 80
    cuda.mem_get_info = lambda *a, **k: (GPU["total"], GPU["total"])
    cuda.empty_cache = cuda.synchronize = lambda *a, **k: None
    cuda.memory_allocated = cuda.max_memory_allocated = cuda.memory_reserved = lambda *a, **k: 0
    cuda.is_current_stream_capturing = lambda: False
    cuda.Stream = cuda.Event = Nothing
    cuda.current_stream = cuda.default_stream = lambda *a, **k: Nothing("stream")
    cuda.stream = lambda s: contextlib.nullcontext()
    if hasattr(torch, "accelerator"):
        accelerator = torch.accelerator
        accelerator.device_count = lambda: GPU["count"]
        accelerator.is_available = lambda: True
        import torch._C as c

        c._accelerator_getDeviceIndex = lambda *a: 0
        accelerator.current_device_index = lambda: 0
        accelerator.current_accelerator = lambda *a, **k: torch.device("cuda")
        accelerator.set_device_index = lambda *a: None
        accelerator.empty_cache = accelerator.synchronize = lambda *a, **k: None
        for name in ("memory_allocated", "max_memory_allocated", "memory_reserved"):
            setattr(accelerator, name, lambda *a, **k: 0)
        accelerator.get_memory_info = lambda *a, **k: (GPU["total"], GPU["total"])
    torch.version.cuda = "13.0"
    from torch import _ops

    original = _ops._OpNamespace.__getattr__

    def namespace(self, name):
        try:
            return original(self, name)
        except AttributeError:
            if name.startswith("__") or self.name in ("aten", "prims", "profiler", "quantized", "c10d", "torchvision"):
                raise
            predicate = PREDICATES.get(name)
            return predicate or Nothing(f"op.{self.name}.{name}")

    _ops._OpNamespace.__getattr__ = namespace
    fake = torch.library.register_fake

    def register_fake(op, *a, **k):
        def decorate(function):
            try:
                return fake(op, *a, **k)(function)
            except Exception:
                return function

        return decorate

    torch.library.register_fake = register_fake
    real_lib = torch.library.Library

    class Library(real_lib):
        def impl(self, *a, **k):
            try:
                return super().impl(*a, **k)
            except Exception:
                return None

    torch.library.Library = Library


# csrc/quantization/w8a8/cutlass/scaled_mm_entry.cu and nvfp4_scaled_mm_entry.cu, for a build with CUDA 12.8 or later
PREDICATES = {
    "cutlass_scaled_mm_supports_fp8": lambda c: c >= 89,
    "cutlass_scaled_mm_supports_block_fp8": lambda c: c >= 90,
    "cutlass_group_gemm_supported": lambda c: 90 <= c < 110,
    "cutlass_scaled_mm_supports_fp4": lambda c: 100 <= c < 130,
    "mxfp4_experts_quant_supported": lambda c: 100 <= c < 110,
    "cutlass_sparse_scaled_mm_supported": lambda c: 90 <= c < 100,
}


def _nvml() -> None:
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(GPU["count"]))))
    memory = types.SimpleNamespace(total=GPU["total"], free=GPU["total"], used=0)
    answers = {
        "nvmlInit": lambda *a: None,
        "nvmlShutdown": lambda *a: None,
        "nvmlDeviceGetCount": lambda: GPU["count"],
        "nvmlDeviceGetHandleByIndex": lambda i: i,
        "nvmlDeviceGetHandleByUUID": lambda i: 0,
        "nvmlDeviceGetCudaComputeCapability": lambda h: capability(),
        "nvmlDeviceGetName": lambda h: GPU["name"],
        "nvmlDeviceGetUUID": lambda h: "GPU-0",
        "nvmlDeviceGetMemoryInfo": lambda h, *a: memory,
        "nvmlDeviceGetP2PStatus": lambda *a: 0,
        "nvmlSystemGetDriverVersion": lambda: "580.00",
        "nvmlSystemGetCudaDriverVersion": lambda: 13000,
    }
    for name in ("vllm.third_party.pynvml", "pynvml"):
        if name == "pynvml":
            try:
                module = __import__(name)
            except ImportError:
                continue
            for key, value in answers.items():
                setattr(module, key, value)
    GPU["_nvml"] = answers


class _Nvml(importlib.abc.MetaPathFinder):
    """vLLM carries its own copy of pynvml, and some releases look for a GPU while `vllm` itself is imported: the copy
    answers from `gpu` as soon as it is loaded."""

    NAME = "vllm.third_party.pynvml"

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self.NAME:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            for key, value in GPU["_nvml"].items():
                setattr(module, key, value)

        spec.loader.exec_module = exec_module
        return spec


def patch_vllm_nvml() -> None:
    """Call this before `import vllm`."""
    sys.meta_path.insert(0, _Nvml())


def _triton() -> None:
    try:
        from triton.backends import backends
    except Exception:
        return
    for name, backend in backends.items():
        driver = getattr(backend, "driver", None)
        if driver is not None:
            active = name == "nvidia"
            driver.is_active = staticmethod(lambda active=active: active)

    import triton
    from triton.backends.compiler import GPUTarget

    class Utils:
        def get_device_properties(self, *a):
            p = _properties()
            return {
                "max_shared_mem": p.shared_memory_per_block_optin,
                "multiprocessor_count": p.multi_processor_count,
                "max_num_regs": 65536,
                "warpSize": 32,
                "sm_clock_rate": 1980000,
                "mem_clock_rate": 2619000,
                "mem_bus_width": 5120,
            }

        def __getattr__(self, name):
            return Nothing(name)

    class Driver:
        utils = Utils()

        def get_current_target(self):
            return GPUTarget("cuda", GPU["sm"], 32)

        def get_current_device(self, *a):
            return 0

        def get_device_interface(self):
            import torch

            return torch.cuda

        def __getattr__(self, name):
            return Nothing(name)

    triton.runtime.driver.set_active(Driver())
