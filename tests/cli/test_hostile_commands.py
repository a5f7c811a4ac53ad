"""Command lines, files and streams made to hurt, through the real command: a sentence, a code, and soon."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

LLAMA = (
    '{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"num_hidden_layers":2,'
    '"num_attention_heads":4,"num_key_value_heads":4,"intermediate_size":128,"vocab_size":100,'
    '"max_position_embeddings":128}'
)


def laughs(head: str, tail: str) -> str:
    rows = "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9))
    return f"{head}a: &a [x,x,x,x,x,x,x,x,x]\n{rows}{tail}"


FILES: dict[str, tuple[str, str | bytes]] = {
    "compose of aliases": ("c.yaml", laughs("", "services: *j\n")),
    "manifest of aliases": ("p.yaml", laughs("apiVersion: v1\nkind: Pod\n", "spec: {containers: *j}\n")),
    "a value inside itself": ("s.yaml", "services: &a\n  v: {image: vllm/vllm-openai, command: *a}\n"),
    "a tag that runs": ("t.yaml", "services:\n  v: !!python/object/apply:os.system ['touch pwned']\n"),
    "a makefile without end": ("Makefile", "A=$(B)$(B)\nB=$(A)$(A)\nx:\n\tvllm serve $(A)\n"),
    "a makefile that grows": (
        "g.mk",
        "A0=aaaa\n" + "".join(f"A{i}=" + f"$(A{i - 1})" * 4 + "\n" for i in range(1, 40)) + "x:\n\tvllm serve $(A39)",
    ),
    "a dockerfile of arguments": ("Dockerfile", "FROM x\n" + "ARG A=$A$A\n" * 5000 + "ENTRYPOINT vllm serve $A\n"),
    "fences": ("f.md", "```\n" * 30_000),
    "backticks": ("b.md", "`a" * 100_000),
    "here documents": ("h.sh", "cat <<A\n" * 5000),
    "nested defaults": ("d.sh", "vllm serve " + "${A:-" * 5000 + "x" + "}" * 5000),
    "variables of Windows": ("w.bat", "set A=%A%%A%\n" * 5000 + "vllm serve %A%"),
    "a deep notebook": ("n.ipynb", '{"cells":' + "[" * 50_000),
    "deep Python": ("d.py", "x=" + "(" * 3000 + "1" + ")" * 3000 + "\nLLM('Qwen/Qwen3-8B')"),
    "a thousand keywords": ("k.py", 'LLM(model="x"' + ",a=1" * 20_000 + ")"),
    "bytes": ("x.sh", b"\x00\xff" * 50_000),
    "a template": ("h.yaml", "kind: Pod\napiVersion: v1\nspec: {{ .Values.spec }}\n"),
}


def run(cwd: Path, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "oomph", *words], cwd=cwd, input=given, capture_output=True, timeout=60,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert time.monotonic() - start < 30
    error = done.stderr.decode()
    assert "Traceback" not in error and "a bug in oomph" not in error
    assert len(error) < 1500 and len(error.strip().splitlines()) <= 2
    assert b"\x1b" not in done.stdout + done.stderr
    return done


@pytest.mark.parametrize("name", FILES)
def test_files(tmp_path: Path, name: str) -> None:
    file, text = FILES[name]
    (tmp_path / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    assert run(tmp_path, "plan", "--gpu", "H100", file).returncode == 2
    assert not (tmp_path / "pwned").exists()


STREAMS = {
    "empty": b"", "nothing but zeros": b"\0" * 1000, "ten megabytes": b"vllm serve x " + b"a " * 5_000_000,
    "a megabyte of flags": b"vllm serve x " + b"--foo " * 150_000, "quotes": b"'\"" * 30_000,
    "prose": b"why does my server die?\n" * 200,
}  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
def test_streams(tmp_path: Path, name: str) -> None:
    assert run(tmp_path, "plan", "--gpu", "H100", "-", given=STREAMS[name]).returncode == 2


def test_what_is_no_file(tmp_path: Path) -> None:
    os.symlink("b.sh", tmp_path / "a.sh")
    os.symlink("a.sh", tmp_path / "b.sh")
    os.mkfifo(tmp_path / "pipe.sh")
    (tmp_path / "folder.sh").mkdir()
    for word in ("a.sh", "pipe.sh", "folder.sh", "/dev/zero", "gone.yaml"):
        assert run(tmp_path, "plan", "--gpu", "H100", word).returncode == 2
    for words in (("--batch", "/dev/zero"), ("--gpu", "H100", "--", "llama-server", "-m", "/dev/urandom")):
        assert run(tmp_path, "plan", *words).returncode == 2


def test_an_env_file_beside_a_script(tmp_path: Path) -> None:
    (tmp_path / "start.sh").write_text("vllm serve $M")
    os.mkfifo(tmp_path / ".env")
    assert run(tmp_path, "plan", "--gpu", "H100", "start.sh").returncode == 2
    os.unlink(tmp_path / ".env")
    (tmp_path / ".env").write_text("M=" + "a" * 900_000)
    assert run(tmp_path, "plan", "--gpu", "H100", "start.sh").returncode == 2


NAMES = ("org/\x1b[2J\x1b]0;x\x07m", "org/\u202egpj.exe", "моя/модель", "a\tb", "-", "$(reboot)", "../../etc/passwd")


@pytest.mark.parametrize("name", NAMES)
def test_names(tmp_path: Path, name: str) -> None:
    done = run(tmp_path, "plan", "--gpu", "H100", "--", "vllm", "serve", name)
    assert done.returncode in (2, 3) and "\u202e" not in done.stderr.decode()


@pytest.mark.parametrize("where", ["--served-model-name", "--tokenizer"])
def test_control_characters_are_not_printed(tmp_path: Path, where: str) -> None:
    words = ("vllm", "serve", "Qwen/Qwen3-8B", where, "a\x1b[2Jb")
    assert run(tmp_path, "plan", "--all", "--gpu", "H100", "--", *words).returncode == 0
    assert run(tmp_path, "plan", "--json", "--gpu", "H100", "--", *words).returncode == 0


def test_an_architecture_with_control_characters(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["Llama\\u001b[2J"], "model_type": "\\u001b[31m"}')
    assert run(tmp_path, "inspect", ".").returncode == 3
    assert run(tmp_path, "plan", "--gpu", "H100", "--", "vllm", "serve", str(tmp_path)).returncode == 3


def test_archives_that_grow(tmp_path: Path) -> None:
    made = io.BytesIO()
    with gzip.GzipFile(fileobj=made, mode="wb") as file:
        for _ in range(64):
            file.write(b"\0" * (1 << 20))
    (tmp_path / "server.log.gz").write_bytes(made.getvalue())
    assert run(tmp_path, "explain", "server.log.gz").returncode == 2
    with zipfile.ZipFile(tmp_path / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("pytorch_model/data.pkl", "0" * (64 << 20))
    (tmp_path / "config.json").write_text(LLAMA)
    assert run(tmp_path, "inspect", ".").returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--gpu", "99999999999x H100"), ("--gpu", ",".join(["H100"] * 2000)), ("--gpu", "H100\x1b[2J"),
        ("--gpu", "H100", "--given", "weights=-5GiB"), ("--gpu", "H100", "--given", "weights=nanGiB"),
        ("--gpu", "H100", "--html", "/"), ("--gpu", "H100", "--engine", "vllm==9" * 50),
        ("--gpu", "1e999GiB"), ("--gpu", "g5.12xlarge used 99TiB"),
    ],
)  # fmt: skip
def test_options(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert run(tmp_path, "plan", *words, "--", "vllm", "serve", "Qwen/Qwen3-8B").returncode == 2
