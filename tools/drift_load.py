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

from oomph.facts.vllm.facts import at

_QUANT = "model_executor/layers/quantization"


class Fact(Struct, frozen=True):
    name: str
    where: str  # glob below vllm/
    text: str
    holds: Callable[[str], bool]


def _experts(version: str, method: str) -> str:
    return at(version).repacking.experts[method, ""].__name__


FACTS: tuple[Fact, ...] = (
    Fact(
        "blocks of 20 MiB and more are not split",
        "v1/worker/gpu_worker.py",
        "max_split_size_mb=20",
        lambda v: at(v).loading.max_split > 0,
    ),
    Fact(
        "online FP8 from the meta device",
        f"{_QUANT}/**/fp8.py",
        'device="meta"',
        lambda v: at(v).loading.online_fp8 == "meta",
    ),
    Fact(
        "online FP8 while loading",
        f"{_QUANT}/**/fp8.py",
        "_already_called_process_weights_after_loading",
        lambda v: at(v).loading.online_fp8 != "after",
    ),
    Fact(
        "FlashInfer MLA's workspace at import",
        "v1/attention/backends/mla/flashinfer_mla.py",
        "g_fi_workspace = ",
        lambda v: at(v).loading.mla_workspace(90) > 0 or v == "0.11.0",
    ),
    Fact(
        "AWQ by way of the standard format",
        f"{_QUANT}/*awq*.py",
        "def _convert_awq_to_standard_format",
        lambda v: at(v).repacking.linear["awq", ""].__name__ == "_awq_via_standard",
    ),
    Fact(
        "MXFP4 values padded to 64",
        "third_party/**/hopper_value.py",
        "SWIZZLE_ALIGN_M = 64",
        lambda v: _experts(v, "mxfp4") == "_mxfp4_padded",
    ),
    Fact(
        "MXFP4 drops the scales it copied",
        "model_executor/layers/fused_moe/oracle/mxfp4.py",
        "del layer.w13_weight_scale",
        lambda v: _experts(v, "mxfp4") in ("_mxfp4", "_mxfp4_fours"),
    ),
    Fact(
        "unquantised experts swapped for FlashInfer by default",
        "model_executor/layers/fused_moe/oracle/unquantized.py",
        "def _get_priority_backends",
        lambda v: _experts(v, "") != "_untouched",
    ),
    Fact(
        "LoRA's extra vocabulary",
        "lora/layers/*.py",
        "lora_extra_vocab_size",
        lambda v: at(v).lora.extra_vocabulary > 0,
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
        known = at(version).lora.vocabulary
        for name, named in lora_vocabularies(Path(folder)).items():
            if name.endswith("ForCausalLM") and "Eagle" not in name and named != (name in known):
                wrong += 1
                print(f"{version}: LoRA slots of {name}'s vocabulary: we say {name in known}")
    print(f"{wrong} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
