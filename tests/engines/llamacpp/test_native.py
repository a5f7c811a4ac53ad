"""Against the real llama.cpp: weights, KV cache, state and output buffers to the printed 0.01 MiB."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import toys
from native import Native

from oomph.engines.llamacpp.cache import layer_caches, output_bytes, refusal
from oomph.engines.llamacpp.measure import HOST, measure, place, share_of, subject, targets_of, unit_devices
from oomph.engines.llamacpp.settings import Settings, resolve
from oomph.engines.llamacpp.tensors import tensors_of, units_of
from oomph.facts.llamacpp.backends import RPC
from oomph.ir.model import Model
from oomph.sources.gguf.header import read
from oomph.sources.gguf.model import gguf_model

MIB = 1 << 20
LINE = re.compile(r"(\S+)\s+(model|KV|RS|output|compute) buffer size =\s*([\d.]+) MiB")
CONFIGS = 240
TYPES = ("f16", "f16", "bf16", "q8_0", "q4_0", "q5_1", "iq4_nl", "f32")

TOYS: dict[str, dict[str, Any]] = {
    "dense": {},
    "qwen3": {"tied": True, "kv": 8, "weights": "Q4_0"},
    "moe": {"experts": 8, "used": 2, "expert_ff": 256, "layers": 4},
    "window": {"window": 512, "tied": True, "layers": 13},
    "mla": {"layers": 4},
    "mamba": {"layers": 6},
}


@pytest.fixture(scope="module")
def native() -> Iterator[Native]:
    pytest.importorskip("llama_cpp_py_sync", reason="llama-cpp-py-sync (a prebuilt llama.cpp) is not installed")
    try:
        made = Native()
    except OSError as refused:
        pytest.skip(f"the prebuilt llama.cpp cannot be loaded here: {refused}")
    yield made
    made.close()


@pytest.fixture(scope="module")
def shape_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A file of a real model's shape, written once: vocabularies of 262,144 words take their time."""
    folder = tmp_path_factory.mktemp("shapes")

    def made(name: str) -> Path:
        kind, numbers = MORE[name]
        path = folder / f"{name}.gguf"
        return path if path.exists() else toys.make(path, kind, **{"layers": 8, **numbers, "context": 131072})

    return made


def printed(native: Native, answer: dict[str, Any]) -> dict[tuple[str, int], float]:
    """(what, device) -> MiB, summed over lines: a context may print several of a kind."""
    devices = {f"RPC0[127.0.0.1:{port}]": i for i, port in enumerate(native.ports)}
    out: dict[tuple[str, int], float] = {}
    for buffer, what, size in LINE.findall("".join(answer["lines"])):
        key = (what, devices.get(buffer, HOST))
        out[key] = out.get(key, 0.0) + float(size)
    return out


def foreseen(model: Model, s: Settings, gpus: int) -> dict[tuple[str, int], float]:
    tensors = tensors_of(model)
    targets = targets_of(s, gpus, tuple(tensor.name for tensor in tensors))
    devices = unit_devices(units_of(model), s, [1] * gpus)
    placed = place([share_of(tensor) for tensor in tensors], devices, s, targets, pads=False)
    out: dict[tuple[str, int], float] = {("model", d): placed.total(d) / MIB for d in placed.weights}
    for cache in layer_caches(model.layers, s):
        key = ("RS" if cache.kind == "state" else "KV", placed.units[cache.layer] if s.kv_offload else HOST)
        out[key] = out.get(key, 0.0) + cache.nbytes / MIB
    out["output", HOST] = output_bytes(model.vocab_size, model.hidden_size, s) / MIB
    return out


def config(kind: str, random: random.Random) -> tuple[dict[str, Any], dict[str, Any], int]:
    """(flags as llama-server has them, what the C API is told, GPUs)."""
    gpus, parallel = random.choice((0, 1, 1, 2, 2)), random.choice((1, 1, 2, 3, 4))
    type_k, type_v = random.choice(TYPES), random.choice(TYPES)
    if kind in ("mla", "mamba") or random.random() < 0.5:
        type_v = type_k
    flags: dict[str, Any] = {
        "ctx_size": random.choice((0, 300, 1000, 2048, 4096, 5000)),
        "parallel": parallel,
        "kv_unified": random.random() < 0.4,
        "ubatch_size": random.choice((64, 256, 512)),
        "flash_attn": random.choice(("on", "on", "off")),
        "cache_type_k": type_k if kind != "mamba" else "f16",
        "cache_type_v": type_v if kind != "mamba" else "f16",
        "n_gpu_layers": random.choice((0, 1, 3, 5, 99)) if gpus else 0,
        "swa_full": random.random() < 0.3,
        "kv_offload": random.random() < 0.85,
        "tensor_split": random.choice(([1.0, 1.0], [3.0, 1.0], [1.0, 5.0], [0.0, 1.0])) if gpus == 2 else [1.0],
        "split_mode": "none" if gpus and random.random() < 0.15 else "layer",
        "main_gpu": random.randrange(gpus) if gpus else 0,
    }
    patterns: list[str] = []
    if kind == "moe" and gpus and random.random() < 0.6:
        experts = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
        patterns = random.choice(([experts], [rf"blk\.{i}{experts}" for i in range(2)], [r"ffn_up_exps"]))
        flags["override_tensor"] = [(p, "CPU") for p in patterns]
    told = {
        "gpus": gpus, "ngl": flags["n_gpu_layers"], "n_ctx": flags["ctx_size"], "n_ubatch": flags["ubatch_size"],
        "n_seq_max": parallel, "flash_attn": flags["flash_attn"], "type_k": flags["cache_type_k"],
        "type_v": flags["cache_type_v"], "kv_offload": flags["kv_offload"], "swa_full": flags["swa_full"],
        "kv_unified": flags["kv_unified"], "tensor_split": flags["tensor_split"] if gpus == 2 else [],
        "split_mode": flags["split_mode"], "main_gpu": flags["main_gpu"], "cpu_patterns": patterns,
    }  # fmt: skip
    return flags, told, gpus


def test_buffers_to_the_last_printed_digit(native: Native, tmp_path: Path) -> None:
    files = {kind: toys.make(tmp_path / f"{kind}.gguf", kind, **numbers) for kind, numbers in TOYS.items()}
    models = {kind: gguf_model(kind, read(path)) for kind, path in files.items()}
    dice, compared, refused, wrong = random.Random(8), 0, 0, []
    for number in range(CONFIGS):
        kind = list(TOYS)[number % len(TOYS)]
        flags, told, gpus = config(kind, dice)
        s = resolve(flags, models[kind].max_position)
        answer = native.ask(path=str(files[kind]), **told)
        no = refusal(models[kind].layers, s)
        if answer["error"] or no:
            text = "".join(answer["lines"])
            if no is None or no.message.partition(": ")[2] not in text:
                wrong.append(f"{kind} {told}: llama.cpp {answer['error']!r} {text[-300:]}, oomph {no}")
            refused += 1
            continue
        real, ours = printed(native, answer), foreseen(models[kind], s, gpus)
        compared += 1
        for key in {k for k in (*real, *ours) if k[0] != "compute"}:
            # each printed line is rounded; a model of 13 layers prints at most two of a kind
            if abs(real.get(key, 0.0) - ours.get(key, 0.0)) > 0.0151:
                wrong.append(f"{kind} {told} {key}: llama.cpp {real.get(key)}, oomph {ours.get(key)}")
    assert not wrong, f"{len(wrong)} differ, of {compared} compared and {refused} refused:\n" + "\n".join(wrong[:8])
    assert compared >= 200


@pytest.mark.parametrize("embeddings", (False, True))
def test_output_of_embeddings(native: Native, tmp_path: Path, embeddings: bool) -> None:
    """A row of embeddings lies beside each sequence's logits; 64 sequences make it more than the last printed digit."""
    path = toys.make(tmp_path / "dense.gguf", "dense")
    model = gguf_model("dense", read(path))
    s = resolve({"ctx_size": 512, "parallel": 64, "kv_unified": True, "embeddings": embeddings}, model.max_position)
    told = {"gpus": 0, "n_ctx": 512, "n_seq_max": 64, "kv_unified": True, "embeddings": embeddings}
    real = printed(native, native.ask(path=str(path), **told))
    assert model.hidden_size * 64 * 4 > 0.03 * MIB
    assert abs(real["output", HOST] - foreseen(model, s, 0)["output", HOST]) < 0.0051


SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama-3.1-8B": ("dense", {"embd": 4096, "heads": 32, "kv": 8, "head": 128, "ff": 14336, "vocab": 128256}),
    "Llama-3.3-70B": ("dense", {"embd": 8192, "heads": 64, "kv": 8, "head": 128, "ff": 28672, "vocab": 128256}),
    "Qwen3-8B": ("qwen3", {"embd": 4096, "heads": 32, "kv": 8, "head": 128, "ff": 12288, "vocab": 151936}),
    "Gemma-3-12B": ("window", {"embd": 3840, "heads": 16, "kv": 8, "head": 256, "ff": 15360, "vocab": 262208,
                               "window": 1024, "tied": True, "layers": 7}),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_compute_of_dense_models_with_flash_attention(
    native: Native, shape_file: Callable[[str], Path], name: str
) -> None:
    path = shape_file(name)
    model = gguf_model(name, read(path))
    x = subject(model)
    for ctx, ubatch, parallel, unified in ((4096, 512, 1, False), (8192, 512, 4, True), (8192, 256, 4, False),
                                          (32768, 2048, 1, False), (65536, 1024, 4, True)):  # fmt: skip
        flags = {
            "ctx_size": ctx,
            "ubatch_size": ubatch,
            "parallel": parallel,
            "kv_unified": unified,
            "n_gpu_layers": 99,
        }
        s = resolve({**flags, "flash_attn": "on"}, 131072)
        answer = native.ask(
            path=str(path), gpus=1, ngl=99, n_ctx=ctx, n_ubatch=ubatch, n_seq_max=parallel, kv_unified=unified,
            n_outputs_max=parallel, no_alloc=True,
        )  # fmt: skip
        real = printed(native, answer)
        m = measure(x, s, [1], backend=RPC, fitting=True)
        gpu, host = m.devices[0].compute, m.host.compute
        assert gpu.nbytes / MIB == pytest.approx(real["compute", 0], abs=1), (name, flags)
        assert gpu.low / MIB <= real["compute", 0] + 1 and real["compute", 0] <= gpu.high / MIB + 1
        assert host.nbytes / MIB == pytest.approx(real["compute", HOST], abs=1), (name, flags)


MORE: dict[str, tuple[str, dict[str, Any]]] = {
    **SHAPES,
    "Qwen3-30B-A3B": ("moe", {"embd": 2048, "heads": 32, "kv": 4, "head": 128, "ff": 6144, "vocab": 151936,
                              "experts": 128, "used": 8, "expert_ff": 768}),
    "Mixtral-8x7B": ("moe", {"embd": 4096, "heads": 32, "kv": 8, "head": 128, "ff": 14336, "vocab": 32000,
                             "experts": 8, "used": 2, "expert_ff": 14336}),
    "Gemma-4-31B": ("window", {"embd": 5376, "heads": 32, "kv": 16, "head": 256, "ff": 21504, "vocab": 262144,
                               "window": 1024, "tied": True, "layers": 12}),
}  # fmt: skip
PLACES = {"one GPU": (1, 99, "on"), "two GPUs": (2, 99, "on"), "some layers": (1, 3, "on"), "no flash": (1, 99, "off")}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", MORE)
def test_compute_of_every_kind(native: Native, shape_file: Callable[[str], Path], name: str, place: str) -> None:
    """Mixtures of experts, pipeline parallelism, partial offload and no flash attention: to 1 MiB, on this build."""
    gpus, layers, flash = PLACES[place]
    path = shape_file(name)
    x = subject(gguf_model(name, read(path)))
    for ctx, ubatch, parallel in ((4096, 512, 1), (65536, 512, 4), (16384, 2048, 1)):
        flags = {"ctx_size": ctx, "ubatch_size": ubatch, "parallel": parallel, "n_gpu_layers": layers,
                 "flash_attn": flash, "tensor_split": [1.0] * gpus}  # fmt: skip
        answer = native.ask(
            path=str(path), gpus=gpus, ngl=layers, n_ctx=ctx, n_ubatch=ubatch, n_seq_max=parallel, flash_attn=flash,
            n_outputs_max=parallel, no_alloc=True, tensor_split=[1.0, 1.0] if gpus == 2 else [],
        )  # fmt: skip
        real = printed(native, answer)
        m = measure(x, resolve(flags, 131072), [1] * gpus, backend=RPC, fitting=True)
        ours = {("compute", i): use.compute for i, use in enumerate(m.devices)} | {("compute", HOST): m.host.compute}
        for key, buffer in ours.items():
            assert buffer.nbytes / MIB == pytest.approx(real[key], abs=1), (ctx, ubatch, parallel, key)
            assert buffer.low / MIB - 1 <= real[key] <= buffer.high / MIB + 1
