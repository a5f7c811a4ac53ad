"""Hiding secrets leaves JSON well-formed, wherever the secret stands in it."""

from __future__ import annotations

import io
import json

from hypothesis import given, strategies as st

from oomph.cli.output import Guarded
from oomph.text.redaction import Secrets

MARK = "Zq7Xw9Kp3Lm5"
TEXTS = st.sampled_from(
    (
        f"vllm serve m --api-key {MARK}",
        f'docker run -e "HF_TOKEN={MARK}" image',
        f"hf_{MARK}AbCdEfGh",
        f"https://me:{MARK}@host/x",
        f'\'api_key\': "{MARK}", \\"password\\": {MARK}',
        "no secret",
        'a "quoted" word',
    )
)
NAMES = st.sampled_from(("command", "HF_TOKEN", "api_key", "why", 'odd "name"'))
VALUES = st.recursive(
    TEXTS | st.integers(0, 9) | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(value=st.dictionaries(NAMES, VALUES, min_size=1, max_size=4), indent=st.sampled_from((None, 1, 2)))
def test_json_stays_json(value: object, indent: int | None) -> None:
    stream = io.StringIO()
    guarded = Guarded(stream, Secrets())
    guarded.write(json.dumps(value, indent=indent) + "\n")
    guarded.flush()
    assert MARK not in stream.getvalue()
    shape = json.loads(stream.getvalue())
    assert isinstance(shape, dict) and len(shape) == len(value)  # type: ignore[arg-type]


def test_words_of_a_command_and_a_manifest_s_pair() -> None:
    stream = io.StringIO()
    guarded = Guarded(stream, Secrets())
    guarded.write_line(json.dumps({"args": ["vllm", "--api-key", MARK], "env": [{"name": "TOKEN", "value": MARK}]}))
    answer = json.loads(stream.getvalue())
    assert answer == {"args": ["vllm", "--api-key", "***"], "env": [{"name": "TOKEN", "value": "***"}]}


def test_a_line_holds_no_command_to_a_runner_however_often_it_is_written() -> None:
    stream = io.StringIO()
    guarded = Guarded(stream, Secrets())
    for _ in range(2):
        guarded.write_line(json.dumps({"id": "##[group]", "model": "a plain text"}))
    assert [json.loads(line)["id"] for line in stream.getvalue().splitlines()] == ["## [group]"] * 2
