"""A file with several deployments: all of them are planned, and the worst decides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oomph.cli.main import main

SERVICE = "  {name}:\n    image: vllm/vllm-openai:v0.21.0\n    command: {command}\n"
FITS = "--model Qwen/Qwen3-8B --max-model-len 8192"
FAILS = "--model Qwen/Qwen3-32B"
CLOSE = "--model Qwen/Qwen3-8B --max-model-len 31900"
UNREAD = "--model ${NOT_SET_ANYWHERE}"
UNPLANNED = "--model nobody/has-this-model"


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def call(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        main(list(args))
    out, err = capsys.readouterr()
    return int(done.value.code or 0), out, err


def compose(folder: Path, **commands: str) -> str:
    path = folder / "compose.yaml"
    path.write_text("services:\n" + "".join(SERVICE.format(name=n, command=c) for n, c in commands.items()))
    return str(path)


def test_a_table_of_all_of_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = compose(tmp_path, chat=FITS, big=FAILS, broken=UNREAD, tight=CLOSE)
    code, out, _ = call(capsys, "plan", "--gpu", "RTX 4090", path)
    assert code == 1
    assert "1 of 4 deployments fit; 1 will not start; 1 cannot be read; 1 too close to call" in out
    rows = {line.split()[0]: line for line in out.splitlines() if line.startswith("    ") and line[4] != " "}
    assert "FITS" in rows["chat"] and "WILL NOT START" in rows["big"]
    assert "NOT READ" in rows["broken"] and "TOO CLOSE" in rows["tight"]
    assert f"oomph plan {path}:big" in " ".join(out.split()).replace("\\ ", "")  # a long path stands on its own line
    assert all(len(line) <= 110 for line in out.splitlines() if path not in line)


@pytest.mark.parametrize(
    ("commands", "code"),
    [
        ({"a": FITS, "b": FITS + " --max-num-seqs 8"}, 0),
        ({"a": FITS, "b": CLOSE}, 4),
        ({"a": CLOSE, "b": UNPLANNED}, 3),
        ({"a": UNPLANNED, "b": UNREAD}, 2),
        ({"a": UNREAD, "b": FAILS}, 1),
    ],
)
def test_the_worst_decides(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, commands: dict[str, str], code: int
) -> None:
    assert call(capsys, "plan", "--gpu", "RTX 4090", compose(tmp_path, **commands))[0] == code


def test_json_is_an_object_with_the_list(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = compose(tmp_path, chat=FITS, broken=UNREAD)
    code, out, _ = call(capsys, "plan", "--json", "--no-advice", "--gpu", "RTX 4090", path)
    answer = json.loads(out)
    assert code == answer["exit_code"] == 2 and answer["outcome"] == "unread" and answer["file"] == path
    chat, broken = answer["deployments"]
    assert chat["name"] == "chat" and chat["verdict"]["outcome"] == "fits" and "advice" not in chat
    assert broken["error"]["kind"] == "command_error" and "NOT_SET_ANYWHERE" in broken["error"]["message"]


def test_one_of_them_is_a_plan_as_always(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = compose(tmp_path, chat=FITS, big=FAILS)
    code, out, _ = call(capsys, "plan", "--json", "--gpu", "RTX 4090", f"{path}:chat")
    assert code == 0 and json.loads(out)["model"] == "Qwen/Qwen3-8B" and "advice" in json.loads(out)


def test_replicas_are_one_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = compose(tmp_path, a=FITS + " --port 1", b=FITS + " --port 2")
    code, out, _ = call(capsys, "plan", "--gpu", "RTX 4090", path)
    assert code == 0 and "FITS" in out and "deployments" not in out


def test_what_is_about_one_plan_asks_for_its_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = compose(tmp_path, a=FITS, b=FAILS)
    code, _, err = call(capsys, "plan", "--gpu", "RTX 4090", "--given", "weights=1GiB", path)
    assert code == 2 and "holds 2 deployments" in err and f"{path}:a" in err
