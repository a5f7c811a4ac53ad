import pytest
from hypothesis import given, strategies as st

from oomph.errors import CommandError
from oomph.facts.vllm import environment as env
from oomph.facts.vllm.versions import RELEASES


@pytest.mark.parametrize(
    ("name", "version", "default"),
    [
        ("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "0.17.1", None),
        ("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "0.19.1", False),
        ("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "0.20.0", True),
        ("VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE", "0.21.0", 394 * 1024 * 1024),
        ("VLLM_ENABLE_STARTUP_PLAN", "0.25.1", None),
        ("VLLM_ENABLE_STARTUP_PLAN", "0.26.0", False),
        ("VLLM_USE_V2_MODEL_RUNNER", "0.21.0", False),
        ("VLLM_USE_V2_MODEL_RUNNER", "0.22.0", None),
        ("VLLM_NOT_THERE", "0.22.0", None),
    ],
)
def test_defaults(name, version, default):
    assert env.value(name, {}, version) == default


def test_values():
    assert env.value("VLLM_USE_V2_MODEL_RUNNER", {"VLLM_USE_V2_MODEL_RUNNER": "1"}, "0.21.0") is True
    assert env.value("VLLM_PP_LAYER_PARTITION", {"VLLM_PP_LAYER_PARTITION": "10,20"}, "0.21.0") == (10, 20)
    assert env.value("VLLM_KV_CACHE_LAYOUT", {"VLLM_KV_CACHE_LAYOUT": "HND"}, "0.21.0") == "HND"


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("VLLM_KV_CACHE_LAYOUT", "BLHNC", "0.28.0"),
        ("VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE", "394M", "0.21.0"),
        ("VLLM_USE_V2_MODEL_RUNNER", "yes", "0.21.0"),
        ("VLLM_PP_LAYER_PARTITION", "10,", "0.21.0"),
    ],
)
def test_what_the_engine_refuses(name, text, version):
    with pytest.raises(CommandError, match=name):
        env.check({name: text}, version)


def test_gone_and_not_yet():
    notes = env.check({"VLLM_ATTENTION_BACKEND": "FLASH_ATTN", "VLLM_ENABLE_STARTUP_PLAN": "1", "HOME": "/"}, "0.21.0")
    assert notes == (
        "VLLM_ATTENTION_BACKEND is not read since vLLM 0.15.0; use --attention-backend",
        "VLLM_ENABLE_STARTUP_PLAN is not read by vLLM 0.21.0: it came with 0.26.0",
    )


def test_one_row_holds_at_a_time():
    for version in RELEASES:
        names = [row.name for row in env.ROWS if row.holds(version)]
        assert len(names) == len(set(names))


@given(st.dictionaries(st.sampled_from([r.name for r in env.ROWS]), st.text(max_size=8)), st.sampled_from(RELEASES))
def test_any_environment_is_read_or_refused(environment, version):
    try:
        env.check(environment, version)
    except CommandError:
        return
    for name in environment:
        env.value(name, environment, version)
