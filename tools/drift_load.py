"""List where our facts about loading disagree with unpacked releases.

    python tools/drift_load.py FOLDER VERSION [FOLDER VERSION ...]      # FOLDER holds vllm/

Each fact is a text that a release's source has exactly as long as our row holds.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from oomph.facts.vllm.load import load_rules, mla_workspace
from oomph.facts.vllm.lora import lora_rules
from oomph.facts.vllm.repack import REPACK, Repack
from oomph.facts.vllm.repack_moe import REPACK_EXPERTS, RepackExperts

_QUANT = "model_executor/layers/quantization"


class Fact(Struct, frozen=True):
    name: str
    where: str  # glob below vllm/
    text: str
    holds: Callable[[str], bool]


def _row(rows: tuple[Repack, ...] | tuple[RepackExperts, ...], method: str, steps: str, version: str) -> bool:
    return any(r.method == method and r.steps.__name__ == steps and r.holds(version) for r in rows)


FACTS: tuple[Fact, ...] = (
    Fact(
        "blocks of 20 MiB and more are not split",
        "v1/worker/gpu_worker.py",
        "max_split_size_mb=20",
        lambda v: load_rules(v).max_split > 0,
    ),
    Fact(
        "online FP8 from the meta device",
        f"{_QUANT}/**/fp8.py",
        'device="meta"',
        lambda v: load_rules(v).online_fp8 == "meta",
    ),
    Fact(
        "online FP8 while loading",
        f"{_QUANT}/**/fp8.py",
        "_already_called_process_weights_after_loading",
        lambda v: load_rules(v).online_fp8 != "after",
    ),
    Fact(
        "FlashInfer MLA's workspace at import",
        "v1/attention/backends/mla/flashinfer_mla.py",
        "g_fi_workspace = ",
        lambda v: mla_workspace(v, 90) > 0 or v == "0.11.0",
    ),
    Fact(
        "AWQ by way of the standard format",
        f"{_QUANT}/*awq*.py",
        "def _convert_awq_to_standard_format",
        lambda v: _row(REPACK, "awq", "_awq_via_standard", v),
    ),
    Fact(
        "MXFP4 values padded to 64",
        "third_party/**/hopper_value.py",
        "SWIZZLE_ALIGN_M = 64",
        lambda v: _row(REPACK_EXPERTS, "mxfp4", "_mxfp4_padded", v),
    ),
    Fact(
        "MXFP4 drops the scales it copied",
        "model_executor/layers/fused_moe/oracle/mxfp4.py",
        "del layer.w13_weight_scale",
        lambda v: _row(REPACK_EXPERTS, "mxfp4", "_mxfp4", v),
    ),
    Fact(
        "unquantised experts swapped for FlashInfer by default",
        "model_executor/layers/fused_moe/oracle/unquantized.py",
        "def _get_priority_backends",
        lambda v: _row(REPACK_EXPERTS, "", "_plain", v),
    ),
    Fact(
        "LoRA's extra vocabulary",
        "lora/layers/*.py",
        "lora_extra_vocab_size",
        lambda v: lora_rules(v).extra_vocabulary > 0,
    ),
)


def has(folder: Path, fact: Fact) -> bool:
    return any(fact.text in path.read_text() for path in (folder / "vllm").glob(fact.where))


def lora_vocabularies(folder: Path) -> dict[str, bool]:
    """Model classes that say `embedding_modules`, and whether they name any."""
    found: dict[str, bool] = {}
    for path in (folder / "vllm/model_executor/models").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                for value in _embedding_modules(node):
                    found[node.name] = bool(value.keys)
    return found


def _embedding_modules(node: ast.ClassDef) -> Iterator[ast.Dict]:
    for item in node.body:
        target = item.targets[0] if isinstance(item, ast.Assign) else getattr(item, "target", None)
        value = getattr(item, "value", None)
        if isinstance(target, ast.Name) and target.id == "embedding_modules" and isinstance(value, ast.Dict):
            yield value


def main() -> int:
    wrong = 0
    for folder, version in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        for fact in FACTS:
            there, ours = has(Path(folder), fact), fact.holds(version)
            if there != ours:
                wrong += 1
                print(f"{version}: {fact.name}: we say {ours}, {fact.where} says {there}")
        known = lora_rules(version).vocabulary
        for name, named in lora_vocabularies(Path(folder)).items():
            if name.endswith("ForCausalLM") and "Eagle" not in name and named != (name in known):
                wrong += 1
                print(f"{version}: LoRA slots of {name}'s vocabulary: we say {name in known}")
    print(f"{wrong} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
