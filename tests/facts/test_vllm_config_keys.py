from oomph.facts.vllm.config_keys import KEYS, keys, refuses
from oomph.facts.vllm.flags import by_field
from oomph.facts.vllm.versions import NEWEST, RELEASES


def test_every_argument_is_a_json_flag():
    for field in KEYS:
        kinds = {by_field(v)[field].kind for v in RELEASES if field in by_field(v)}
        assert kinds == {"json"}, field


def test_keys_of_releases():
    assert "level" in keys("compilation_config", "0.11.0") and "mode" not in keys("compilation_config", "0.11.0")
    assert "cudagraph_mode" in keys("compilation_config", NEWEST)
    assert "num_speculative_tokens" in keys("speculative_config", "0.21.0")
    assert keys("hf_overrides", "0.21.0") == frozenset()


def test_who_refuses():
    assert not refuses("compilation_config", "0.11.2") and refuses("compilation_config", "0.12.0")
    assert not refuses("eplb_config", "0.15.1") and refuses("eplb_config", "0.16.0")
