"""No control character of a stranger reaches a terminal: C0, C1, nested escapes, marks of direction."""

from __future__ import annotations

import io
import json
import sys
import unicodedata
from pathlib import Path

import pytest

from oomph.cli.main import main
from oomph.cli.output import Guarded
from oomph.text.printable import printable, visible
from oomph.text.redaction import Secrets

ATTACKS = (
    "\x1b]0;PWNED\x07", "\x1b\x1b[0m]0;PWNED\x07", "\x1b[31mred", "\x9b31mred", "\x9d0;PWNED\x9c", "\x07\x08\x7f",
    "\x1b", "\u202egpj.exe", "\u2066x\u2069", "\u200b\ufeff", "\x1b[1m",
    "\x1bP1$r\x1b\\", "\x1b\x1b\x1b[0m[0m[2J", "\x0e\x0f\x85\u2028", "\U000e0041",
)  # fmt: skip
BASE = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 512,
    "num_key_value_heads": 2, "head_dim": 16, "dtype": "bfloat16", "max_position_embeddings": 2048,
}  # fmt: skip
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacity of 11.63 GiB "
    "of which 115.56 MiB is free. Including non-PyTorch memory, this process has 11.40 GiB memory in use. Of the "
    "allocated memory 10.90 GiB is allocated by PyTorch, and 20.00 MiB is reserved by PyTorch but unallocated.\n"
)


def unseen(text: str) -> list[str]:
    """Control, format, surrogate and separator characters of a text."""
    return [f"{c!r}" for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")]


def call(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit):
        main(list(words))
    output = capfd.readouterr()
    assert "a bug in oomph" not in output.err
    return output.out + output.err


@pytest.mark.parametrize("attack", ATTACKS, ids=ascii)
def test_functions(attack: str) -> None:
    assert not unseen(printable(f"a{attack}b\nc")) and "\n" not in printable("a\nb", lines=False)
    assert not unseen(visible(f"a{attack}b")) and "PWNED" not in visible(f"a{attack}b").replace("]0;PWNED", "")


def test_only_our_own_colours_pass() -> None:
    inner = io.StringIO()
    stream = Guarded(inner, Secrets())
    stream.write(f"\x1b{stream.paint_mark}[1;32mFITS\x1b{stream.paint_mark}[0m \x1b[1;32mFITS\x1b[0m")
    stream.flush()
    assert inner.getvalue() == "\x1b[1;32mFITS\x1b[0m \N{REPLACEMENT CHARACTER}[1;32mFITS\N{REPLACEMENT CHARACTER}[0m"


@pytest.mark.parametrize("attack", ATTACKS, ids=ascii)
def test_a_model(capfd: pytest.CaptureFixture[str], tmp_path: Path, attack: str) -> None:
    for config in (
        {**BASE, "architectures": [f"Qwen3ForCausalLM{attack}"]},
        {**BASE, "architectures": ["Qwen3ForCausalLM"], "dtype": f"bfloat16{attack}"},
        {**BASE, "architectures": ["Qwen3ForCausalLM"], "quantization_config": {"quant_method": attack}},
        {**BASE, "architectures": ["Qwen3ForCausalLM"], "layer_types": [attack, attack]},
    ):
        (tmp_path / "config.json").write_text(json.dumps(config))
        for words in (
            ["inspect"],
            ["plan", "--gpu", "H100", "--", "vllm", "serve"],
            ["fit", "--gpu", "H100"],
            ["gpus"],
        ):
            text = call(capfd, *words, str(tmp_path))
            assert not unseen(text), (words, unseen(text))
    folder = tmp_path / f"m{attack.replace('/', '')}"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**BASE, "architectures": ["Qwen3ForCausalLM"]}))
    for words in (["inspect"], ["inspect", "--json"], ["plan", "--gpu", "H100", "--json", "--", "vllm", "serve"]):
        assert not unseen(call(capfd, *words, str(folder)))


@pytest.mark.parametrize("attack", ATTACKS, ids=ascii)
def test_a_log(capfd: pytest.CaptureFixture[str], tmp_path: Path, attack: str) -> None:
    log = tmp_path / "server.log"
    for line in (
        f"non-default args: {{'model': 'Qwen/Qwen3-8B', 'served_model_name': ['{attack}']}}",
        f"Initializing a V1 LLM engine (v0.21.0) with config: model='Qwen/Qwen3{attack}-8B', tokenizer='{attack}'",
        f"vllm serve Qwen/Qwen3-8B --served-model-name {attack} --max-model-len 32768",
        f"ERROR {attack} {OOM}",
    ):
        log.write_bytes(f"{line}\n{OOM}".encode("utf-8", "surrogatepass"))
        for options in ([], ["--all"], ["--json"]):
            text = call(capfd, "explain", *options, "--gpu", "RTX 3060", str(log))
            assert not unseen(text), (options, unseen(text))


@pytest.mark.parametrize("attack", ATTACKS, ids=ascii)
def test_run_quotes_nothing_raw(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the child prints passes untouched; what oomph says about it does not."""
    program = tmp_path / "vllm"
    line = f"vllm serve Qwen/Qwen3-8B --served-model-name {attack}\n{OOM}"
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.stdout.buffer.write({line.encode()!r})\nsys.exit(1)\n")
    program.chmod(0o755)
    (tmp_path / "config.json").write_text(json.dumps({**BASE, "architectures": [f"Qwen3ForCausalLM{attack}"]}))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("OOMPH_CACHE", str(tmp_path / "cache"))
    with pytest.raises(SystemExit):
        main(["run", "--gpu", "RTX 3060", "--", "vllm", "serve", str(tmp_path), "--served-model-name", attack])
    output = capfd.readouterr()
    assert attack in output.out and "oomph: " in output.err
    assert not unseen(output.err), unseen(output.err)
