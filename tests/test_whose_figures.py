"""Whose figures a plan shows: of a replica or of all, of cards that were named, of settings that were settled."""

from __future__ import annotations

import pytest

from oomph.answers.diff import diff
from oomph.answers.plan import parse, plan, with_gpus
from oomph.cli.main import main
from oomph.engines.registry import engine_of
from oomph.ir.plan import Plan

QWEN = "vllm serve Qwen/Qwen3-8B"


def planned(flags: str = "", gpu: str = "H100", engine: str = "vllm==0.32.0", *, advise: bool = False) -> Plan:
    return plan(f"{QWEN} {flags}", gpu=gpu, engine=engine, advise=advise)


def screen(of: Plan) -> str:
    return " ".join(of.text(width=110).split())


def test_replicas_are_counted_one_by_one_and_together() -> None:
    one, two = planned(), planned("-dp 2", "2x H100")
    assert one.kv is not None and two.kv is not None
    text = screen(two)
    assert "in each of 2 replicas" in text and f"{2 * two.kv.logged_tokens:,} tokens" in text and "in all" in text
    assert "replicas" not in screen(one)


def test_every_replica_has_its_cards_in_the_title() -> None:
    answer = planned("-tp 8 -dp 2", "H200")
    assert "16 x H200" in screen(answer) and len(answer.deployment.gpus) == 16
    assert any("one H200 was named, the command needs 16" in note for note in answer.warnings)


def test_a_layout_that_is_larger_than_the_machine_is_refused_with_what_it_needs() -> None:
    answer = planned("-tp 8 -pp 2", "8x H200", advise=True)
    assert answer.verdict.message.startswith("World size (16) is larger than the number of available GPUs (8)")
    assert answer.advice is not None and [fix.change.label for fix in answer.advice.fixes] == [
        "-tp 4",
        "without -pp 2",
        "on 16 x H200",
    ]


def test_a_size_alone_is_no_capability() -> None:
    answer = plan("vllm serve nvidia/Gemma-4-31B-IT-NVFP4", gpu="48GB", advise=False)
    assert "0.0" not in answer.verdict.message
    assert any("compute capability of a 48GB GPU is not known" in note for note in answer.warnings)


def test_a_refusal_has_only_the_settings_that_were_settled() -> None:
    early = planned("-tp 8 --enable-expert-parallel --max-model-len 1000000", "8x H100").to_dict()["resolved"]
    assert early == {"max_model_len": 1000000, "tensor_parallel_size": 8, "enable_expert_parallel": True}
    late = planned("-tp 3", "4x H100")
    assert late.verdict.stage == "other" and "attention_backends" not in late.resolved


@pytest.mark.parametrize(
    ("flags", "words", "fix"),
    [
        (
            "--quantization nosuch",
            "Unknown quantization method: nosuch. Must be one of ['awq',",
            "without --quantization",
        ),
        (
            "--attention-backend nosuch",
            "Unknown attention backend: 'NOSUCH'. Valid options are: FLASH_ATTN,",
            "without",
        ),
        ("--load-format nosuch", "Load format `nosuch` is not supported", "without --load-format nosuch"),
        ("--tokenizer-mode nosuch", "No tokenizer registered for tokenizer_mode='nosuch'.", "without --tokenizer-mode"),
        ("--reasoning-parser nosuch", "Reasoning parser 'nosuch' not found. Available", "without --reasoning-parser"),
        (
            "--enable-auto-tool-choice --tool-call-parser nosuch",
            "invalid tool call parser: nosuch (chose from { apertus,",
            "without --tool-call-parser nosuch",
        ),
        (
            "--enable-auto-tool-choice --tool-call-parser qwen3-coder",
            "invalid tool call parser: qwen3-coder",
            "--tool-call-parser qwen3_coder",
        ),
        ("--enable-auto-tool-choice", "Error: --enable-auto-tool-choice requires --tool-call-parser", "without"),
        ("--max-model-len 131072", "is greater than the derived max_model_len", "--max-model-len 40960"),
    ],
)
def test_what_vllm_refuses_is_refused_in_its_words_and_something_works(flags: str, words: str, fix: str) -> None:
    answer = planned(flags, advise=True)
    assert answer.verdict.outcome == "fails" and words in answer.verdict.message
    assert answer.advice is not None and answer.advice.fixes[0].change.label.startswith(fix)
    assert answer.advice.fixes[0].change.label in screen(answer)


def test_a_parser_of_a_plug_in_or_of_a_newer_release_is_known_there() -> None:
    assert planned("--enable-auto-tool-choice --tool-call-parser mine --tool-parser-plugin mine.py").fits
    assert planned("--tool-call-parser mine").fits  # without automatic tool calls nobody asks for it
    older = planned("--reasoning-parser kimi_k3", engine="vllm==0.21.0", advise=True)
    assert not older.fits and older.advice is not None
    assert [fix.change.label for fix in older.advice.fixes] == ["without --reasoning-parser kimi_k3", "vLLM 0.32.0"]


@pytest.mark.parametrize(("release", "refused"), [("0.27.1", False), ("0.28.0", True)])
def test_a_method_is_refused_by_the_releases_without_it(release: str, refused: bool) -> None:
    assert (
        "Unknown quantization method" in planned("-q bitsandbytes", engine=f"vllm=={release}").verdict.message
    ) == refused


def test_yarn_makes_the_context_longer_until_0_30() -> None:
    scaled = """--max-model-len 131072 --hf-overrides '{"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}'"""
    assert planned(scaled, engine="vllm==0.29.0").fits
    newer = planned(scaled, engine="vllm==0.30.0", advise=True)  # config/model.py:2592 (0.32.0)
    assert not newer.fits and newer.advice is not None
    assert any("max_position_embeddings" in fix.change.label for fix in newer.advice.fixes)


def test_more_than_the_safe_utilisation_is_said() -> None:
    assert any("is above" in note for note in planned("--gpu-memory-utilization 0.98", "H200").warnings)
    assert not any("is above" in note for note in planned("--gpu-memory-utilization 0.9", "H200").warnings)
    safe, reason = engine_of(planned().deployment).safe_share(planned())
    assert 0.9 < safe < 1 and reason


def test_a_flag_that_the_release_lacks_is_the_verdict_of_a_diff() -> None:
    before = with_gpus(parse(f"{QWEN} --swap-space 4", "vllm==0.8.5"), "H100")
    after, sentences = engine_of(before).at_release(before, "0.32.0")
    answer = diff(before, after, sentences)
    assert answer.after.verdict.outcome == "fails" and "--swap-space is gone" in answer.after.verdict.message


def test_a_release_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("diff --gpu H100 --from vllm==0.21.0 --to vllm==0.99.0", "plan --gpu H100 --engine vllm==0.99.0"):
        with pytest.raises(SystemExit) as done:
            main([*command.split(), "--", *QWEN.split()])
        assert done.value.code == 2 and "vLLM 0.99.0 is not a release that is known" in capsys.readouterr().err


@pytest.mark.parametrize("flags", ["--num-gpu-blocks-override 10", "--kv-cache-memory-bytes 1G"])
def test_a_cache_of_a_set_size_is_what_is_too_small(flags: str) -> None:
    text = screen(planned(flags))
    assert "WILL NOT START" in text and "]!! 5.62 of" in text and "set for the KV cache" in text
