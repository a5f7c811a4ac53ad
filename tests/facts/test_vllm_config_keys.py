from oomph.facts.vllm.config_keys import KEYS
from oomph.facts.vllm.flags import options_of
from oomph.facts.vllm.versions import NEWEST, RELEASES


def test_every_argument_is_a_json_flag():
    for field in KEYS:
        kinds = {options_of(v).by_field[field].kind for v in RELEASES if field in options_of(v).by_field}
        assert kinds == {"json"}, field


def test_keys_of_releases():
    assert "level" in options_of("0.11.0").keys("compilation_config") and "mode" not in options_of("0.11.0").keys(
        "compilation_config"
    )
    assert "cudagraph_mode" in options_of(NEWEST).keys("compilation_config")
    assert "num_speculative_tokens" in options_of("0.21.0").keys("speculative_config")
    assert options_of("0.21.0").keys("hf_overrides") == frozenset()


def test_who_refuses():
    assert not options_of("0.11.2").refuses_keys("compilation_config") and options_of("0.12.0").refuses_keys(
        "compilation_config"
    )
    assert not options_of("0.15.1").refuses_keys("eplb_config") and options_of("0.16.0").refuses_keys("eplb_config")
