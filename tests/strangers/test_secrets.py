"""Sixty secrets through every command and format: none is printed, written or answered."""

from __future__ import annotations

import io
import json
import random
import re
import string
import sys
from pathlib import Path

import pytest
import secrets60
from hypothesis import HealthCheck, given, settings, strategies

from oomph.cli.main import main
from oomph.facts.vllm import architectures
from oomph.sources.hub import transport
from oomph.text.redaction import Secrets, _may_hold_one, hide_secrets
from oomph.text.secrets.words import _SHAPES

# classes of vLLM and SGLang that stand in tracebacks and warnings
CLASSES = (
    "CompressedTensorsW4A16Nvfp4MoE",
    "ModelOptNvFp4FusedMoEMethod",
    "QuarkInt4Fp8MoEMethod",
    "Mxfp8OnlineMoEMethod",
    "MxFp4LinearKernel",
    "RDNA3W4A16LinearKernel",
    "Fp8MoEMethod",
    "MiniMaxM3Nvfp4KVPool",
    "Lfm2VlImageProcessor",
    "Step3p5AMultiTokenPredictor",
    "LogprobTokenIdsState",
    "HybridReqToTokenPool",
    "Phi3LongRoPEScaledRotaryEmbedding",
    "CheckWeightsReqInput",
)

FILLED = secrets60.filled()
FLAGS, ENVIRONMENT, DOCKER = FILLED[:6], FILLED[6:18], FILLED[18:24]
SEEN = re.compile(r"S3kr1t")
MODEL = "Qwen/Qwen3-8B"
COMMAND = ["vllm", "serve", MODEL, "--api-key", secrets60.mark(0), secrets60.mark(1), "--hf-token=" + secrets60.mark(2)]
OOM = (
    "INFO 11-15 10:00:00 [core.py:109] Initializing a V1 LLM engine (v0.21.0) with config: model='Qwen/Qwen3-8B'\n"
    "ERROR 11-15 10:00:06 [core.py:1108] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. "
    "GPU 0 has a total capacity of 11.63 GiB of which 115.56 MiB is free. Including non-PyTorch memory, this process "
    "has 11.40 GiB memory in use. Of the allocated memory 10.90 GiB is allocated by PyTorch, and 20.00 MiB is reserved "
    "by PyTorch but unallocated.\n"
)


def call(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit):
        main(list(words))
    output = capsys.readouterr()
    assert "a bug in oomph" not in output.err
    return output.out + output.err


def test_there_are_sixty() -> None:
    assert len(secrets60.ALL) >= 60


@pytest.mark.parametrize("text", FILLED)
def test_each_form_is_hidden(text: str) -> None:
    assert not SEEN.search(hide_secrets(text)), hide_secrets(text)
    assert not SEEN.search(hide_secrets(f"oomph: error: {text!r} is wrong")), hide_secrets(f"{text!r}")
    assert not SEEN.search(hide_secrets(json.dumps({"x": text})))


@pytest.mark.parametrize(
    "text",
    [
        "one request of 131,072 tokens takes 5 GiB, 128 KiB per token: 40960", "max_num_batched_tokens=8192",
        "--tokenizer-mode auto --max-num-batched-tokens 8192", "bos_token: <s>", "set HF_TOKEN=${HF_TOKEN}",
        "hf_overrides={}, hf_config, hf_quant_config.json", "no token is set (HF_TOKEN)", "key: value", "KEY=1",
        "check HF_TOKEN, or: hf auth login", "num_speculative_tokens: 3",
        "docker run -e VLLM_USE_V1=1 -e CUDA_VISIBLE_DEVICES=0,1",
        "http://127.0.0.1:8000/v1", "tokens per second: 88.2", "secretKeyRef: {name: hf, key: token}",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert hide_secrets(text) == text


def test_a_secret_seen_once_is_hidden_without_its_name() -> None:
    secrets = Secrets()
    secrets.hide("--api-key Zx81abcd --port 80")
    assert secrets.hide("the value 'Zx81abcd' is odd") == "the value '***' is odd"
    secrets.learn_environment({"HF_TOKEN": "opensesame", "HTTP_PROXY": "http://u:w0rd99@p:1", "KEYBOARD": "qwerty"})
    assert secrets.hide("opensesame w0rd99 qwerty") == "*** *** qwerty"


PLANS = (["plan"], ["plan", "--all"], ["plan", "--json"], ["what-if"], ["what-if", "--json"], ["simulate"], ["diff"])


@pytest.mark.parametrize("words", PLANS, ids=" ".join)
def test_commands_hide_flags_and_variables(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    more = {"simulate": ["--users", "2", "--prompt", "100", "--output", "10"], "diff": ["--to", "0.32.0"]}
    options = ["--gpu", "RTX 4090", "--engine", "vllm==0.21.0", *more.get(words[0], [])]
    for command in (COMMAND, [" ".join([*ENVIRONMENT, *COMMAND])], [*COMMAND, "--max-model-len", secrets60.mark(3)]):
        text = call(capsys, *words, *options, "--", *command)
        assert not SEEN.search(text.replace(secrets60.mark(3), "")), text


@pytest.mark.parametrize(
    "words", [["inspect"], ["fit", "--gpu", "H100"], ["gpus"], ["compare", "--gpu", "H100"]], ids=str
)
def test_names_with_credentials(
    capsys: pytest.CaptureFixture[str], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_ENDPOINT", f"http://me:{secrets60.mark(4)}@127.0.0.1:1")
    monkeypatch.setattr(transport, "BACKOFF", (0.0,))  # nobody listens there: once more is enough
    for address in ("http://me:{}@127.0.0.1:1/x.gguf", "https://me:{}@huggingface.co/foo/bar", "http://127.0.0.1:1/x.gguf?token={}",
                    "hf_{}AbCdEfGh/model"):  # fmt: skip
        text = call(capsys, *words, address.format(secrets60.mark(5)))
        assert not SEEN.search(text), text


@pytest.mark.parametrize("words", [[], ["--json"], ["--all"], ["--no-plan"]], ids=str)
def test_explain_hides_what_a_log_says(capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str]) -> None:
    serve = f"$ {' '.join(ENVIRONMENT)} vllm serve {MODEL} {' '.join(FLAGS)} --max-model-len 32768\n"
    docker = f"$ docker run {' '.join(DOCKER)} vllm/vllm-openai:v0.21.0 --model {MODEL} {FLAGS[0]}\n"
    for head in (serve, docker, "".join(f"{text}\n" for text in FILLED)):
        (tmp_path / "server.log").write_text(head + OOM)
        text = call(capsys, "explain", *words, "--gpu", "RTX 3060", str(tmp_path / "server.log"))
        assert "memory" in text and not SEEN.search(text), SEEN.findall(text)
        if words == ["--json"]:
            json.loads(text)


def test_scripts_manifests_and_batches(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "start.sh").write_text(
        "\n".join(f"export {v}" for v in ENVIRONMENT) + f"\nvllm serve {MODEL} {FLAGS[0]}\n"
    )
    (tmp_path / "docker.sh").write_text(f"docker run {' '.join(DOCKER)} vllm/vllm-openai --model {MODEL} {FLAGS[1]}\n")
    (tmp_path / "compose.yaml").write_text(
        f"services:\n  vllm:\n    image: vllm/vllm-openai\n    command: --model {MODEL} {FLAGS[0]}\n    environment:\n"
        + "".join(f"      - {v}\n" for v in ENVIRONMENT)
    )
    (tmp_path / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n"
        "    image: vllm/vllm-openai\n"
        f"    args: ['--model', '{MODEL}', '--api-key', '{secrets60.mark(9)}']\n    env:\n"
        f"    - name: HF_TOKEN\n      value: {secrets60.mark(8)}\n"
    )
    cases = [{"id": 1, "gpu": "H100", "args": COMMAND}, {"id": 2, "gpu": "H100", "args": [*COMMAND, "--no-such-flag"]}]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    for name in ("start.sh", "docker.sh", "compose.yaml", "pod.yaml"):
        for options in ([], ["--json"], ["--all"], ["--html", str(tmp_path / "plan.html")]):
            text = call(capsys, "plan", "--gpu", "H100", *options, str(tmp_path / name))
            assert not SEEN.search(text), text
        html = (tmp_path / "plan.html").read_text()
        assert MODEL in html and not SEEN.search(html)
    assert not SEEN.search(call(capsys, "plan", "--batch", str(tmp_path / "cases.jsonl")))
    for emit in ("command", "yaml", "docker", "compose", "k8s", "lws"):
        text = call(capsys, "fit", MODEL, "--gpu", "H100", "--context", "8k", "--emit", emit)
        assert "HF_TOKEN" not in text or "***" not in text, text  # a variable's reference is no secret


def test_errors_hide_them_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words in (
        ["plan", "--gpu", "H100", "--", *COMMAND, "--api_key", secrets60.mark(7)],
        ["plan", "--gpu", "H100", f"--given=token={secrets60.mark(7)}", "--", *COMMAND],
        ["plan", "--gpu", f"http://a:{secrets60.mark(7)}@b/", "--", *COMMAND],
        ["explain", str(tmp_path / f"password={secrets60.mark(7)}")],
        ["plan", f"--api-key={secrets60.mark(7)}", "--", *COMMAND],
        ["inspect", f"{tmp_path}/hf_{secrets60.mark(7)}AbCdEfGh"],
    ):
        text = call(capsys, *words)
        assert not SEEN.search(text), text


def test_run_says_its_second_command_without_them(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "vllm"
    script.write_text(f"#!{sys.executable}\nimport sys\nsys.stdout.write({OOM!r})\nsys.exit(1)\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("OOMPH_CACHE", str(tmp_path / "cache"))
    with pytest.raises(SystemExit):
        main(["run", "--force", "--retry", "--gpu", "RTX 3060", "--engine", "vllm==0.21.0", "--", *COMMAND])
    output = capfd.readouterr()
    assert (OOM in output.out and "again with" in output.err) or "out of memory" in output.err
    assert not SEEN.search(output.err), output.err
    stored = b"".join(path.read_bytes() for path in (tmp_path / "cache").glob("*") if path.is_file())
    assert b"S3kr1t" not in stored


def test_nothing_is_held_back() -> None:
    from oomph.cli.output import Guarded

    inner = io.StringIO()
    stream = Guarded(inner, Secrets())
    stream.write("x" * 70_000 + "\n" + "--api-key \\\n")
    stream.write("   Zx81abcd and more\n")
    stream.flush()
    assert "Zx81abcd" not in inner.getvalue() and inner.getvalue().endswith("--api-key \\\n   *** and more\n")


def test_a_secret_of_letters_alone_is_no_placeholder() -> None:
    for line in ("HF_TOKEN=NOPmeMjvqPVStNKiaEdFrRgSnRFsTHs", '"password": "CiAhzCueQpBenQ",'):
        assert "***" in Secrets().hide(line)
    assert Secrets().hide("HF_TOKEN=YOUR_TOKEN") == "HF_TOKEN=YOUR_TOKEN"


@pytest.mark.parametrize("shape", _SHAPES)
def test_no_key_passes_the_first_look(shape: str) -> None:
    """A text is looked through only where a needle, a separator or a long run stands in it: every shape has one."""

    @settings(max_examples=8, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(strategies.from_regex(re.compile(shape, re.ASCII), fullmatch=True))
    def holds(key: str) -> None:
        assert _may_hold_one(key) or len(key) < 20, key

    holds()


def test_screens_of_plans_are_not_looked_through(capsys: pytest.CaptureFixture[str]) -> None:
    """To compile what looks for secrets takes as long as the plan itself."""
    for model, gpu in (("Qwen/Qwen3-8B", "RTX 4090"), ("deepseek-ai/DeepSeek-V3.1", "8x H100")):
        assert not _may_hold_one(call(capsys, "plan", "--no-advice", "--gpu", gpu, "--", "vllm", "serve", model))


@pytest.mark.parametrize(
    ("line", "most"),
    [("Resolved architecture: {}", 0.002), ("AttributeError: '{}' object has no attribute 'key'", 0.02)],
)
def test_classes_of_engines_are_no_keys(line: str, most: float) -> None:
    """Capitals and figures among words: a traceback has dozens of them."""
    names = [*architectures.TEXT, *architectures.MULTIMODAL, *architectures.POOLING, *CLASSES]
    hidden = [name for name in names if Secrets().hide(line.format(name)) != line.format(name)]
    assert len(names) > 300 and len(hidden) <= most * len(names), hidden


def test_keys_are_hidden_whatever_stands_before_them() -> None:
    chance = random.Random("keys")
    keys = ["".join(chance.choices(string.ascii_letters + string.digits, k=32)) for _ in range(200)]
    seen = [key for key in keys if key in Secrets().hide(f"the value of the token is in {key} here")]
    assert len(seen) <= 0.03 * len(keys), seen
