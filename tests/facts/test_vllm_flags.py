import pytest
from hypothesis import given, strategies as st

from oomph.facts.changes import dated_words
from oomph.facts.vllm import flags
from oomph.facts.vllm.flag_rows import ROWS
from oomph.facts.vllm.flags import options_of
from oomph.facts.vllm.versions import NEWEST, RELEASES, in_range, parse

FROM_0_11 = [r for r in RELEASES if parse(r) >= parse("0.11.0")]


@pytest.mark.parametrize(
    ("version", "count"),
    # what len(make_arg_parser(FlexibleArgumentParser())._actions) gave, less help, model_tag and config
    [("0.11.0", 182), ("0.12.0", 193), ("0.14.1", 203), ("0.18.0", 224), ("0.21.0", 246), ("0.32.0", 315)],
)
def test_as_many_flags_as_the_release_has(version, count):
    assert len(options_of(version).by_field) == count


def test_no_two_rows_of_a_field_hold_at_once():
    for version in RELEASES:
        held = [row.field for row in ROWS if row.holds(version)]
        assert len(held) == len(set(held)), version


def test_no_spelling_means_two_fields():
    for version in RELEASES:
        seen: dict[str, str] = {}
        for row in options_of(version).by_field.values():
            for name in options_of(version).spelled(row):
                assert seen.setdefault(name, row.field) == row.field
            assert options_of(version).spelled(row)[0].startswith("--")


def test_defaults_are_among_the_choices():
    for version in FROM_0_11:
        for row in options_of(version).by_field.values():
            allowed = options_of(version).allowed(row)
            if allowed and row.default is not None:
                assert str(row.default) in allowed, (version, row.field)


@pytest.mark.parametrize(
    ("flag", "version", "state", "part"),
    [
        ("--swap-space", "0.18.0", "gone", "gone since vLLM 0.18.0"),
        ("--swap-space", "0.17.1", "known", ""),
        ("--cuda-graph-sizes", "0.21.0", "gone", "--cudagraph-capture-sizes"),
        ("--max-seq-len-to-capture", "0.21.0", "gone", "gone since vLLM 0.11.0"),
        ("--calculate-kv-scales", "0.27.1", "known", ""),
        ("--calculate-kv-scales", NEWEST, "gone", "gone since vLLM 0.28.0"),
        ("--enable-chunked-prefill", NEWEST, "known", ""),
        ("--no-enable-chunked-prefill", "0.11.0", "known", ""),
        ("--no-max-model-len", "0.21.0", "unknown", "no flag"),
        ("--max-num-active-seqs", "0.21.0", "not yet", "came with 0.31.0"),
        ("--kv-cache-dtype-skip-layers", "0.18.1", "not yet", "came with 0.19.0"),
        ("--gpu-memory-utilisation", "0.21.0", "unknown", "did you mean --gpu-memory-utilization?"),
        ("--max-modellen", "0.21.0", "unknown", "--max-model-len"),
        ("-O", "0.11.2", "known", ""),
        ("-O", "0.12.0", "gone", "--compilation-config"),
        ("-cc", "0.11.2", "not yet", "came with 0.12.0"),
        ("tensor_parallel_size", "0.21.0", "known", ""),
        ("--device-memory-utilization", "0.30.0", "not yet", "came with 0.31.0"),
        ("--task", "0.12.0", "known", ""),
        ("--task", "0.13.0", "gone", "--runner"),
    ],
)
def test_flag_status(flag, version, state, part):
    status = options_of(version).status(flag)
    assert status.state == state
    assert part in status.sentence
    assert bool(status.sentence) == (state != "known")


def test_default_of_utilization_moved_with_0_20():
    assert options_of("0.19.1").by_field["gpu_memory_utilization"].default == 0.9
    assert options_of("0.20.0").by_field["gpu_memory_utilization"].default == 0.92


def test_kv_cache_dtypes():
    row = options_of("0.21.0").by_field["kv_cache_dtype"]
    assert "turboquant_k8v4" in options_of("0.21.0").allowed(row) and "int4_per_token_head" not in options_of(
        "0.21.0"
    ).allowed(row)
    assert "int4_per_token_head" in options_of("0.25.0").allowed(row)
    assert row.choice_range("ultraquant_4bit") == ("0.32.0", "")


def test_every_gone_flag_has_a_row_that_ends():
    ends = {row.field for row in ROWS if row.until}
    assert set(flags.GONE) <= ends
    for field in flags.GONE:
        assert field not in options_of(RELEASES[-1]).by_field


def test_every_flag_that_went_says_what_to_do_or_why():
    gone = {row.field for row in ROWS} - set(options_of(RELEASES[-1]).by_field)
    silent = {"use_gpu_for_pooling_score", "enable_bf16x3_router_gemm", "qlora_adapter_name_or_path"}
    assert gone - set(flags.GONE) <= silent


def test_replacements_exist():
    for field, gone in flags.GONE.items():
        for name in [w for w in gone.replaced_by.split() if w.startswith("--")]:
            assert options_of(RELEASES[-1]).status(name).state == "known", (field, name)


def test_a_replacement_that_came_later_is_not_recommended():
    assert options_of("0.11.0").status("--max-seq-len-to-capture").replaced_by == ""
    assert options_of("0.11.1").status("--max-seq-len-to-capture").replaced_by == "--cudagraph-capture-sizes"


def test_words_of_a_row_stay_inside_the_row():
    for row in ROWS:
        for text in (row.names, row.choices):
            for _, since, until in dated_words(text):
                assert not since or in_range(since, row.since, row.until)
                assert not until or not row.until or parse(until) <= parse(row.until)


@given(st.text(max_size=30), st.sampled_from(RELEASES))
def test_any_text_has_a_status(text, version):
    assert options_of(version).status(text).state in ("known", "gone", "not yet", "unknown")
