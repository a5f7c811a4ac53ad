"""llama-swap's groups: which models are loaded at the same time."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomph.api import pack
from oomph.pack.read import read_services
from oomph.pack.swap import loaded_together

SOLO = {"swap": True, "exclusive": True}
BESIDE = {"swap": False, "exclusive": False}
KEPT = {"swap": False, "exclusive": True, "persistent": True}
NAMES = ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("groups", "sets"),
    [
        ({}, [("a",), ("b",), ("c",), ("d",)]),
        ({"big": {**SOLO, "members": ["a", "b"]}, "small": {**BESIDE, "members": ["c", "d"]}},
         [("a", "c", "d"), ("b", "c", "d")]),
        ({"big": {**SOLO, "members": ["a", "b"]}, "small": {**KEPT, "members": ["d"]}},
         [("a", "d"), ("b", "d"), ("c", "d")]),
        ({"one": {**BESIDE, "members": NAMES}}, [("a", "b", "c", "d")]),
        ({"one": {"swap": True, "exclusive": False, "members": ["a", "b"]}, "two": {**SOLO, "members": ["c", "d"]}},
         [("c", "a"), ("c", "b"), ("d", "a"), ("d", "b")]),
        ({"broken": {"members": "a"}, "empty": None}, [("a",), ("b",), ("c",), ("d",)]),
    ],
)  # fmt: skip
def test_groups_decide_what_is_loaded_together(groups: dict[str, object], sets: list[tuple[str, ...]]) -> None:
    assert sorted(map(sorted, loaded_together({"groups": groups}, NAMES))) == sorted(map(sorted, sets))


FILE = """
models:
  chat:
    cmd: llama-server -hf Qwen/Qwen3-30B-A3B-GGUF:Q4_K_M -ngl 99 -c 8192
  coder:
    cmd: llama-server -hf Qwen/Qwen3-30B-A3B-GGUF:Q4_K_M -ngl 99 -c 16384
"""


def test_models_that_swap_need_room_for_one_only(tmp_path: Path) -> None:
    path = tmp_path / "llama-swap.yaml"
    path.write_text(FILE)
    assert read_services([str(path)]).sets == (("chat",), ("coder",))
    assert pack(str(path), gpu="RTX 4090", solver="plain").outcome == "fits"
    path.write_text(FILE + "groups:\n  all:\n    swap: false\n    members: [chat, coder]\n")
    assert read_services([str(path)]).sets == ()
    assert pack(str(path), gpu="RTX 4090", solver="plain").outcome == "fails"
