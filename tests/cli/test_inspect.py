"""What `oomph inspect` says, to people and to programs."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

import making
import oomph
from calling import call
from oomph import catalog
from oomph.report.views import print_answer

NVFP4 = "nvidia/Gemma-4-31B-IT-NVFP4"


def test_the_screen() -> None:
    text = oomph.inspect(NVFP4).text()
    assert "31.3B parameters, 4-bit (NVFP4): 30.4 GiB of weights" in text
    words = " ".join(text.split())
    assert "Your 4-bit checkpoint is 30.4 GiB because attention is still BF16: 15.8 GiB" in words
    assert "50 x sliding window 1,024 16 KV heads x 256 800 KiB per token" in words
    assert "10 x full attention 4 KV heads x 512 80.0 KiB per token" in words
    assert "262,144 tokens" in text
    assert "Vision 27 layers" in words


@pytest.mark.parametrize("model_id", catalog.ids()[::7])
def test_fits_80_columns_and_adds_up(model_id: str) -> None:
    found = oomph.inspect(model_id)
    text = found.text()
    assert max(map(len, text.splitlines())) <= 80
    assert "\033" not in text
    assert sum(r.bytes for r in found.by_role) == found.bytes == sum(d.bytes for d in found.by_dtype)
    assert sum(r.parameters for r in found.by_role) == found.parameters
    assert 0 <= found.active_parameters <= found.parameters
    assert sum(sum(r.stored_as.values()) for r in found.by_role) == found.bytes


def test_json_is_the_same_from_python() -> None:
    done = call("inspect", "--json", NVFP4)
    printed = json.loads(done.stdout)
    assert printed["schema"] == 1
    assert printed["bytes"] == oomph.inspect(NVFP4).bytes == 32_633_255_032
    assert printed["quantization"]["bits"] == 4
    assert printed["kv_bytes_per_token"] == 10 * 2 * 4 * 512 * 2
    assert {"by_role", "by_dtype", "layers", "drafts", "towers", "context_length"} <= printed.keys()


def test_parameters_are_counted_as_the_model_has_them() -> None:
    """However they are packed: scales, zero points and packing do not count."""
    plain, packed = oomph.inspect("Qwen/Qwen3-8B"), oomph.inspect("Qwen/Qwen3-8B-AWQ")
    assert plain.parameters == packed.parameters == 8_190_735_360
    assert packed.quantization is not None
    assert packed.quantization.name == "4-bit (AWQ)"
    mixtral = oomph.inspect("mistralai/Mixtral-8x7B-v0.1")
    assert mixtral.parameters == 46_702_792_704
    assert mixtral.active_parameters == 12_879_925_248


def test_kv_cache_of_windows_and_states() -> None:
    llama = oomph.inspect("meta-llama/Llama-3.1-8B-Instruct")
    assert llama.kv_bytes(1000) == 1000 * 32 * 2 * 8 * 128 * 2
    gpt = oomph.inspect("openai/gpt-oss-20b")
    layer = 2 * 8 * 64 * 2
    assert gpt.kv_bytes(10_000) == 12 * layer * (10_000 + 128)
    hybrid = oomph.inspect("Qwen/Qwen3.6-27B")
    assert hybrid.state_bytes_per_sequence > 0
    assert hybrid.kv_bytes(1) == hybrid.state_bytes_per_sequence + hybrid.kv_bytes_per_token
    deepseek = oomph.inspect("deepseek-ai/DeepSeek-V3")
    assert deepseek.kv_bytes_per_token == 61 * 576 * 2


def test_folders_say_where_they_come_from(tmp_path: Path) -> None:
    folder = making.folder(tmp_path / "mine", making.LLAMA, making.tensors_of(making.LLAMA))
    done = call("inspect", str(folder))
    assert "read from its headers" in done.stdout
    assert done.returncode == 0
    unknown = making.folder(
        tmp_path / "new", making.LLAMA | {"architectures": ["NewModel"]}, making.tensors_of(making.LLAMA)
    )
    text = call("inspect", str(unknown)).stdout
    assert "are not guessed" in text
    assert "weights only" in text


def test_nothing_that_a_terminal_would_act_on(tmp_path: Path) -> None:
    config = making.LLAMA | {"architectures": ["\x1b[31mRed\x07"]}
    folder = making.folder(tmp_path / "\x1b[2Jmodel", config, making.tensors_of(making.LLAMA))
    done = call("inspect", str(folder))
    assert done.returncode == 0
    assert "Red" in done.stdout
    assert not set(done.stdout) & {"\x1b", "\x07"}
    assert max(len(line) for line in done.stdout.splitlines() if "model" not in line) <= 100


def test_words_may_come_apart() -> None:
    assert call("inspect", "gemma-4-31b", "nvfp4").stdout == call("inspect", "gemma-4-31b nvfp4").stdout


def test_colour_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    print_answer(oomph.inspect(NVFP4), out)
    assert "\033[1m" in out.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    print_answer(oomph.inspect(NVFP4), out)
    assert "\033" not in out.getvalue()
