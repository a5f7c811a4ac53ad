"""compare(): the same job on vLLM, llama.cpp and Ollama, side by side, each planned at its best.

vLLM gets the most exact checkpoint of the model that starts, llama.cpp and Ollama the most exact GGUF that stays on the
GPUs, or the usual 4-bit one with layers on the CPU where none does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from oomph.errors import CannotPlan, CommandError, OomphError
from oomph.ir.hardware import Device
from oomph.ir.plan import Plan
from oomph.plan import load, plan, run, with_gpus

ENGINES = ("vllm", "llamacpp", "ollama")
QUANTS = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M")
USUAL = "Q4_K_M"
SLOTS = (32, 16, 8, 4, 2, 1)


class Row(Struct, frozen=True):
    engine: str
    version: str
    checkpoint: str
    fits: bool  # it starts
    on_gpu: bool  # and nothing of it is on the CPU
    context: int
    users: float  # requests of that context at once
    weights_bytes: int  # on all GPUs
    host_bytes: int  # weights in host memory
    bits: float  # a weight, on average
    short_bytes: int
    why: str
    command: str


class Comparison(Struct, frozen=True):
    model: str
    gpus: tuple[str, ...]
    context: int
    rows: tuple[Row, ...]
    advice: str


def compare(model: str, *, gpu: object = None, context: int = 0, engines: Sequence[str] = ENGINES) -> Comparison:
    base = load(model)
    gpus = _gpus(model, gpu)
    length = min(context or 8192, base.max_position or context or 8192)
    if context < 0:
        raise CommandError(f"--context {context}: it is a number of tokens")
    parameters = _parameters(base.name)
    rows = []
    for engine in engines:
        best = {"vllm": _vllm, "llamacpp": _llamacpp, "ollama": _ollama}.get(engine)
        if best is None:
            raise CommandError(f"{engine[:40]!r} is not one of {', '.join(ENGINES)}")
        rows.append(best(base.name, gpus, length, parameters))
    return Comparison(base.name, tuple(g.name for g in gpus), length, tuple(rows), _advice(rows, length))


def _gpus(model: str, gpu: object) -> tuple[Device, ...]:
    from oomph.ir.deployment import Deployment, Engine

    return with_gpus(Deployment(Engine("llamacpp", ""), model, {}, ()), gpu).gpus


def _parameters(name: str) -> int:
    """Of the language model as BF16 would hold it: half its bytes."""
    from oomph.engines.llamacpp.source import gguf_for

    try:
        return gguf_for(f"{name}:BF16")[0].nbytes // 2
    except OomphError:
        return 0


def _vllm(name: str, gpus: tuple[Device, ...], context: int, parameters: int) -> Row:
    from oomph import catalog

    tried: list[tuple[Plan, list[str]]] = []
    for checkpoint in dict.fromkeys((name, *catalog.variants(name))):
        for words in _vllm_commands(checkpoint, len(gpus), context):
            try:
                made = plan(words, gpu=_json(gpus))
            except OomphError:
                continue
            if made.verdict.stage == "other":
                continue
            tried.append((made, words))
    if not tried:
        return Row("vllm", "", name, False, False, context, 0, 0, 0, 0, 0, "no checkpoint of it can be planned", "")
    fitting = [t for t in tried if t[0].fits]
    if fitting:
        made, words = max(fitting, key=lambda t: (_weights(t[0]), t[0].kv.max_concurrency if t[0].kv else 0))
    else:
        made, words = min(tried, key=lambda t: t[0].verdict.short_bytes)
    users = made.kv.max_concurrency if made.fits and made.kv else 0.0
    why = "" if made.fits else f"out of memory at {(made.verdict.stage or '').replace('_', ' ')}"
    return _row(made, words, context, users, 0, parameters, why)


def _vllm_commands(checkpoint: str, gpus: int, context: int) -> Iterator[list[str]]:
    base = ["vllm", "serve", checkpoint, "--max-model-len", str(context)]
    yield [*base, "--tensor-parallel-size", str(gpus)] if gpus > 1 else base


def _llamacpp(name: str, gpus: tuple[Device, ...], context: int, parameters: int) -> Row:
    def words(quant: str, slots: int) -> list[str]:
        file = f"{name.rpartition('/')[2]}-{quant}.gguf"
        return ["llama-server", "-m", file, "-c", str(context * slots), "-np", str(slots)]

    return _gguf("llamacpp", words, gpus, context, parameters, QUANTS)


def _ollama(name: str, gpus: tuple[Device, ...], context: int, parameters: int) -> Row:
    def words(quant: str, slots: int) -> list[str]:
        return [
            f"OLLAMA_NUM_PARALLEL={slots}",
            f"OLLAMA_CONTEXT_LENGTH={context}",
            "ollama",
            "run",
            f"hf.co/{name}:{quant}",
        ]

    return _gguf("ollama", words, gpus, context, parameters, (USUAL,))


def _gguf(
    engine: str, words: Any, gpus: tuple[Device, ...], context: int, parameters: int, quants: Sequence[str]
) -> Row:
    failed = ""
    for quant in quants:
        try:
            made = plan(words(quant, 1), gpu=_json(gpus))
        except OomphError as refused:
            failed = refused.message
            continue
        if made.fits and _on_gpu(made):
            users = next((n for n in SLOTS[:-1] if _holds(words(quant, n), gpus)), 1)
            return _row(made, words(quant, users), context, float(users), 0, parameters, "")
    if failed:
        return Row(engine, "", "", False, False, context, 0, 0, 0, 0, 0, failed, "")
    made = plan(words(USUAL, 1), gpu=_json(gpus))
    host = made.resolved["host"]["weights"]
    layers = made.resolved["layers"] - made.resolved["offloaded"]
    why = f"{layers} of {made.resolved['layers']} layers on the CPU" if layers else "experts on the CPU"
    return _row(made, words(USUAL, 1), context, 1.0 if made.fits else 0.0, host, parameters, why)


def _holds(words: list[str], gpus: tuple[Device, ...]) -> bool:
    made = plan(words, gpu=_json(gpus))
    slots = made.resolved.get("num_parallel", made.resolved.get("n_seq_max"))
    asked = next((int(w.partition("=")[2]) for w in words if w.startswith("OLLAMA_NUM_PARALLEL=")), slots)
    return made.fits and _on_gpu(made) and slots == asked


def _on_gpu(made: Plan) -> bool:
    r = made.resolved
    return bool(r["layers"] == r["offloaded"] and not r["host"]["parts"].get("experts"))


def _row(made: Plan, words: list[str], context: int, users: float, host: int, parameters: int, why: str) -> Row:
    engine = made.deployment.engine
    weights = _weights(made)
    stored = weights
    if engine.name != "vllm":
        stored = weights + made.resolved["host"]["weights"] if host else weights
    return Row(
        engine.name, engine.version, made.model, made.fits, made.fits and not host, context, users, weights, host,
        8 * stored / parameters if parameters else 0.0, made.verdict.short_bytes, why, _command(words),
    )  # fmt: skip


def _command(words: list[str]) -> str:
    """Ollama's name for a GGUF depends on where it comes from: what is sure are the server's settings."""
    return " ".join([*words[:-2], "serve"] if "ollama" in words else words)


def _weights(made: Plan) -> int:
    return sum(r.terms["weights"].bytes for r in made.ranks)


def _json(gpus: tuple[Device, ...]) -> list[dict[str, Any]]:
    return [
        {"name": g.name, "count": 1, "total_bytes": g.total_bytes, "used_bytes": g.used_bytes,
         **({"compute_capability": f"{g.capability[0]}.{g.capability[1]}"} if g.capability[0] else {})}
        for g in gpus
    ]  # fmt: skip


def _advice(rows: Sequence[Row], context: int) -> str:
    by = {r.engine: r for r in rows}
    vllm, llama = by.get("vllm"), by.get("llamacpp")
    if vllm is not None and vllm.fits:
        if llama is not None and llama.on_gpu and vllm.users < 1:
            return f"vLLM starts, but cannot hold one request of {context:,} tokens: llama.cpp can"
        return f"vLLM serves it: {vllm.users:.1f} requests of {context:,} tokens at once, batched"
    if llama is not None and llama.on_gpu:
        return f"no known checkpoint of it starts on vLLM; llama.cpp holds it on the GPUs at {llama.bits:.1f} bits"
    if llama is not None and llama.fits:
        return "only with a part on the CPU: llama.cpp runs it, slowly; more or larger GPUs, or a smaller model"
    return "none of them: a smaller model, more or larger GPUs"


__all__ = ["CannotPlan", "Comparison", "Row", "compare", "run"]
