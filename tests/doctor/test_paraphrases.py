"""681 failures and healthy servers in own words, English, German and Chinese, with the stage that is meant.

Those of vLLM were written from the facts of failures that were made (tests/truth/deaths-0.32.0.jsonl.gz,
tests/doctor/whole), those of llama.cpp and SGLang from what is known of their failures; all before the rules that read
them. "Judged later": 47 written from the facts of failures before the rules were looked at again; the sha256 of their
rows stood in a commit before they were judged. At first sight the stage was asserted or one of two in 41 of 44, the
cause right or half right in 28 of 44; what they showed has been mended since, so they are seen now. "Judged last":
30 more,
hashed alike and judged after that: stage 23 of 27, cause 21 of 27, asserted stages 10 of 10; two of them showed an
advice that was wrong (p148, p157), which was mended too. "Judged afresh": 30
more, hashed alike, and harder: stage 17 of 26, cause right or half right 17 of 26, one refused and one called sure that
was wrong, by the written rules alone; with what is learned from the texts before them (doctor/reading/prose.py) stage
21 of 26. "Judged on 19 November": two draws of 40 and 30, machine lines among them, each hashed and judged once: stage
27 of 35 and 23 of 26, asserted 12 of 12 and 8 of 8, cause right or half right 25 of 36 and 21 of 26, two false alarms
of 4 and one of 4, two refusals in the second; the first draw's classes were closed before the second was written.
"Judged in the afternoon of 19 November": 60
more, hashed and judged once: asserted stages 8 of 8, asserted or one of two 51 of 55, cause right or half right 34 of
56, one false alarm of 4, one refusal, one advice that was said not to help; mended since. 25 more, "judged at the end
of 19 November", behind that: 1 of 2, 19 of 22 and 15 of 22, no false alarm, no refusal. "Judged in the evening of 19
November": 75, a third of them with lines of programs in forms of their own: 13 of 13 (two labels were taken back), 63
of 67 and 53 of 66, one false alarm of 8, one refusal, no false all-clear. 30 more behind that, "judged last on 19
November", oblique on purpose: 1 of 1, 24 of 27 and 15 of 27 (4 more half right), one false alarm of 3, two refusals;
both mended since. 24 more, "judged behind all on 19 November", after that: 3 of 3, 20 of 22 and 16 of 22, one false
alarm of 2, one text of transformers taken for vLLM's. "Judged on 20 November": 62 and 64 ("later"), in nine languages,
a sixth of them questions, wishes and manuals, each hashed and judged once: asserted 19 of 19 and 12 of 12, stage 50 of
52 and 50 of 54, cause right or half right 42 of 52 and 43 of 54, one refusal and none, and false alarms 4 of 9 and 4 of
10: what asserts nothing is told apart since. "Judged last on 20 November": 29 behind that, hardly a line of a program
among them: stage 14 of 18, cause right or half right 13 of 18, false alarms 3 of 11, no refusal. "Judged behind all on
20 November": two draws of 22 and 29: asserted 3 of 3 and 4 of 5, stage 13 of 16 and 15 of 18, false alarms 1 of 6 and 3
of 11, 3 questions refused."""

import json
from pathlib import Path
from typing import Any

import pytest

import oomph
from oomph.ir.evidence import asserts
from oomph.report.screens.explain import where_words

FILE = Path(__file__).parents[1] / "truth" / "paraphrases.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
# where the stage is neither asserted nor one of the two that are named; the second half was judged once: 35 of 40
MISSED = {
    "worked on": 3,
    "judged once": 5,
    "judged later": 1,
    "judged last": 1,
    "judged afresh": 0,
    "judged on 19 November": 2,
    "judged in the afternoon of 19 November": 0,
    "judged at the end of 19 November": 1,
    "judged in the evening of 19 November": 0,
    "judged last on 19 November": 0,
    "judged behind all on 19 November": 0,
    "judged on 20 November": 1,
    "judged later on 20 November": 0,
    "judged last on 20 November": 2,
    "judged behind all on 20 November": 1,
}


@pytest.mark.parametrize("half", MISSED)
def test_the_stage_is_asserted_or_one_of_two(half: str) -> None:
    missed = []
    for row in (row for row in ROWS if row["half"] == half):
        answer = oomph.explain(f"{row['text']}\n", plan=False)
        stages = {row["stage"] or answer.stage, *row["also"]}  # "": it cannot be told
        if row["failed"]:
            assert answer.failed is not False, row["id"]
            assert answer.stage in stages or not asserts(answer.stage_basis), row["id"]
            missed += [row["id"]] if not stages & {answer.stage, *(one.stage for one in answer.stages)} else []
        else:
            assert answer.failed is not True, row["id"]
        assert row["engine"] == (answer.engine.name or "other") or answer.speaker, row["id"]
    assert len(missed) <= MISSED[half], missed


# fact -> the rules that name its cause; a stage that people tell has a cause, not only the words "memory ran out"
CAUSES = {
    "v_free": {"D01"}, "v_weights": {"L01"}, "v_profile": {"P03"}, "v_kvcheck": {"K02"}, "v_nocache": {"K01"},
    "v_capture": {"C01"}, "v_serving": {"R02"}, "v_hostkill": {"H03"}, "v_swap": {"H03", "K13"}, "v_wake": {"R11"},
    "sg_pool2": {"S01"}, "sg_graph2": {"S02"}, "sg_prefill2": {"S03"}, "lc_kv2": {"B02"}, "lc_weights2": {"B01"},
    "lc_compute2": {"B02"}, "ol_ram2": {"O01"}, "trt_kv": {"T02"}, "train2": {"M02"}, "lmdeploy2": {"M02"},
    "v_nccl": {"H01"}, "v_config": {"N18"},
}  # fmt: skip
UNNAMED = {"p84"}  # where the cause is not named


def test_a_failure_that_is_told_has_its_cause() -> None:
    told = [row for row in ROWS if row["fact"] in CAUSES]
    causes = {row["id"]: oomph.explain(f"{row['text']}\n", plan=False).cause.id for row in told}
    assert {row["id"] for row in told if causes[row["id"]] not in CAUSES[row["fact"]]} <= UNNAMED
    assert len(told) >= 36


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("p90", "--max-num-batched-tokens 8192"),  # "With 8192 it is fine."
        ("p91", "--max-num-batched-tokens 8192"),  # "mit 8192 startet alles"
        ("p92", "--max-num-batched-tokens 8192"),
        ("p98", "--enforce-eager"),
        ("p120", "leave out -ub"),
        ("p123", "num_ctx 8192"),
        ("p125", "kv_cache_free_gpu_memory_fraction 0.8"),
        ("p148", "--mem-fraction-static 0.88"),  # not 0.93, with which it failed
        ("p150", "-c 65536"),  # in a line that quotes the engine
    ],
)
def test_the_value_with_which_it_works_is_the_first_advice(name: str, first: str) -> None:
    text = next(row["text"] for row in ROWS if row["id"] == name)
    remedies = oomph.explain(f"{text}\n", plan=False).remedies
    assert remedies[0].change.label == first
    assert "you say" in remedies[0].change.cost


def test_a_stage_that_nobody_tells_is_not_headlined() -> None:
    """The second guess, at a sixth, is no "most likely"; the question between the two is still asked."""
    answer = oomph.explain("vLLM crashes and I do not know why, CUDA out of memory.\n", plan=False)
    assert answer.stages[0].stage == "other" and answer.question is not None
    assert where_words(answer) == "in a stage that this text does not tell"


TWO = """You launch vLLM and it crashes during startup or shortly after with:
ValueError: The model's max seq len (32768) is larger than the maximum number of
tokens that can be stored in KV cache (2048). Try increasing `gpu_memory_utilization`
or decreasing `max_model_len` when initializing the engine.
Or, during serving:
torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB
If there is not enough room for even a minimal KV cache, vLLM refuses to start.
"""


def test_the_line_that_leads_in_to_an_error_tells_its_stage() -> None:
    answer = oomph.explain(TWO, plan=False)
    assert answer.stage == "kv_check" and len(answer.also) == 1
    assert answer.also[0].stages[0].stage == "runtime_request"
    assert "kv_check" not in {one.stage for one in answer.also[0].stages}  # nothing is allocated at a check


def test_a_null_buffer_of_ggml_is_host_memory() -> None:
    text = "GGML_ASSERT: /src/llama.cpp/ggml.c:4411: ctx->mem_buffer != NULL\nAborted\n"
    answer = oomph.explain(text, plan=False)
    assert (answer.stage, answer.cause.id) == ("host_ram", "B05")
    assert not any("-ngl" in one.change.label for one in answer.remedies)


def test_an_engine_that_is_said_not_to_be_there_is_not_taken_for_it() -> None:
    text = next(row["text"] for row in ROWS if row["id"] == "p157")  # "TRL ... no vLLM"
    answer = oomph.explain(f"{text}\n", plan=False)
    assert answer.engine.name == "" and answer.speaker.startswith("TRL")
    assert not any("--" in one.change.label for one in answer.remedies)


def test_what_is_called_sure_is_right() -> None:
    """97 of 100, of what has a label for its cause; nothing that only people tell is called sure."""
    right = []
    for row in (row for row in ROWS if row["failed"] and "rules" in row):
        answer = oomph.explain(f"{row['text']}\n", plan=False)
        if answer.cause.sure:
            quotes = answer.cause.id.startswith("N")  # a program's own words for what is no lack of memory
            assert asserts(answer.stage_basis) or quotes, row["id"]
            right.append(any(answer.cause.id.startswith(rule.rstrip("*")) for rule in row["rules"]))
    assert sum(right) >= 0.97 * len(right) and len(right) >= 10


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        # it went well until a stage: that stage was not passed
        ("vLLM: all is fine until the CUDA graph capture, then the card is out of memory.", "cudagraph_capture"),
        ("vLLM startet sauber bis zur Graph-Aufzeichnung, dann ist die Karte voll.", "cudagraph_capture"),
        # nothing of the model was read yet
        ("vLLM dies with CUDA out of memory, not a single shard was read yet.", "startup_free_memory"),
        ("vllm 权重还没开始加载就报显存不足。", "startup_free_memory"),
        # what one request wants, beside what there is
        ("vLLM: one sequence wants 40 GiB of cache, it has only got 2.5 GiB and quits.", "kv_check"),
    ],
)
def test_words_of_the_fourth_draw_hold_for_other_sentences(text: str, stage: str) -> None:
    answer = oomph.explain(f"{text}\n", plan=False)
    assert answer.failed and answer.stage == stage, (answer.stage, answer.stages)


def test_a_memory_that_is_hardly_used_is_nothing_that_was_tried() -> None:
    """ "显存几乎没用": it was hardly used; not that it was of no use."""
    text = next(row["text"] for row in ROWS if row["id"] == "p105")
    answer = oomph.explain(f"{text}\n", plan=False)
    assert answer.remedies and not any("did not help" in one.why for one in answer.rejected)


@pytest.mark.parametrize("text", ["vllm 报没有任何显存可以分给缓存块", "vllm 一启动就说算力不够,拒绝启动"])
def test_a_failure_in_few_words_is_not_refused(text: str) -> None:
    assert oomph.explain(f"{text}\n", plan=False).failed
