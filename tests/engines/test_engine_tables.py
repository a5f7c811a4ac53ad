"""Decisions of the engines over many random questions, as stored: what a plan shows is only the one that was taken.

tables.json holds a digest for each row of a table; `python tests/engines/test_engine_tables.py` writes it again, and a
commit that changes it says which and why. Releases are named, so that a new one changes no row.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oomph.engines.llamacpp.convert import about, to_gguf
from oomph.engines.vllm.backend_checks import reasons
from oomph.engines.vllm.backend_query import Query, fa_version, kernel_blocks
from oomph.engines.vllm.backends import choose, choose_diff_kv, order
from oomph.engines.vllm.kv_specs import Refused
from oomph.errors import OomphError
from oomph.facts.llamacpp.flags import BY_NAME as LLAMACPP_FLAGS
from oomph.facts.llamacpp.quantize import MIXTURES
from oomph.facts.sglang.flags import options_of as sglang_options
from oomph.facts.trtllm.flags import BY_NAME as TRTLLM_FLAGS
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.flags import options_of as vllm_options
from oomph.plan import load, parse

STORED = Path(__file__).parent / "tables.json"
Row = tuple[str, Any]

KV_DTYPES = ("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_ds_mla", "nvfp4", "nvfp4_ds_mla")


def queries(release: str) -> Iterator[Query]:
    """Questions for an attention backend: heads and cards of real models, and those just beside them."""
    chance = random.Random(release)
    pick = chance.choice
    for _ in range(300):
        mla = chance.random() < 0.4
        yield Query(
            at(release).attention, pick((70, 75, 80, 86, 89, 90, 100, 103, 110, 120)),
            pick((512, 576) if mla else (16, 31, 32, 40, 64, 80, 96, 128, 129, 192, 256, 264, 512, 576)),
            pick(("bfloat16", "bfloat16", "float16", "float32")), pick(KV_DTYPES),
            pick((None, None, 8, 16, 32, 64, 128)), mla, pick((False, False, True)), mla and pick((False, True)),
            pick((False, False, True)), pick((False, False, True)), pick((0, 1, 8, 16, 17, 32)), pick((1, 2, 8)),
            pick((0, 64, 128, 192)), pick((0, 64)), pick((64, 128)), pick((256, 512)), pick((0, 1024, 2048)),
            pick((1, 1, 2)), pick((1, 1, 2)), pick((0, 0, 2, 3, 4)), pick((False, False, True)),
            pick(("decoder", "decoder", "encoder_only", "encoder_decoder")), pick((16, 64, 128)),
        )  # fmt: skip


def backends() -> Iterator[Row]:
    for release in ("0.9.1", "0.11.0", "0.14.0", "0.21.0", "0.27.0", "0.32.0"):
        for number, query in enumerate(queries(release)):
            yield f"{release} {number}", [*_backend(query)]


def _backend(query: Query) -> Iterator[Any]:
    yield fa_version(query, query.head_size), fa_version(query, None, block_size=query.block_size)
    table = query.attention.backends
    yield order(query) if query.attention.asks else ()
    yield [(name, reasons(backend, query), kernel_blocks(backend, query)) for name, backend in table.items()]
    for selected in ("", *list(table)[:2]):
        yield _asked(lambda: choose(query, selected).name)  # noqa: B023
    if "FLASH_ATTN_DIFFKV" in table and "TRITON_ATTN_DIFFKV" in table:
        yield [_asked(lambda: choose_diff_kv(query, rule).name) for rule in ("flash", "")]  # noqa: B023


def _asked(question: Any) -> Any:
    """The answer, an engine's own words, or of a sentence of ours its flags and figures."""
    try:
        return question()
    except Refused as refused:
        return refused.message
    except OomphError as refused:
        return type(refused).__name__, re.findall(r"--?[a-z][\w-]*|\d+(?:[.,]\d+)*|'[^']*'", refused.message)


GGUF = (
    "Qwen/Qwen3-0.6B", "meta-llama/Llama-3.3-70B-Instruct", "openai/gpt-oss-20b", "Qwen/Qwen3-30B-A3B",
    "deepseek-ai/DeepSeek-V2-Lite", "microsoft/Phi-3.5-mini-instruct", "mistralai/Mixtral-8x7B-Instruct-v0.1",
)  # fmt: skip


def quantisations() -> Iterator[Row]:
    for name in GGUF:
        model = load(name)
        yield f"{name} about", about(model)
        for mixture in MIXTURES:
            converted = to_gguf(model, mixture)
            blocks = [layer.block for layer in converted.layers]
            types = [[(module.name, module.shape, module.dtype) for module in block.modules] for block in blocks]  # type: ignore[union-attr]
            yield f"{name} {mixture}", (types, converted.root, converted.stored)


VALUES = (
    "0", "1", "-1", "2", "16", "4096", "4k", "4K", "1.5M", "0.5", "1.0", "1.5", "-0.1", "1e3", "nan", "auto", "fp8",
    "bf16", "q8_0", "true", "false", "True", "none", "{}", "[1,2]", '{"a": 1}', "1,2", "x" * 130, "", "on", "off",
    '{"method": "mtp", "num_speculative_tokens": 2}', "99999999999999999999", "2147483647", "2147483648",
)  # fmt: skip
STARTS = {
    "vllm==0.9.1": "vllm serve a/b", "vllm==0.21.0": "vllm serve a/b", "vllm==0.32.0": "vllm serve a/b",
    "sglang==0.5.10": "python -m sglang.launch_server --model-path a/b",
    "sglang==0.5.22": "sglang serve --model-path a/b", "trtllm==1.2.1": "trtllm-serve a/b",
    "llamacpp": "llama-server -m a.gguf", "ollama": "ollama run a:b",
}  # fmt: skip


def _flags(engine: str) -> list[str]:
    name, _, release = engine.partition("==")
    if name == "vllm":
        return sorted(vllm_options(release).by_name)
    if name == "sglang":
        return sorted(sglang_options(release).by_name)
    if name == "trtllm":
        return sorted(TRTLLM_FLAGS)
    if name == "llamacpp":
        return sorted(LLAMACPP_FLAGS)
    return ["--num-ctx", "--num-parallel", "--num-gpu", "--num-batch", "--keepalive", "--format", "--verbose"]


def commands() -> Iterator[Row]:
    for engine, start in STARTS.items():
        chance = random.Random(engine)
        names = _flags(engine)
        for number in range(250):
            words = shlex.split(start)
            for _ in range(chance.choice((1, 1, 1, 2, 3))):
                name, value = chance.choice(names), chance.choice(VALUES)
                shape = chance.random()
                if shape < 0.1:
                    words.append(name[: -chance.choice((1, 2))])
                elif shape < 0.25:
                    words.append(name)
                elif shape < 0.45:
                    words.append(f"{name}={value}")
                else:
                    words += [name, value]
            yield f"{engine} {number}", _asked(lambda: _read(words, engine))  # noqa: B023


def _read(words: list[str], engine: str) -> Any:
    deployment = parse(words, engine if "==" in engine else "")
    flags = sorted((name, repr(value)) for name, value in deployment.flags.items())
    return deployment.model, flags, deployment.notes


TABLES = (backends, quantisations, commands)


def digest(value: Any) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=2).hexdigest()


def rows(table: Any) -> str:
    return "".join(digest(value) for _, value in table())


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_a_decision_is_as_stored(table: Any) -> None:
    stored: str = json.loads(STORED.read_text())[table.__name__]
    changed = [name for at, (name, value) in enumerate(table()) if digest(value) != stored[4 * at : 4 * at + 4]]
    assert not changed, "on purpose: python tests/engines/test_engine_tables.py"


if __name__ == "__main__":
    lines = [f"{json.dumps(table.__name__)}: {json.dumps(rows(table))}" for table in TABLES]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
