"""build_facts.py HUB_LIST.json: write src/oomph/catalog/facts.json.

HUB_LIST.json is a list of the hub's metadata, one object per repository: name, release_date, license, parameters_raw,
gguf_sources. The shapes, bytes and parameters come from the catalogue; the order of quality from the published tables
of facts/quality.py, linked here on the models that two tables share.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Container, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from oomph import catalog
from oomph.catalog.facts import FILE, TAGS, CheckpointFacts, Facts, ModelFacts
from oomph.catalog.names import is_copy
from oomph.engines.llamacpp.source import gguf_for
from oomph.errors import OomphError
from oomph.facts.quality import AA_JUNE, AA_SEPTEMBER, LIVEBENCH
from oomph.ir.model import Experts, Linear, Model
from oomph.search.score import precision, token_bytes
from oomph.sources.load import load_once

# Organisations that publish other makers' models, mostly quantised.
COPIES = frozenset(
    ("redhatai", "neuralmagic", "nvidia", "hugging-quants", "cyankiwi", "casperhansen", "thebloke", "unsloth",
     "libertaidai", "sgl-project", "lmstudio-community", "kosbu", "gaunernst", "cpatonn", "stelterlab", "intel",
     "quanttrio", "amd", "ibnzterrell", "solidrust", "bartowski", "iscdatalabs", "orina", "leon-se", "shuyuej",
     "techxgenus", "modelcloud", "jart25", "pytorch", "ruikangliu", "study-hjt", "isotr0py", "btbtyler09", "warshanks")
)  # fmt: skip
CODE = re.compile(r"code|devstral|starcoder|granite-code|-swe")
# Models that think before they answer, by their makers' own words in name or card.
THINKS = re.compile(
    r"thinking|reason|magistral|qwq|deepseek-r1|-r1|gpt-oss|qwen3-(?!.*(instruct|coder|embedding|reranker|vl))|qwen3\.[5-9]|"
    r"glm-4\.[5-9]|glm-5|deepseek-v3\.[1-9]|deepseek-v4|kimi-k2\.[5-9]|kimi-k3|minimax-m[123]|nemotron-3|phi-4-reasoning|"
    r"phi-4-mini-reasoning|mimo|smollm3|step-3|ernie.*thinking|seed-oss|exaone-deep|openthinker|gemma-4|k2-think|olmo-3.*think"
)
BASE = re.compile(r"-base$|-pt$|-v0\.1$|-base-|_base$")
TUNED = re.compile(r"instruct|-it$|-it-|chat|thinking|-sft|zephyr|hermes|-r1|reason|qat|assistant")
DAYS_A_YEAR = 365.25


def main() -> None:
    listed = {row["name"].lower(): row for row in json.loads(Path(sys.argv[1]).read_text())}
    sources = Sources()
    families: dict[str, list[str]] = {}
    for row in catalog._rows()[1].values():
        families.setdefault(row.family, []).append(row.id)
    makers = {i.partition("/")[0] for i in catalog.ids() if has_own_shape(i) and not is_copy(i)}
    models: list[ModelFacts] = []
    checkpoints: list[CheckpointFacts] = []
    for family, ids in families.items():
        loaded = {i: load_once(i) for i in ids}
        plain = plain_of(loaded, family)
        if is_anothers_tune(plain, makers):
            continue
        hub = listed.get(plain.lower(), {})
        for i in ids:
            own = i.partition("/")[0].lower() not in COPIES
            native = i == plain or (own and loaded[i].quantization is None)
            label = "BF16" if precision(loaded[i]) in ("BF16", "F16", "F32") else precision(loaded[i])
            checkpoints.append(
                CheckpointFacts(
                    i, len(models), least(loaded[i]), label, native, sources.number(origin(i, loaded, listed))
                )
            )
        models.append(one_model(family, plain, loaded[plain], hub, families))
    models = with_quality(models, sources)
    facts = Facts(tuple(sources.texts), tuple(models), tuple(checkpoints))
    Path(FILE).write_bytes(encode(facts))
    print(f"{len(models)} models, {len(checkpoints)} checkpoints, {Path(FILE).stat().st_size:,} bytes")


def encode(facts: Facts) -> bytes:
    """One line for each entry, so that a change can be read in a diff."""
    parts = []
    for name in ("sources", "models", "checkpoints"):
        lines = b",\n".join(msgspec.json.encode(x) for x in getattr(facts, name))
        parts.append(b'"%s":[\n%s\n]' % (name.encode(), lines))
    return b"{" + b",\n".join(parts) + b"}\n"


ESTIMATED = "no published figure: estimated from size and date"
NO_FIGURE = "no published figure is held for embedding models: the larger one first"


class Sources:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def number(self, text: str) -> int:
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text)


def plain_of(loaded: dict[str, Model], family: str) -> str:
    """The maker's own checkpoint, unquantised where there is one."""

    def order(i: str) -> tuple[object, ...]:
        maker = i.partition("/")[0].lower()
        own = maker not in COPIES or (maker == "nvidia" and "nemotron" in i.lower())
        return (not own, is_copy(i), loaded[i].quantization is not None, len(i), i)

    return min(loaded, key=order)


def origin(i: str, loaded: dict[str, Model], listed: dict[str, Any]) -> str:
    from oomph.catalog import read_source

    text = read_source(i)
    hub = listed.get(i.lower(), {}).get("parameters_raw")
    if hub and hub == loaded[i].elements:
        text += "; parameters equal the hub's count"
    return text


def one_model(family: str, plain: str, model: Model, hub: dict[str, Any], families: dict[str, list[str]]) -> ModelFacts:
    repo = next((s["repo"] for s in hub.get("gguf_sources") or () if gguf_name(s["repo"], plain)), "")
    total, active = counts(model)
    return ModelFacts(
        name=family, plain=plain, parameters=total, active=active, context=model.max_position,
        kv_bytes=token_bytes(model), uses=uses(family, model, families), date=hub.get("release_date") or "",
        licence=hub.get("license") or "",
        quality=(0.0, 0.0, 0.0), quality_from=0, gguf_repo=repo, gguf_bytes=gguf_bytes(plain, model) if repo else (),
    )  # fmt: skip


def gguf_name(repo: str, plain: str) -> bool:
    """Whether the repository is called as the checkpoint is: oomph then knows what its files are."""
    return repo.rpartition("/")[2].lower() == f"{plain.rpartition('/')[2].lower()}-gguf"


def least(model: Model) -> int:
    return sum(s.nbytes for s in model.stored if s.role not in ("multimodal", "other"))


def counts(model: Model) -> tuple[int, int]:
    """(parameters, those that one token uses), as they would be unquantised; towers aside."""
    from oomph.sources.stored import module_tensors

    total = idle = 0
    blocks = [model.root, *(layer.block for layer in model.layers)]
    for block in blocks:
        for module in block.modules:
            if isinstance(module, Experts):
                n = module.count * module.hidden * module.intermediate * (3 if module.gated else 2)
                idle += round(n * (1 - min(module.top_k, module.count) / module.count))
            elif isinstance(module, Linear):
                n = 0 if module.alias else module.in_features * sum(p.out_features for p in module.parts if p.created)
            else:
                n = sum(math.prod(shape) * times for _, shape, _, _, times in module_tensors(module))
            total += n
    return total, total - idle


def uses(family: str, model: Model, families: dict[str, list[str]]) -> str:
    low = family.lower()
    if model.pooling or re.search(r"embed|rerank|bge-|e5-|gte-|minilm|colbert", low):
        return "e"
    # a model beside its own -Base is not one itself, and phi-4 is not the base of phi-4-mini-instruct
    has_tuned = f"{low}-base" not in families and any(
        other != low and other.startswith(low) and TUNED.match(other[len(low) :].lstrip("-")) for other in families
    )
    if not TUNED.search(low) and (BASE.search(low) or has_tuned):
        return "b"
    out = "c"
    if CODE.search(low):
        out += "k"
    if THINKS.search(low):
        out += "r"
    if any(t.modality == "vision" for t in model.towers):
        out += "v"
    if any(t.modality == "audio" for t in model.towers):
        out += "a"
    if "whisper" in low or re.search(r"ocr|guard|-rm$|reward|math", low):
        return out.replace("c", "")
    return out


def gguf_bytes(plain: str, model: Model) -> tuple[int, ...]:
    """Of the weights that lie in GPU memory: the embedding stays on the host, a tied one is copied."""
    from oomph.answers.plan import parse
    from oomph.engines.llamacpp.source import plan_command
    from oomph.sources.gpu import parse_gpus

    if model.pooling or "whisper" in plain.lower():
        return ()
    try:
        out = []
        for tag in TAGS:
            converted, _ = gguf_for(f"{plain}:{tag}")
            if tag == TAGS[0]:
                deployment = msgspec.structs.replace(
                    parse(["llama-server", "-hf", f"{plain}:{tag}", "-c", "1024", "-np", "1", "-ngl", "99"], ""),
                    gpus=parse_gpus("8x B200"),
                )
                plan_command(deployment)
            out.append(sum(s.nbytes for s in converted.stored if s.role not in ("embed", "multimodal")))
        return tuple(out)
    except OomphError as error:
        print(f"{plain}: no GGUF: {error.message[:90]}")
        return ()


def with_quality(models: list[ModelFacts], sources: Sources) -> list[ModelFacts]:
    known = {m.plain.lower(): m for m in models}
    published: dict[str, tuple[float, float, float, str]] = {}
    shared = [(LIVEBENCH.figures[k], AA_JUNE.figures[k]) for k in AA_JUNE.figures if k in LIVEBENCH.figures]
    slope, shift = line(shared)
    spread = 1.64 * math.sqrt(sum((shift + slope * x - y) ** 2 for x, y in shared) / (len(shared) - 2))
    for key, value in LIVEBENCH.figures.items():
        linked = shift + slope * value
        published[key] = (linked, linked - spread, linked + spread, f"{LIVEBENCH.source}, linked to the index")
    bridge = published["Qwen/Qwen3.6-27B"][0] / AA_SEPTEMBER.figures["Qwen/Qwen3.6-27B"]
    for key, value in AA_SEPTEMBER.figures.items():
        if key not in published:
            # the later index is harder: neither a share nor a shift is known beyond the one model that both have
            linked = min(
                value * bridge, value + published["Qwen/Qwen3.6-27B"][0] - AA_SEPTEMBER.figures["Qwen/Qwen3.6-27B"]
            )
            wide = math.sqrt(2) * spread  # through one model, which LiveBench links
            text = f"{AA_SEPTEMBER.source}, linked to the reading of June"
            published[key] = (linked, linked - wide, linked + wide, text)
    for key, value in AA_JUNE.figures.items():
        published[key] = (value, value - 1.0, value + 1.0, AA_JUNE.source)
    figures = {k.lower(): v for k, v in published.items()}
    fit = regression([(known[k], v[0]) for k, v in figures.items() if k in known and known[k].date])
    print(f"linked {len(shared)} figures +-{spread:.1f}; by size and date +-{fit.spread:.1f} on {fit.count} models")
    out = []
    for m in models:
        if m.plain.lower() in figures:
            value, low, high, text = figures[m.plain.lower()]
        else:
            value = min(fit.value(m), most(m, [(known[k], v[0]) for k, v in figures.items() if k in known]))
            parent = tuned_from(m, known)
            if parent is not None:  # somebody else's: no better than what it was made from
                figure = figures.get(parent.plain.lower())
                value = min(value, figure[0] if figure else fit.value(parent))
            low, high, text = value - fit.spread, value + fit.spread, ESTIMATED
        if "e" in m.uses:  # no scale: the larger one
            value = low = high = math.log2(max(m.parameters, 1) / 1e6)
            text = NO_FIGURE
        quality = (round(value, 1), round(low, 1), round(high, 1))
        out.append(msgspec.structs.replace(m, quality=quality, quality_from=sources.number(text)))
    return out


def is_anothers_tune(plain: str, makers: Container[str]) -> bool:
    """Whether nothing is known of it but that it has the shape of another maker's model, and its owner makes no models:
    never recommended."""
    own = plain.partition("/")[0]
    return own not in makers and not any(plain in table.figures for table in (AA_JUNE, AA_SEPTEMBER, LIVEBENCH))


def has_own_shape(model_id: str) -> bool:
    match = re.match(r"shape of ([^;]+);", catalog.read_source(model_id))
    return match is None or match[1].partition("/")[0] == model_id.partition("/")[0]


def tuned_from(m: ModelFacts, known: dict[str, ModelFacts]) -> ModelFacts | None:
    """The model of another maker whose shape it has; None where it is its maker's own."""
    match = re.match(r"shape of ([^;]+);", catalog.read_source(m.plain))
    if match is None or match[1].partition("/")[0] == m.plain.partition("/")[0]:
        return None
    return known.get(match[1].lower())


def most(m: ModelFacts, published: Sequence[tuple[ModelFacts, float]]) -> float:
    """No estimate is above the best published model of at most twice its size; below the smallest of them, three
    points less for each halving (chosen)."""
    near = [value for other, value in published if other.parameters <= 2 * m.parameters]
    if near:
        return max(near)
    smallest, value = min(published, key=lambda pair: pair[0].parameters)
    return value - 3 * math.log2(smallest.parameters / (2 * max(m.parameters, 1)))


class Regression:
    def __init__(self, weights: list[float], spread: float, count: int) -> None:
        self.weights, self.spread, self.count = weights, spread, count

    def value(self, m: ModelFacts) -> float:
        return sum(w * x for w, x in zip(self.weights, features(m), strict=True))


def features(m: ModelFacts) -> list[float]:
    day = date.fromisoformat(m.date) if m.date else date(2024, 1, 1)
    years = (day - date(2024, 1, 1)).days / DAYS_A_YEAR
    size = math.log2(max(m.parameters, 1) / 1e9)
    return [1.0, size, math.log2(max(m.active, 1) / 1e9), years, float("r" in m.uses)]


def regression(rows: Sequence[tuple[ModelFacts, float]]) -> Regression:
    a = [features(m) for m, _ in rows]
    y = [v for _, v in rows]
    n = len(a[0])
    left = [[sum(r[i] * r[j] for r in a) + (1e-6 if i == j else 0) for j in range(n)] for i in range(n)]
    right = [sum(r[i] * v for r, v in zip(a, y, strict=True)) for i in range(n)]
    for i in range(n):  # Gauss
        for j in range(i + 1, n):
            f = left[j][i] / left[i][i]
            left[j] = [p - f * q for p, q in zip(left[j], left[i], strict=True)]
            right[j] -= f * right[i]
    weights = [0.0] * n
    for i in reversed(range(n)):
        weights[i] = (right[i] - sum(left[i][j] * weights[j] for j in range(i + 1, n))) / left[i][i]
    missed = [sum(w * x for w, x in zip(weights, r, strict=True)) - v for r, v in zip(a, y, strict=True)]
    print("weights", [round(w, 2) for w in weights])
    return Regression(weights, 1.64 * math.sqrt(sum(e * e for e in missed) / (len(rows) - n)), len(rows))


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    mx = sum(x for x, _ in points) / len(points)
    my = sum(y for _, y in points) / len(points)
    slope = sum((x - mx) * (y - my) for x, y in points) / sum((x - mx) ** 2 for x, _ in points)
    return slope, my - slope * mx


if __name__ == "__main__":
    main()
