"""The plugin's hooks against a release's source: a function that is hooked must be there exactly in the releases that
its row names, and the fields that are read there must still be spelt so."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "plugins" / "vllm" / "src"))
from oomph_vllm.hooks import HOOKS
from oomph_vllm.log_lines import OF_REQUESTS

from oomph.facts.vllm.versions import in_range, parse

OLDEST = "0.20.0"  # the plugin's own
# a file below vllm/ and what the plugin reads of the objects in it
FIELDS = {
    "v1/core/sched/scheduler.py": ("self.running", "self.waiting", "self.max_model_len", "self.block_size",
                                   "self.kv_cache_config", "self.kv_cache_manager"),
    "v1/request.py": ("num_tokens", "num_output_tokens", "max_tokens", "num_preemptions"),
    "v1/core/block_pool.py": ("def get_num_free_blocks",),
    "v1/core/sched/output.py": ("num_scheduled_tokens", "scheduled_encoder_inputs"),
    "v1/worker/gpu_worker.py": ("self.init_snapshot", "self.requested_memory", "self.available_kv_cache_memory_bytes",
                                "self.cudagraph_memory_estimate", "self.non_torch_memory",
                                "self.peak_activation_memory"),
    "v1/worker/gpu_model_runner.py": ("self.model_memory_usage",),
}  # fmt: skip
UNTIL = {"self.non_torch_memory": "0.27.0"}  # since then total_consumed is what profiling measures


def functions(file: Path) -> set[str]:
    """`function` and `Class.method` of a module."""
    if not file.exists():
        return set()
    names = set()
    for node in ast.parse(file.read_text(errors="replace")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            bodies = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            names |= {f"{node.name}.{each.name}" for each in bodies}
    return names


def disagreements(version: str, folder: Path) -> list[str]:
    if parse(version) < parse(OLDEST):
        return []
    out = []
    for hook in HOOKS:
        there = hook.name in functions(folder / (hook.module.replace(".", "/") + ".py"))
        if there != in_range(version, hook.since, hook.until):
            out.append(f"hook {hook.module}.{hook.name}: {'there' if there else 'not there'}")
    for name, fields in FIELDS.items():
        file = folder / "vllm" / name
        text = file.read_text(errors="replace") if file.exists() else ""
        for field in fields:
            if (field in text) != in_range(version, "", UNTIL.get(field, "")):
                out.append(f"field {field} of {name}: {'there' if field in text else 'not there'}")
    logger = "".join(file.read_text(errors="replace") for file in (folder / "vllm/entrypoints").rglob("*logger.py"))
    out += [f"the request logger's {text!r} is not there" for text in OF_REQUESTS if f'"{text}' not in logger]
    return out
