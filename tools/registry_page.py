"""Writes docs/architectures.md: which of vLLM's registered architectures are planned, and why the others are not.

python tools/registry_page.py            # rewrite the page
"""

from pathlib import Path

from oomph.facts.sglang import registry as sglang
from oomph.facts.sglang.facts import at as sglang_at
from oomph.facts.vllm.architectures import (
    BY_TRANSFORMERS,
    DRAFTERS,
    MULTIMODAL,
    NOT_PLANNED,
    POOLING,
    TEXT,
    UNDER_ANOTHER_NAME,
    WITHIN,
    is_planned,
)
from oomph.facts.vllm.versions import REGISTRY_OF
from oomph.sources.arch import FAMILIES

PAGE = Path(__file__).parent.parent / "docs" / "architectures.md"
# classes that a name is turned into, not names that a checkpoint has
BACKEND = tuple(name for name in BY_TRANSFORMERS if name.startswith("Transformers"))
KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Text generation", TEXT),
    ("Images, video and sound", MULTIMODAL),
    ("Embeddings, rerankers, classifiers", POOLING),
    ("Served by transformers' own code", tuple(name for name in BY_TRANSFORMERS if name not in BACKEND)),
    ("Drafters", DRAFTERS),
)


def counts() -> tuple[tuple[int, int], tuple[int, int]]:
    """(planned, registered) of the architectures, and of the drafters."""
    pairs = [(sum(is_planned(name, FAMILIES) for name in names), len(names)) for _, names in KINDS]
    return (sum(p for p, _ in pairs[:-1]), sum(n for _, n in pairs[:-1])), pairs[-1]


def page() -> str:
    (planned, registered), (drafters, of) = counts()
    lines = [
        f"# Architectures of vLLM {REGISTRY_OF}",
        "",
        f"oomph plans {planned} of the {registered} architectures that vLLM {REGISTRY_OF} registers, "
        f"and {drafters} of its",
        f"{of} drafters.",
        "What is not planned is refused with a sentence; where the checkpoint's safetensors headers are at hand, its",
        "weights are still counted exactly. This page is written by `tools/registry_page.py`.",
        "",
    ]
    for kind, names in KINDS:
        known = sorted((name for name in names if is_planned(name, FAMILIES)), key=str.lower)
        missing = sorted((name for name in names if name not in known), key=str.lower)
        lines += [f"## {kind}: {len(known)} of {len(names)}", "", ", ".join(f"`{_shown(name)}`" for name in known), ""]
        if missing:
            lines += ["| not planned | why |", "|---|---|", *(f"| `{n}` | {NOT_PLANNED[n]} |" for n in missing), ""]
    return "\n".join([*lines, *_sglang()])


def _sglang() -> list[str]:
    """The classes that SGLang registers: how many are planned, and why the others are not."""
    classes = sorted(sglang_classes(), key=str.lower)
    missing = [name for name in classes if not sglang.is_planned(name, FAMILIES)]
    return [
        f"## SGLang {sglang.RELEASE}: {len(classes) - len(missing)} of {len(classes)} classes",
        "",
        "| not planned | why |",
        "|---|---|",
        *(f"| `{name}` | {sglang.NOT_PLANNED[name]} |" for name in missing),
        "",
    ]


def sglang_classes() -> frozenset[str]:
    """Every class that SGLang's newest release registers."""
    return sglang_at(sglang.RELEASE).models.classes | set(sglang.DRAFTERS)


def _shown(name: str) -> str:
    other = WITHIN.get(name) or UNDER_ANOTHER_NAME.get(name)
    return f"{name} (with {other})" if other else name


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
