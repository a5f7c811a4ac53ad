"""drift.py WHEELS_DIR [VERSION...]: our rows about vLLM's releases against their sources, unpacked.

WHEELS_DIR has a folder per release, named by its version, with vllm/ inside. Checked are the flags and configuration
keys (drift_flags.py), loading (drift_load.py), the plugin's hooks (drift_hooks.py), and here the defaults, the KV
cache's rules, which architectures a release knows, and the texts of logs and errors. Prints every row that disagrees;
exit status 1 if there is one.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parent))
import drift_flags
import drift_hooks
import drift_load
from vllm_source import config_keys, read

from oomph.facts.vllm import known, logs, structure
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.versions import in_range, parse

OLDEST = "0.11.0"  # what our rows reach back to


class Figure(Struct, frozen=True):
    """A figure that the source states: the first group of a pattern, or the number of times it occurs."""

    name: str
    where: str  # glob below vllm/
    pattern: str
    ours: Callable[[str], Any]

    def theirs(self, folder: Path) -> str:
        found = [m.group(1) for text in sources(folder, self.where) for m in re.finditer(self.pattern, text)]
        return " ".join(dict.fromkeys(found))


class Presence(Struct, frozen=True):
    """Words that the source has exactly while our row holds."""

    name: str
    where: str
    words: str
    ours: Callable[[str], bool]


def sources(folder: Path, where: str) -> Iterator[str]:
    return (path.read_text(errors="replace") for path in sorted((folder / "vllm").glob(where)))


def _tiers(version: str) -> str:
    return " ".join(str(t.min_gib) for t in at(version).limits.tiers if t.min_gib)


def _ratio(version: str) -> str:
    ratio = at(version).kv.group_ratio
    return f"{ratio:g}" if ratio else ""


FIGURES = (
    Figure("gpu_memory_utilization", "config/cache.py", r"gpu_memory_utilization: float = (?:Field\(default=)?([\d.]+)",
           lambda v: str(at(v).limits.utilization)),
    Figure("batch sizes by memory, GiB", "engine/arg_utils.py", r"(\d+) \* GiB_bytes", _tiers),
    Figure("layers of a group, ratio", "v1/core/kv_cache_utils.py", r"min_num_layers \* ([\d.]+)", _ratio),
)  # fmt: skip

_KV = "v1/core/kv_cache_utils.py"


def _habit(name: str) -> Callable[[str], bool]:
    return lambda v: any(h.name == name for h in at(v).structure.habits_of_all_gpus)


PRESENCES = (
    Presence("batched tokens raised for one item", "**/arg_utils.py", "_get_min_mm_batched_tokens",
             lambda v: at(v).limits.batch_holds_an_item),
    Presence("KV dtype of the checkpoint", "utils/torch_utils.py", "def resolve_kv_cache_dtype_string",
             lambda v: at(v).cache_dtypes.from_checkpoint),
    Presence("FP8 experts in refined blocks", "model_executor/layers/**/fp8.py", "def refine_fp8_moe_block_shape",
             lambda v: not at(v).support.fp8_experts_in_whole_blocks),
    Presence("auto-fit of max_model_len", _KV, "_auto_fit_max_model_len", lambda v: at(v).kv.auto_fit),
    Presence("tokens of every batch in flight", "config/*.py", "max_in_flight_tokens", lambda v: at(v).kv.in_flight),
    Presence("pages made equal", _KV, "def unify_kv_cache_spec_page_size", lambda v: at(v).kv.unify != "none"),
    Presence("groups projected on each worker", _KV, "def _project_kv_cache_groups_to_worker",
             lambda v: at(v).kv.project_uniform),
    Presence("graphs profiled", "v1/worker/gpu_worker.py", "profile_cudagraph_memory",
             lambda v: at(v).budget.graph_estimate != "none"),
    Presence("attention scales as buffers", "**/attention/**/*.py", 'register_buffer("_k_scale"',
             _habit("attention scales as buffers")),
    Presence("DeepSeek-V4 in whole blocks", "models/deepseek_v4/nvidia/model.py",
             "block_size is not None and not is_sequence_parallel",
             _habit("DeepSeek-V4 shared experts in whole blocks")),
    Presence("dynamic rotary tables", "model_executor/layers/rotary_embedding/dynamic_ntk_scaling_rope.py",
             "self.max_position_embeddings * self.scaling_factor\n",
             _habit("dynamic tables stretched by their factor")),
)  # fmt: skip


def strings(folder: Path) -> str:
    """Every text literal of the engine, f-strings with {} for what is put in."""
    out: list[str] = []
    for top in ("v1", "engine", "config", "worker", "platforms", "utils", "entrypoints", "executor", "compilation",
                "model_executor/layers"):  # fmt: skip
        for text in sources(folder, f"{top}/**/*.py" if "/" not in top else f"{top}/*.py"):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    out.append(node.value)
                elif isinstance(node, ast.JoinedStr):
                    out.append("".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values))
    return "\n".join(out)


def text_disagreements(version: str, folder: Path) -> list[str]:
    told = strings(folder)
    out = []
    for row in (r for name in ("START", "WEIGHTS", "PROFILE", "KV") for r in getattr(logs, name)):
        # other rows may read other wordings of the same line; a short needle is found in much else
        told_apart = sum(r.needle == row.needle for r in _rows()) == 1 and len(row.needle) > 10
        if (row.since or row.until) and told_apart and (row.needle in told) != in_range(version, row.since, row.until):
            out.append(f"log line {row.needle!r}: {'printed' if row.needle in told else 'not printed'}")
    texts, rules = at(version).texts, at(version).kv.text
    wanted = [texts.free_memory, texts.load_failed, texts.sampler, rules.none, rules.short]
    for text in filter(None, wanted):
        begin = re.split(r"[{(`\"]", text.split("https")[0])[0].strip()
        if begin and begin not in told:
            out.append(f"error text {begin[:60]!r}: not in the release")
    if not texts.load_failed and "Failed to load model - not enough GPU memory" in told:
        out.append("error text of a failed load: our rows have none")
    return out


@cache
def _rows() -> tuple[Any, ...]:
    return tuple(r for name in ("START", "WEIGHTS", "PROFILE", "KV") for r in getattr(logs, name))


def architecture_disagreements(version: str, folder: Path) -> list[str]:
    registry = (folder / "vllm/model_executor/models/registry.py").read_text()
    out = []
    for name in known.NOT_YET:
        there, absent = f'"{name}"' in registry, at(version).support.not_yet.get(name)
        # a class that was listed before it could be built keeps its own refusal
        if there == (absent is not None) and (absent is None or absent.type == "ValidationError"):
            out.append(f"architecture {name}: {'listed' if there else 'not listed'}")
    for name, since in structure.TRANSFORMERS_SINCE.items():
        if f'"{name}"' not in registry and not since:
            continue  # what the registry does not list is left to transformers
        there = re.search(rf'"{name}": \(\s*"transformers"', registry) is not None
        if there != in_range(version, since, ""):
            out.append(f"architecture {name}: {'by' if there else 'not by'} transformers' code")
    return out


def disagreements(version: str, folder: Path) -> list[str]:
    out = [f"flag {line}" for line in drift_flags.disagreements(version, read(folder))]
    out += [f"key {line}" for line in drift_flags.key_disagreements(version, config_keys(folder))]
    for fact in drift_load.FACTS:
        if drift_load.has(folder, fact) != fact.holds(version):
            out.append(f"loading: {fact.name}: {fact.where} says otherwise")
    for figure in FIGURES:
        if (theirs := figure.theirs(folder)) != figure.ours(version):
            out.append(f"{figure.name}: {theirs!r}, our rows say {figure.ours(version)!r}")
    for presence in PRESENCES:
        there = any(presence.words in text for text in sources(folder, presence.where))
        if there != bool(presence.ours(version)):
            out.append(f"{presence.name}: {'there' if there else 'not there'}, our rows say otherwise")
    out += drift_hooks.disagreements(version, folder)
    return out + text_disagreements(version, folder) + architecture_disagreements(version, folder)


def main(argv: list[str]) -> int:
    if not argv:
        print(__doc__)
        return 2
    named = [p for p in Path(argv[0]).iterdir() if (p / "vllm").is_dir() and p.name[0].isdigit()]
    folders = sorted((p for p in named if not argv[1:] or p.name in argv[1:]), key=lambda p: parse(p.name))
    wrong = 0
    for folder in folders:
        if parse(folder.name) < parse(OLDEST):
            continue
        found = disagreements(folder.name, folder)
        wrong += len(found)
        print(f"{folder.name}: {len(found)} rows disagree" if found else f"{folder.name}: as our rows say")
        print("".join(f"  {line}\n" for line in found), end="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
