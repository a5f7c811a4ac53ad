# ruff: noqa: E501 - a row is a line
"""What a row of facts/*/logs.py is, and the lines that Python, PyTorch and the operating system print for every engine.

A row's regex names its groups `name__unit`: `free__GiB` becomes values["free"] in bytes and values["free_half"], half
of the last printed digit, so that a later comparison knows the interval; `__int` and `__float` are plain numbers (with
or without thousands separators), no suffix is text. `name__size` takes its unit from the text: "62.25 MiB".
"""

import re
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from oomph.ir import StageName
from oomph.ir.log_kinds import LogKind
from oomph.units import GIB, KIB, MIB

# Engines write GB and mean GiB: V0's "Loading model weights took 14.9 GB" and SGLang's figures are divided by 1 << 30.
UNITS = {
    "GiB": GIB, "MiB": MIB, "KiB": KIB, "B": 1, "GB": GIB, "MB": MIB, "KB": KIB, "bytes": 1,
    "TiB": KIB * GIB, "4GiB": 4 * GIB,
}  # fmt: skip
SIZE = r"-?[\d.]+ ?(?:bytes|[KMGT]?i?B)"


class LogRow(Struct, frozen=True):
    kind: LogKind
    needle: str  # a literal part of every such line: searched before the regex
    pattern: str
    since: str = ""  # first release that words it so, "" = open; until: first that no longer does
    until: str = ""
    more: tuple[str, ...] = ()  # further groups, each optional: pasted lines are often cut
    # what a line of this kind means for a run; said by the first row of the kind
    stage: StageName | None = None  # the stage that has begun once it is printed
    ends: StageName | Literal["here", ""] = ""  # it is a failure, of this stage; "here": of where the log had got to
    up: bool = False  # whoever prints it is up
    shortage: bool = False  # it says itself what is short, or that nothing is: its words are not looked at again
    by_people: bool = False  # people write it too: it does not tell whose log this is

    def match(self, text: str) -> dict[str, float | int | str] | None:
        if self.needle not in text:
            return None
        match = compiled(self.pattern).search(text)
        if match is None:
            return None
        groups = {name: value for name, value in match.groupdict().items() if value is not None}
        for pattern in self.more:
            extra = compiled(pattern).search(text)
            if extra:
                groups.update({name: value for name, value in extra.groupdict().items() if value is not None})
        values: dict[str, float | int | str] = {}
        for name, value in groups.items():
            values.update(convert(name, value))
        return values


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    r"""The pattern of a row. `\d+`, `[\d.]+` and `\w*` are read as at most 64 characters: a log comes from strangers, and a
    search that may begin in the middle of a run without end takes the square of the line's length."""
    return re.compile(_ENDLESS.sub(lambda m: f"{m[1]}{{{int(m[2] == '+')},64}}", pattern))


_ENDLESS = re.compile(r"(\\[dw]|\[\\[dw][^\]\\]{0,8}\])([+*])(?![+?])")


def convert(group: str, text: str) -> dict[str, float | int | str]:
    name, _, unit = group.partition("__")
    if not unit:
        return {name: text}
    try:
        if unit == "int":
            return {name: int(text.replace(",", "").replace("_", ""))}
        if unit == "float":
            return {name: float(text.rstrip(".").replace(",", ""))}
        if unit == "size":
            match = re.fullmatch(r"(-?[\d.,]+)\s*([A-Za-z]+)", text)
            if match is None:
                return {}
            text, unit = match[1], match[2]
        scale = UNITS[unit]
        number = text.rstrip(".").replace(",", "")
        digits = len(number.partition(".")[2])
        return {name: round(float(number) * scale), f"{name}_half": int(scale * 10**-digits / 2) if digits < 9 else 0}
    except (ValueError, KeyError, OverflowError):
        return {}


# a setting that one engine alone has -> the engine
SETTINGS = {
    "gpu_memory_utilization": "vllm", "gpu-memory-utilization": "vllm", "max_num_seqs": "vllm", "max-num-seqs": "vllm",
    "mem-fraction-static": "sglang", "mem_fraction_static": "sglang", "chunked-prefill-size": "sglang",
    "trtllm-build": "trtllm", "tensorrt_llm": "trtllm",
    "free_gpu_memory_fraction": "trtllm", "kv_cache_free_gpu_mem_fraction": "trtllm", "max_beam_width": "trtllm",
    "extra-llm-api-config": "trtllm", "extra_llm_api_options": "trtllm", "pytorch_backend_config": "trtllm",
    "max_running_requests": "sglang", "max-running-requests": "sglang", "MEM_FRACTION_STATIC": "sglang",
    "sglang_rollout": "sglang",
    "sgl_kernel": "sglang", "sgl-kernel": "sglang", "n-gpu-layers": "llamacpp", "n_gpu_layers": "llamacpp", "num_ctx": "ollama", "num_gpu": "ollama",
    # a type or a program that one engine alone has, as validators and argparse print it
    "launch_server": "sglang", "ServerArgs": "sglang", "bootstrap_room": "sglang", "sgl-workspace": "sglang", "hierarchical cache": "sglang", "hicache": "sglang", "mem-fraction": "sglang", "sgl": "sglang",
    "TorchLlmArgs": "trtllm", "TrtLlmArgs": "trtllm", "free_gpu_mem_fraction": "trtllm", "trtllm-bench": "trtllm",
    "EngineArgs": "vllm", "AsyncEngineArgs": "vllm", "VllmConfig": "vllm", "vllm_config": "vllm",
    "speed input": "vllm", "max-model-len": "vllm", "num-speculative-tokens": "vllm", "hf-config-path": "vllm",
    "maybe_override_with_speculators": "vllm", "kv-cache-memory": "vllm", "collect_env.py": "vllm",
}  # fmt: skip

_FAILS = r"(?<![A-Za-z0-9_])(?:OOM(?:s|ed)?|[Oo]ut[- ]of[- ][Mm]emory|OutOfMemoryError|[Cc]rash(?:es|ed)?|[Ff]ail(?:s|ed|ure)?|[Dd]ie[sd])(?![A-Za-z0-9_])"
_UTIL = r"gpu[_-]memory[_-]utilization[\"']?[ =:]{1,3}[\"']?(?P<util__float>[01]?\.\d{1,4})"

GENERIC = (
    LogRow("proposed", "motivation and pitch", r"^#{1,4} .{0,20}The feature, motivation and pitch"),  # a template's heading
    LogRow("proposed", "## ", r"(?i)^#{2,4} (?:proposals?|why this matters|feature request)\b"),
    LogRow("traceback", "Traceback", r"Traceback \(most recent call last\)"),
    LogRow("frame", 'File "', r'File "(?P<path>[^"]{1,400})", line (?P<at__int>\d{1,7}), in (?P<function>[\w<>.]{1,120})', shortage=True),
    LogRow("frame", ".py:", r"^\s{0,8}(?P<path>[\w./-]{1,200}\.py):(?P<at__int>\d{1,7}), in (?P<function>[\w<>.]{1,120})\s*$"),  # retold
    LogRow("frame", "File ", r"^\s{0,8}File (?P<path>\S{1,300}\.py):(?P<at__int>\d{1,7}), in (?:\w{1,80}\.){0,3}(?P<function>[\w<>]{1,120})\("),  # a notebook's
    LogRow("frame", ", in ", r"^\s{0,8}line (?P<at__int>\d{1,7}), in (?P<function>[\w<>.]{1,120})\s*$"),  # cut behind its file
    LogRow("exception", "Error", r"\b(?P<type>[A-Z]\w{0,60}Error)(?:: (?P<message>.{0,4000}))?$"),
    LogRow("exception", "Exception", r"\b(?P<type>[A-Z]?\w{0,60}Exception)(?:: (?P<message>.{0,4000}))?$"),
    # a notebook's head: the class, then the word, which may be cut
    LogRow("exception", "Error    ", r"^\s{0,4}(?P<type>[A-Z]\w{0,60}Error) {4,40}Tra"),
    LogRow("exception", "Exception    ", r"^\s{0,4}(?P<type>[A-Z]\w{0,60}Exception) {4,40}Tra"),
    # whose log it is, where no line of an engine says so: an image, a program, a path
    # (?a): the letters of another script may follow a name without a space
    LogRow("engine_named", "vllm", r"(?a)(?<!\bno )(?<!\bnot )(?<!without )(?<!\bohne )(?<!kein )(?<![\w.-])(?P<engine>vllm)(?![A-Za-z_]|\.\w)"),
    LogRow("engine_named", "vllm.", r"(?a)\b(?P<engine>vllm)\.(?:v1|engine|worker|entrypoints|executor|model_executor|utils)\b"),
    LogRow("engine_named", "vLLM", r"(?a)(?<!\b[Nn]o )(?<!\b[Nn]ot )(?<![Ww]ithout )(?<!\b[Oo]hne )(?<![Kk]ein )(?<!不是 )(?<!没用 )(?<!不用 )\b(?P<engine>vLLM)\b"),
    LogRow("engine_named", "sglang", r"(?a)\b(?P<engine>sglang)\b"),
    *(LogRow("engine_named", name, rf"(?a)\b(?P<engine>{name})\b") for name in ("SGLang", "SGlang", "Sglang", "SGLANG", "VLLM", "Vllm", "OLLAMA")),
    LogRow("engine_named", "trtllm-", r"(?a)\b(?P<engine>trtllm-serve)\b"),
    LogRow("engine_named", "trtllm", r"(?a)(?<![\w.-])(?P<engine>trtllm)(?![\w.-])"),
    LogRow("engine_named", "tensorrt", r"(?a)\b(?P<engine>tensorrt-llm)\b"),
    LogRow("engine_named", "T-LLM", r"(?a)\b(?P<engine>TensorRT-LLM|TRT-LLM)\b"),
    LogRow("engine_named", "TensorRT LLM", r"(?a)\b(?P<engine>TensorRT LLM)\b"),
    LogRow("engine_named", "tensorrtllm", r"(?a)\b(?P<engine>tensorrtllm)\b"),
    LogRow("engine_named", "Ollama", r"(?a)\b(?P<engine>Ollama)\b"),
    LogRow("engine_named", "ollama", r"(?a)\b(?P<engine>ollama)\b"),
    LogRow("engine_named", "llama-", r"(?a)\b(?P<engine>llama-(?:server|cli|bench))\b"),
    # a setting that one engine alone has
    *(LogRow("engine_named", setting, rf"(?a)\b(?P<engine>{re.escape(setting)})\b") for setting in SETTINGS),
    LogRow("engine_named", "llama.cpp", r"(?a)\b(?P<engine>llama\.cpp)\b"),
    # programs around llama.cpp
    LogRow("engine_named", "obold", r"(?a)\b(?P<engine>[Kk]obold[Cc]pp)\b"),
    LogRow("engine_named", "llama-cpp-python", r"(?a)\b(?P<engine>llama-cpp-python)\b"),
    LogRow("engine_named", "llama-cpp", r"(?a)\b(?P<engine>llama-cpp)\b(?!-python)"),
    LogRow("engine_named", "llama_cpp", r"(?a)\b(?P<engine>llama_cpp)\b"),
    *(LogRow("engine_named", name, rf"(?a)\b(?P<engine>{name})\b") for name in ("llamafile", "ramalama", "RamaLama", "LM Studio", "LMStudio", "llama-swap")),
    # a bar that was being drawn: what its words say is what was going on
    LogRow("bar", "%|", r"(?<![\w.])(?P<what>[A-Za-z][^|%\[\]]{2,48}?):? {0,6}\d{1,3}%\|"),
    LogRow("bar", "it/s", r"^\s{0,8}(?P<what>)\d{1,3}%\|[^|]{0,300}\| ?\d{1,9}/\d{1,9} \["),  # somebody's own loop has no name
    LogRow("chained", "exception", r"^(?:The above exception was the direct cause|During handling of the above exception)"),
    LogRow("command", "vllm", r"(?P<command>vllm (?:serve|run) .*|python3? -m vllm\.entrypoints\.\S+ .*)"),
    LogRow("command", "serve", r"(?P<command>[\"']vllm[\"'], ?[\"']serve[\"'],.*)"),  # a manifest's list
    LogRow("docker_run", "--", r"^\s{0,40}(?:command|args): ?\[ ?[\"']--[a-z]"),  # the same, behind the image's entry point
    LogRow("docker_run", " run ", r"\b(?:docker|podman|nerdctl) run "),
    LogRow("command", "llama-server", r"(?P<command>\S{0,200}llama-server .*)"),
    LogRow("command", "ollama run", r"(?P<command>(?:OLLAMA_\w{1,40}=\S{1,80} ){0,12}ollama run \S.{0,400})"),
    LogRow("command", "trtllm-serve", r"(?P<command>trtllm-serve .*)"),
    LogRow("command", "sglang", r"(?P<command>(?:python3? -m sglang\.launch_server|sglang serve) .*)"),
    LogRow("host_kill", "process", r"[Oo]ut of memory: Kill(?:ed)? process (?:(?P<pid__int>\d+) )?\((?P<name>[^)]{1,64})\)",
           more=(r"anon-rss:(?P<anon__KB>\d+)kB", r"shmem-rss:(?P<shmem__KB>\d+)kB"), ends="host_ram", shortage=True),
    LogRow("host_kill", "invoked oom-killer", r"(?P<name>\S{1,64}) invoked oom-killer"),
    LogRow("host_kill", "Tasks state (memory", r"Tasks state \(memory values in pages\)"),  # dump_tasks of mm/oom_kill.c
    LogRow("host_kill", "oom-kill", r"oom-kill:constraint=(?P<constraint>\w+)"),
    LogRow("host_kill", "OOM killer", r"killed by the OOM killer"),  # systemd
    LogRow("host_kill", "oom-kill", r"Failed with result 'oom-kill'"),
    *(LogRow("host_kill", name, rf"(?i:(?<!avoid )(?<!prevent )(?<!if )(?<!avoid the )(?<!prevent the )\b(?P<told>kernel(?:'s)?|linux|global|host|system)(?: \w{{1,12}})?) {name}(?i:[- ]killer)") for name in ("OOM", "oom")),  # told
    LogRow("host_kill", "oom_reaper", r"oom_reaper: reaped process (?P<pid__int>\d+)"),
    LogRow("container_kill", "OOMKilled", r"OOMKilled(?!\W{1,3}false)", ends="host_ram", shortage=True),
    LogRow("container_kill", "137", r"(?i:exit(?:ed)?(?: with)?(?: code| status)?|returncode|code)\W{0,3}137\b"),
    LogRow("sigkill", "-9", r"(?:[Ee]xit ?code|exitcode|returncode)\W{0,3}-9\b", ends="host_ram"),
    LogRow("sigkill", "signal 9", r"signal 9\b"),
    LogRow("sigkill", "SIGKILL", r"SIGKILL"),
    # Ray lists what may have been the cause, the kernel's OOM killer first
    LogRow("sigkill", "worker died or was killed", r"worker died or was killed while executing a task by an unexpected system error"),
    LogRow("bus_error", "SIGBUS", r"SIGBUS received|signal 7\b.{0,20}SIGBUS", ends="other"),
    LogRow("sigkill", "signal: killed", r"signal: killed"),
    LogRow("sigkill", "Killed", r"^[.\s]{0,200}Killed\s{0,4}$"),  # the shell's word, behind the dots of a load
    LogRow("sigkill", " killed ", r"^\[\d{1,4}\]\s{1,4}[+-]?\s{0,4}\d{1,8}\s{1,4}killed\s"),  # zsh's
    LogRow("sigkill", "killed", r"zsh: killed\b"),
    LogRow("sigkill", "Killed", r"(?:\bline \d{1,6}:|^\[\d{1,4}\][+-]?)\s{1,8}(?:\d{1,8} )?Killed\b"),  # of a script, of a job
    LogRow("sigkill", "it was killed", r"the engine's process ended [a-z ]{1,60} without an error of its own"),  # oomph-vllm's
    LogRow("sigkill", "-9", r"died(?:, exit code:)? \(?-9\b"),
    LogRow("ray_kill", "Ray killed", r"Ray killed (?:a |the |\d+ )?worker\w{0,4}.{0,80}memory", ends="host_ram", shortage=True),
    LogRow("ray_kill", "memory exhaustion", r"(?:node|host|system|CPU) (?:CPU )?memory exhaustion"),
    LogRow("ray_kill", "running low on memory", r"killed due to the node running low on memory",
           more=(r"was (?P<used__GB>[\d.]+)GB / (?P<total__GB>[\d.]+)GB",)),
    LogRow("util_given", "memory_utilization", _UTIL),
    LogRow("util_given", "memory-utilization", _UTIL),
    LogRow("eager_given", "eager", r"enforce[_-]eager(?!['\"]?[=: ]{1,3}False)"),
    LogRow("oom_mentioned", "OutOfMemoryError", r"OutOfMemoryError", shortage=True),
    LogRow("ray_kill", "due to memory pressure", r"killed due to memory pressure \(OOM\)"),  # raylet node_manager.cc
    LogRow("ray_kill", "ray-oom-prevention", r"address the out of memory issue: \S{0,80}ray-oom-prevention"),  # its report, cut
    LogRow("mmap_failed", "unable to mmap", r"unable to mmap (?P<size__int>\d+) bytes from file", ends="host_ram", shortage=True),  # torch/serialization
    # the driver's resource manager: memory of the host, and on unified memory of both
    LogRow("driver_oom", "NV_ERR_NO_MEMORY", r"NVRM: .{0,200}NV_ERR_NO_MEMORY", ends="host_ram", shortage=True),
    LogRow("shm_full", "/dev/shm", r"(?:Error while creating shared memory segment|No space left on device.{0,80}) ?/dev/shm", ends="other", shortage=True),
    LogRow("shm_full", "/dev/shm",
           r"Insufficient space in /dev/shm for .{1,80}?: (?P<required__int>\d+) MiB required, (?P<free__int>\d+) MiB free"),
    LogRow("shm_small", "/dev/shm", r"/dev/shm has only (?P<free__B>\d{1,15}) bytes available"),  # raylet
    LogRow("shm_full", "o space left on device", r"^(?=.{0,600}(?:/dev/shm|\bshm\b)).{0,600}[Nn]o space left on device", ends="other", shortage=True),
    LogRow("bus_error", "Bus error", r"Bus error"),
    LogRow("rss", "RSS", r"\bRSS\b\D{0,20}(?P<rss__size>[\d.]{1,12} ?[KMGT]i?B)"),
    LogRow("cgroup", "memory.current", r"memory\.current\D{0,4}(?P<current__int>\d+)"),
    LogRow("orphan", "VLLM::", r"(?P<pid__int>\d{1,8})\s.{0,80}VLLM::(?P<name>\w+)"),
    LogRow("mig", "MIG", r"MIG-[0-9a-f-]{6,}|MIG (?P<profile>\d+g\.\d+gb)"),
    LogRow("triton_oom", "Triton Error", r"Triton Error \[CUDA\]: out of memory", ends="here", shortage=True),
    LogRow("fp8e4nv", "fp8e4nv", r"type fp8e4nv not supported in this architecture", ends="profile_run"),
    LogRow("cuda_error_oom", "CUDA error", r"CUDA error: out of memory"),
    # c10/cuda/CUDACachingAllocator.cpp: it asks NVML who holds the card while it words an OOM, and NVML does not answer
    LogRow("memory_short", "NVML_SUCCESS", r"NVML_SUCCESS == r INTERNAL ASSERT FAILED"),
    LogRow("cuda_error_oom", "driver error", r"(?:CUDA|HIP|MUSA) driver error: out of memory"),
    LogRow("cuda_error_oom", "CUDA error 2", r"CUDA error 2 at .{0,200}out of memory"),
    LogRow("cuda_error_oom", "CUDA_ERROR_OUT_OF_MEMORY", r"CUDA_ERROR_OUT_OF_MEMORY(?! \(may not be an issue)"),
    LogRow("cuda_error_oom", "NPU out of memory", r"NPU out of memory\.(?! Tried)"),  # torch_npu's message, cut
    LogRow("cuda_error_oom", "HSA_STATUS_ERROR_OUT_OF", r"HSA_STATUS_ERROR_OUT_OF_RESOURCES"),
    LogRow("cuda_error_oom", "HIP error", r"HIP error: out of memory"),
    LogRow("cuda_error_oom", "cudaErrorMemoryAllocation", r"cudaErrorMemoryAllocation"),
    LogRow("nccl_oom", "Cuda failure", r"Cuda failure (?:\d+ )?'out of memory'", ends="here", shortage=True),
    LogRow("workspace_small", "AlignedAllocator", r"[Ff]ailed to allocate memory for (?P<what>\w{1,60}) with size (?P<tried__int>\d{1,15})", ends="here", shortage=True),  # FlashInfer
    LogRow("workspace_small", "Buffer overflow when allocating", r"Buffer overflow when allocating memory for (?P<what>\w{1,60}) with size (?P<tried__int>\d{1,15})"),
    LogRow("cuda_busy", "busy or unavailable", r"CUDA-capable device\(s\) is/are busy or unavailable", ends="startup_free_memory", shortage=True),
)  # fmt: skip

# PyTorch's allocator (c10/cuda/CUDACachingAllocator.cpp), torch >= 2.1; ROCm says HIP. Each part may be cut off.
TORCH_OOM = LogRow(
    "torch_oom",
    "Tried to allocate",
    r"Tried to allocate (?P<tried__size>[\d.]+ (?:[KMGT]iB|bytes))",
    more=(
        r"[GN]PU (?P<gpu__int>\d+)",
        r"total capaci?ty of (?P<total__size>[\d.]+ [KMGT]iB)",
        r"of which (?P<free__size>[\d.]+ (?:[KMGT]iB|bytes)) is free",
        r"this process has (?P<in_use__size>[\d.]+ (?:[KMGT]iB|bytes)) memory in use",
        r"Of the allocated memory (?P<allocated__size>[\d.]+ (?:[KMGT]iB|bytes)) is allocated by PyTorch",
        r"with (?P<pools__size>[\d.]+ (?:[KMGT]iB|bytes)) allocated in private pools",
        r"and (?P<reserved__size>[\d.]+ (?:[KMGT]iB|bytes)) is reserved by PyTorch but unallocated",
        # torch < 2.1: "(GPU 0; 23.65 GiB total capacity; 22.1 GiB already allocated; 1.2 GiB free; 22.3 GiB reserved ..."
        r"(?P<total__size>[\d.]+ [KMGT]iB) total capacity; (?P<allocated__size>[\d.]+ [KMGT]iB) already allocated; "
        r"(?:[\d.]+ [KMGT]iB current active; )?(?P<free__size>[\d.]+ (?:[KMGT]iB|bytes)) free"  # torch_npu counts active
        r"(?:; (?P<held__size>[\d.]+ [KMGT]iB) reserved in total)?",
    ),
    ends="here",
    shortage=True,
)
# torch >= 2.13 (c10/core): "memory allocation failed with OOM on device 5 while trying to allocate N bytes (free: N, total: N)"
TORCH_OOM_NEW = LogRow(
    "torch_oom",
    "while trying to allocate",
    r"OOM on device (?P<gpu__int>\d+) while trying to allocate (?P<tried__size>[\d.]+ ?(?:[KMGT]iB|bytes))",
    more=tuple(
        rf"{word}:? ?(?P<{name}__{unit}>[\d.]+{tail})"
        for name, word in (("free", "free"), ("total", "total"), ("allocated", "allocated"), ("reserved", "reserved"))
        for unit, tail in (("size", " ?(?:[KMGT]iB|bytes)"), ("B", "(?![\\d.]| ?[KMGTb])"))
    ),
)
# torch_npu's second allocator: "NPUWorkspaceAllocator tried to allocate 187.54 MiB(NPU 0; 60.96 GiB total capacity; 61.91 MiB free)"
NPU_WORKSPACE_OOM = LogRow(
    "torch_oom",
    "llocator tried to allocate",
    r"llocator tried to allocate (?P<tried__size>[\d.]+ ?[KMGT]iB)",
    more=(
        r"(?P<total__size>[\d.]+ [KMGT]iB) total capacity",
        r"capacity; (?P<free__size>[\d.]+ (?:[KMGT]iB|bytes)) free",
    ),
)
TORCH_PROCESS = r"Process (\d+) has ([\d.]+ (?:[KMGT]iB|bytes)) memory in use"
