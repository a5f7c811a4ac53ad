"""Options and commands as people write them."""

import pytest

from oomph.cli.main import _meant, dispatch
from oomph.cli.words import given, late_gpu
from oomph.errors import CommandError


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("plan --gpus H100 -- vllm serve m", "plan --gpu H100 -- vllm serve m"),
        ("plan -g H100 docker run --gpus all i", "plan --gpu H100 docker run --gpus all i"),
        ("--vllm 0.28.0 --gpu H100 vllm serve m", "--engine vllm==0.28.0 --gpu H100 vllm serve m"),
        ("plan --engine-version v0.21.0 -- vllm serve m", "plan --engine vllm==v0.21.0 -- vllm serve m"),
        ("plan --version=0.21.0 -- vllm serve m --version", "plan --engine vllm==0.21.0 -- vllm serve m --version"),
        ("--version", "--version"),
        ("fit m --gpus 4090 -h", "fit m --gpu 4090 --help"),
        ("plan --json -g 4090 - ", "plan --json --gpu 4090 -"),
        ("vllm serve m -g x", "vllm serve m -g x"),
    ],
)
def test_aliases(typed: str, meant: str) -> None:
    assert _meant(typed.split()) == meant.split()


def test_help_in_every_place() -> None:
    assert dispatch(["help"]) == ("--help", []) == dispatch(["-h"])
    assert dispatch(["help", "fit"]) == ("fit", ["--help"]) == dispatch(["fit", "-h"])


def test_gpu_behind_the_command() -> None:
    words = ("vllm", "serve", "m", "--gpu", "H100", "-tp", "2")
    assert late_gpu(None, words) == ("H100", ("vllm", "serve", "m", "-tp", "2"))
    assert late_gpu(None, ("vllm", "serve", "m", "--gpu=2x H100")) == ("2x H100", ("vllm", "serve", "m"))
    assert late_gpu("T4", words) == ("T4", words)
    with pytest.raises(CommandError, match="stands behind"):
        late_gpu(None, ("vllm", "serve", "m", "--gpu", "0.9"))


def test_a_file_with_a_number(tmp_path) -> None:
    assert given(["vllm", "serve", "m"]) == ["vllm", "serve", "m"]
    path = tmp_path / "in"
    path.write_text("vllm serve org/m")
    with open(path) as file:
        assert given([f"/dev/fd/{file.fileno()}"]) == ["vllm serve org/m "]
