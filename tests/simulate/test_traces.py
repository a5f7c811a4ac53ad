from __future__ import annotations

from pathlib import Path

import pytest

from oomph.errors import InputError
from oomph.simulate.timing import SECOND
from oomph.simulate.traces import read_trace


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_azure(tmp_path: Path) -> None:
    text = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
        "2024-05-10 00:00:00.009930+00:00,2162,5\n"
    )
    trace = read_trace(write(tmp_path / "a.csv", text))
    jobs = list(trace.jobs())
    assert [(j.prompt, j.output) for j in jobs] == [(374, 44), (396, 109), (2162, 5)]
    assert jobs[0].at == 0 and jobs[1].at == pytest.approx(4.314579 * SECOND, rel=1e-6) and not trace.shared


def test_burstgpt_leaves_failures_out(tmp_path: Path) -> None:
    text = (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n"
        "45,ChatGPT,1087,0,1087,Conversation log\n118,GPT-4,417,276,693,Conversation log\n"
    )
    jobs = list(read_trace(write(tmp_path / "b.csv", text)).jobs())
    assert [(j.at // SECOND, j.prompt, j.output) for j in jobs] == [(0, 472, 18), (113, 417, 276)]


def test_mooncake_shares_blocks_of_512(tmp_path: Path) -> None:
    text = (
        '{"timestamp": 1000, "input_length": 1100, "output_length": 52, "hash_ids": [46, 47, 48]}\n'
        '{"timestamp": 1500, "input_length": 1024, "output_length": 26, "hash_ids": [46, 47]}\n'
    )
    trace = read_trace(write(tmp_path / "m.jsonl", text))
    one, two = trace.jobs()
    assert trace.shared and one.chain == ((46, 512), (47, 512), (48, 76)) and two.chain == ((46, 512), (47, 512))
    assert two.at == SECOND // 2


def test_own_columns(tmp_path: Path) -> None:
    text = "timestamp,prompt,output,prefix_id,prefix_tokens\n0,100,10,system,64\n1.5,200,10,,\n2,300,10,system,64\n"
    trace = read_trace(write(tmp_path / "o.csv", text))
    a, b, c = trace.jobs()
    assert trace.shared and a.chain == c.chain and a.chain[0][1] == 64 and b.chain == ()


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.csv", "", "no request"),
        ("a.csv", "TIMESTAMP,ContextTokens\n1,2\n", "no column for the output"),
        ("a.csv", "timestamp,prompt,output\n1,x,3\n", "'x' is not a number of tokens"),
        ("a.csv", "timestamp,prompt,output\nyesterday,2,3\n", "not a time"),
        ("a.csv", "timestamp,prompt,output\n1,-4,3\n", "not a number of tokens"),
        ("a.csv", "timestamp,prompt,output\n1,1e99,3\n", "not a number of tokens"),
        ("a.jsonl", "{broken\n", "not a JSON object"),
        ("a.jsonl", "[1]\n", "not a JSON object"),
        ("a.jsonl", '{"timestamp":0,"input_length":9,"output_length":1,"hash_ids":"x"}\n', "hash_ids"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path: Path, name: str, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        list(read_trace(write(tmp_path / name, text)).jobs())


def test_missing_file() -> None:
    with pytest.raises(InputError, match="No such file"):
        read_trace("/nowhere/at-all.csv")
