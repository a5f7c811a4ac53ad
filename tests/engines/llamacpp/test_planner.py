"""Whole llama.cpp plans: the questions that people ask, answered with the arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest
import toys

from oomph.answers.plan import plan
from oomph.engines.llamacpp.measure import measure, subject
from oomph.engines.llamacpp.settings import resolve
from oomph.errors import CannotPlan, CommandError, UnknownModel
from oomph.facts.llamacpp.backends import RPC
from oomph.facts.llamacpp.builds import NEWEST, parse_build, unknown_release
from oomph.ir.plan import Plan
from oomph.sources.gguf.header import read
from oomph.sources.gguf.model import gguf_model
from oomph.units import GIB, MIB
from oomph.web.page import page_of

GEMMA = "llama-server -m gemma-4-31B-it-Q4_K_M.gguf -np 1"


def made(command: str, gpu: str) -> Plan:
    return plan(command, gpu=gpu)


def kv(p: Plan) -> int:
    assert p.kv is not None
    return p.kv.available_bytes


def test_gemma_4_31b_at_4_bit_easily_fits_two_16_gb_cards() -> None:
    p = made(f"{GEMMA} -c 32768", "2x RTX 5070 Ti")
    assert p.fits and p.verdict.sure and p.resolved["offloaded"] == 61
    weights = sum(r.terms["weights"].bytes for r in p.ranks)
    # 16.3 GiB of layers, and the tied embedding (1.08 GiB) once more as the output head; its first copy is on the host
    assert weights == pytest.approx(17.39 * GIB, rel=0.001)
    assert p.resolved["host"]["weights"] == 5376 * 262144 // 256 * 210
    assert all(sum(t.bytes for t in r.terms.values()) < r.total_bytes for r in p.ranks)


def test_the_sliding_window_of_gemma_4_with_and_without_swa_full() -> None:
    """50 windowed layers of 16 heads x 256, 10 full ones of 4 heads x 512; keys and values, F16."""
    window, full = 16 * 256 * 2 * 2, 4 * 512 * 2 * 2
    for context in (8192, 32768, 65536, 131072):
        small = kv(made(f"{GEMMA} -c {context}", "4x H100 80GB"))
        large = kv(made(f"{GEMMA} -c {context} --swa-full", "4x H100 80GB"))
        assert small == 50 * window * (1024 + 512) + 10 * full * context
        assert large == (50 * window + 10 * full) * context
    assert kv(made(f"{GEMMA} -c 65536 --swa-full", "4x H100 80GB")) == 55 * GIB


def test_swa_full_is_what_breaks_it() -> None:
    fits = made(f"{GEMMA} -c 65536 -ngl 99", "2x RTX 5070 Ti")
    broken = made(f"{GEMMA} -c 65536 -ngl 99 --swa-full", "2x RTX 5070 Ti")
    assert fits.fits and not broken.fits and broken.verdict.stage == "kv_alloc"
    assert "failed to allocate buffer for kv cache" in broken.verdict.message
    text = broken.text(width=110)
    assert "without --swa-full" in text and "WILL NOT START" in text


def test_a_micro_batch_and_slots_cost_window_cells() -> None:
    one = made(f"{GEMMA} -c 16384 -ub 512", "4x H100 80GB")
    assert [g.blocks_per_request for g in one.kv.groups] == [1536, 16384]  # type: ignore[union-attr]
    wide = made(f"{GEMMA} -c 16384 -ub 2048", "4x H100 80GB")
    assert [g.blocks_per_request for g in wide.kv.groups] == [3072, 16384]  # type: ignore[union-attr]
    shared = made("llama-server -m gemma-4-31B-it-Q4_K_M.gguf -c 16384", "4x H100 80GB")
    assert [g.blocks_per_request for g in shared.kv.groups] == [4 * 1024 + 512, 16384]  # type: ignore[union-attr]


def test_the_identity_of_each_gpu_is_in_the_report() -> None:
    p = made("llama-server -m Qwen3-8B-Q4_K_M.gguf -c 16384", "RTX 4090")
    text = p.text(width=110)
    line = next(line for line in text.splitlines() if line.startswith("  GPU 0    "))
    total, rest = line.split("GPU 0")[1].split(" = ", 1)
    free, own, unaccounted = rest.split(" + (")[0], rest.split("(")[1].split(" =")[0], rest.rsplit("+", 1)[1]
    assert int(total) == int(free) + int(own) + int(unaccounted)


def test_fit_lowers_the_context_first() -> None:
    p = made("llama-server -m Qwen3-8B-Q4_K_M.gguf", "RTX 3070")
    assert p.fits and p.resolved["offloaded"] == 37
    assert 4096 <= p.resolved["n_ctx"] < 40960 and p.resolved["n_ctx"] % 256 == 0
    rank = p.ranks[0]
    left = rank.total_bytes - sum(t.bytes for t in rank.terms.values())
    assert 1024 * MIB <= left < 1064 * MIB


def test_fit_moves_layers_when_the_context_is_asked_for() -> None:
    p = made("llama-server -m Qwen3-8B-Q4_K_M.gguf -c 40960", "RTX 3070")
    assert p.fits and 0 < p.resolved["offloaded"] < 37 and p.resolved["n_ctx"] == 40960
    assert any("run on the CPU" in w for w in p.warnings)


def test_fit_moves_experts_first() -> None:
    p = made("llama-server -m Qwen3-30B-A3B-Q4_K_M.gguf -c 8192", "RTX 3060 12GB")
    assert p.fits and p.resolved["offloaded"] == 49 and p.resolved["host"]["parts"]["experts"] > GIB


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("-ngl 99", "n_gpu_layers already set by user to 99"),
        ("-ts 1,1", "tensor_split already set by user"),
        ("-ot exps=CPU", "tensor_buft_overrides already set by user"),
        ("-sm row", "LLAMA_SPLIT_MODE_ROW not implemented"),
    ],
)
def test_what_makes_fit_give_up(flags: str, sentence: str) -> None:
    p = made(f"llama-server -m Qwen3-32B-Q4_K_M.gguf -c 65536 -np 1 {flags}", "2x RTX 3060 12GB")
    assert not p.fits and sentence in p.resolved["fit"]["aborted"]


def test_n_cpu_moe_takes_the_experts_of_the_first_layers() -> None:
    sizes = []
    for count in (0, 12, 48):
        p = made(f"llama-server -m Qwen3-30B-A3B-Q4_K_M.gguf -c 4096 -ngl 99 --n-cpu-moe {count}", "H100 80GB")
        sizes.append(p.ranks[0].terms["weights"].parts.get("experts", 0))
    assert sizes[0] > sizes[1] > sizes[2] == 0
    all_of_them = made("llama-server -m Qwen3-30B-A3B-Q4_K_M.gguf -c 4096 -ngl 99 --cpu-moe", "H100 80GB")
    assert "experts" not in all_of_them.ranks[0].terms["weights"].parts


def test_a_quantised_cache_needs_flash_attention() -> None:
    p = made("llama-server -m Qwen3-8B-Q4_K_M.gguf -c 8192 -ctv q8_0 -fa off", "RTX 4090")
    assert not p.fits and "quantized V cache requires flash_attn" in p.verdict.message


def test_q8_0_is_eight_and_a_half_bits() -> None:
    plain = kv(made("llama-server -m Qwen3-8B-Q4_K_M.gguf -c 8192", "RTX 4090"))
    assert kv(made("llama-server -m Qwen3-8B-Q4_K_M.gguf -c 8192 -ctk q8_0 -ctv q8_0", "RTX 4090")) == plain * 34 // 64


def test_a_file_with_its_projector_and_draft(tmp_path: Path) -> None:
    main = toys.make(tmp_path / "main.gguf", "dense", layers=6)
    draft = toys.make(tmp_path / "draft.gguf", "dense", layers=2)
    toys.write(tmp_path / "mmproj.gguf", {"general.architecture": "clip"}, [("v.blk.0.ffn.weight", (512, 512), "F16")])
    alone = made(f"llama-server -m {main} -c 2048 -np 1", "RTX 4090").ranks[0].terms
    with_both = (
        made(f"llama-server -m {main} -c 2048 -np 1 -md {draft} --mmproj {tmp_path / 'mmproj.gguf'}", "RTX 4090")
        .ranks[0]
        .terms
    )
    assert with_both["weights"].parts["projector"] == 512 * 512 * 2
    assert with_both["weights"].bytes > alone["weights"].bytes + 512 * 512 * 2
    assert with_both["kv_cache"].bytes == alone["kv_cache"].bytes * 8 // 6


def test_more_free_memory_never_takes_layers_away() -> None:
    before = -1
    for used in (8, 6, 4, 2, 0):
        p = made("llama-server -m Qwen3-8B-Q4_K_M.gguf -c 16384", f"RTX 3080 12GB used {used}GiB")
        assert p.resolved["offloaded"] >= before
        before = p.resolved["offloaded"]


def test_refusals() -> None:
    with pytest.raises(UnknownModel, match=r"no file './nothing.gguf'"):
        made("llama-server -m ./nothing.gguf", "RTX 4090")
    with pytest.raises(CannotPlan, match="tensor cannot be planned"):
        made("llama-server -m Qwen3-8B-Q4_K_M.gguf -sm tensor", "2x RTX 4090")
    with pytest.raises(CommandError, match="CUDA3"):
        made("llama-server -m Qwen3-8B-Q4_K_M.gguf -ot exps=CUDA3", "RTX 4090")
    with pytest.raises(CommandError, match="main-gpu 2"):
        made("llama-server -m Qwen3-8B-Q4_K_M.gguf -sm none -mg 2", "2x RTX 4090")


@pytest.mark.parametrize(
    ("build", "shape", "context", "mib"),
    [
        (11391, (4096, 14336, 32, 4096, 128256), 4096, 112.0),
        (11391, (4096, 14336, 32, 4096, 128256), 32768, 140.0),
        (11391, (8192, 28672, 64, 8192, 128256), 4096, 220.0),
        (11391, (4096, 12288, 32, 4096, 151936), 32768, 128.0),
        (11548, (4096, 14336, 32, 4096, 128256), 4096, 120.0),
        (11548, (8192, 28672, 64, 8192, 128256), 32768, 264.0),
    ],
)
def test_each_build_has_its_own_compute_buffer(
    build: int, shape: tuple[int, int, int, int, int], context: int, mib: float, tmp_path: Path
) -> None:
    """As those builds printed them: one GPU, one slot, micro-batch 512, flash attention."""
    embd, ff, heads, query, vocab = shape
    path = toys.make(
        tmp_path / "x.gguf", "dense", embd=embd, ff=ff, heads=heads, kv=8, head=query // heads, vocab=vocab, layers=6
    )
    s = resolve({"ctx_size": context, "parallel": 1}, context, build)
    measured = measure(subject(gguf_model("x", read(path))), s, [1], backend=RPC)
    assert measured.devices[0].compute.nbytes / MIB == pytest.approx(mib, abs=0.1)


@pytest.mark.parametrize("command", [f"{GEMMA} -c 4096", "ollama run qwen3:8b"])
def test_json_and_page(command: str) -> None:
    p = made(command, "RTX 5090")
    assert p.to_dict()["ranks"][0]["terms"]["weights"]["bytes"] > 0
    assert ("Ollama" if command.startswith("ollama") else "llama.cpp") in page_of(p)


def test_flags_of_2026() -> None:
    from oomph.engines.llamacpp.command import parse

    flags = parse(["-ncffn", "2", "--kv-unified-per-slot", "8192", "-np", "3", "--spec-draft-ngl", "99"]).flags
    assert [p for p, _ in flags["override_tensor"]] == [rf"blk\.{i}\.ffn_(up|down|gate)\." for i in (0, 1)]
    assert flags["n_gpu_layers_draft"] == 99
    s = resolve(flags, 131072)
    assert s.kv_unified and s.n_ctx == 3 * 8192


def test_builds_before_b9442_hold_the_mask_twice(tmp_path: Path) -> None:
    """In F32 as it is filled, and in F16 as flash attention reads it: 4 + 2 bytes instead of 2 for each cell."""
    x = subject(gguf_model("x", read(toys.make(tmp_path / "x.gguf", "dense", layers=6))))
    before, since = (
        measure(x, resolve({"ctx_size": 262144, "parallel": 1}, 262144, build), [1], backend=RPC)
        for build in (9409, 9479)
    )
    mask = 512 * 262144
    more = before.devices[0].compute.nbytes - since.devices[0].compute.nbytes
    assert 3.9 * mask <= more <= 5 * mask
    assert before.host.compute.nbytes - since.host.compute.nbytes >= 2 * mask


def test_experts_on_the_cpu_leave_two_gpus_unequal() -> None:
    p = made("llama-server -hf ggml-org/gpt-oss-120b-GGUF -c 131072 --n-cpu-moe 20", "2x RTX 3090")
    assert not p.fits
    text = p.text(width=110)
    assert "-ts 2,1" in text and "--n-cpu-moe 27" in text and "no single flag" not in text
    assert made("llama-server -hf ggml-org/gpt-oss-120b-GGUF -c 131072 --n-cpu-moe 20 -ts 2,1", "2x RTX 3090").fits


def test_a_cpu_alone_lays_weights_out_anew(tmp_path: Path) -> None:
    """b11549 printed CPU_REPACK for exactly the tensors in Q4_0, Q4_K, IQ4_NL and MXFP4; with a GPU there is none."""
    path = toys.make(tmp_path / "x.gguf", "dense", layers=6, weights="Q4_0")
    alone, beside = made(f"llama-server -m {path} -dev none", "RTX 4090"), made(f"llama-server -m {path}", "RTX 4090")
    blocks = sum(n for role, n in alone.resolved["host"]["parts"].items() if role in ("attention", "mlp", "lm_head"))
    assert alone.resolved["host"]["repacked"] == blocks > 0 and not beside.resolved["host"]["repacked"]
    assert not made(f"llama-server -m {path} -dev none --no-repack", "RTX 4090").resolved["host"]["repacked"]
    assert alone.host is not None and "repacked weights" in [part.name for part in alone.host.parts]
    assert "Host " in alone.text(width=110)


@pytest.mark.parametrize(
    ("release", "build"), [("v0.5.0", 11181), ("0.6.0", 11434), ("0.6", 11434), ("b11739", 11739), ("11700", 11700)]
)
def test_releases_and_builds_are_both_read(release: str, build: int) -> None:
    assert parse_build(release) == build and not unknown_release(release)


def test_a_release_that_nobody_knows_is_said() -> None:
    assert (
        parse_build("v0.9.1") == NEWEST
        and "newer" in unknown_release("v0.9.1")
        and "newer" in unknown_release("b99999")
    )
    with pytest.raises(CommandError, match=r"0\.0\.3.*known"):
        parse_build("0.0.3")


@pytest.mark.parametrize(
    ("build", "slots", "context"),
    [("b10549", "-np 4", 40960), ("b10588", "-np 4", 163840), ("b10588", "", 40960), ("v0.5.0", "", 163840),
     ("b11434", "", 40960), ("b11434", "-np 4", 163840)],
)  # fmt: skip
def test_a_context_that_is_not_given_counts_slots_as_the_build_does(build: str, slots: str, context: int) -> None:
    p = plan(f"llama-server -m Qwen3-0.6B-Q8_0.gguf {slots}", gpu="RTX PRO 6000", engine=f"llama.cpp=={build}")
    assert p.resolved["n_ctx"] == context


def test_an_embedding_server_takes_an_output_of_every_token() -> None:
    few = made("llama-server -m Qwen3-0.6B-Q8_0.gguf -c 8192 -np 1 -b 2048 -ub 2048", "RTX 4090")
    all_of_them = made("llama-server -m Qwen3-0.6B-Q8_0.gguf -c 8192 -np 1 -b 2048 -ub 2048 --embeddings", "RTX 4090")
    more = all_of_them.ranks[0].terms["compute"].bytes - few.ranks[0].terms["compute"].bytes
    assert more > 0.9 * 2048 * 151936 * 4
    assert made("llama-server -m Qwen3-0.6B-Q8_0.gguf --embeddings", "RTX 4090").resolved["n_batch"] == 512


def test_a_tensor_on_a_gpu_that_split_mode_none_leaves_out() -> None:
    """llama.cpp v0.5.0 died so: "pre-allocated tensor (blk.0.attn_q.weight) in a buffer (Vulkan2) that cannot run"."""
    command = "llama-server -m Qwen3-8B-Q4_K_M.gguf -fit off -sm none -mg 1 -ot blk.0=CUDA"
    verdicts = [plan(command + gpu, gpu="2x RTX 4090", advise=False).verdict for gpu in "01"]
    assert [verdict.fits for verdict in verdicts] == [False, True]
    assert verdicts[0].message.startswith("pre-allocated tensor in a buffer on GPU 0")
