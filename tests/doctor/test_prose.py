"""What is learned of people's words stands beside the rules, and only where nothing else says the stage."""

from pathlib import Path

import pytest

import oomph
from oomph.doctor.reading import prose
from oomph.doctor.reading.meanings import ORDER
from oomph.doctor.reading.stages import Death, weighed
from oomph.errors import OomphError
from oomph.ir.evidence import StageBasis, asserts

TOLD = (
    "We run vLLM on one card. The weights are loaded, the KV cache is there, and halfway through capturing the CUDA "
    "graphs the card is full and the process exits with CUDA out of memory. With --enforce-eager it starts."
)


def test_probabilities_sum_to_one_and_leave_out_what_an_engine_does_not_have() -> None:
    chances = prose.learned_chances(TOLD)
    assert sum(chances.values()) == pytest.approx(1) and set(chances) == set(ORDER)
    without = prose.learned_chances(TOLD, ("cudagraph_capture",))
    assert sum(without.values()) == pytest.approx(1) and "cudagraph_capture" not in without
    assert max(chances, key=lambda stage: chances[stage]) == "cudagraph_capture"


def test_a_short_text_tells_nothing() -> None:
    assert prose.learned_chances("CUDA out of memory") == {}


def test_both_count_alike() -> None:
    chances = prose.mixed({"weights_load": 0.8}, {"weights_load": 0.2, "kv_check": 0.5, "other": 0.3})
    assert chances["weights_load"] == pytest.approx(0.5)
    assert chances["kv_check"] == pytest.approx(0.5 * 0.1 + 0.5 * 0.5)
    assert sum(chances.values()) == pytest.approx(1)


@pytest.mark.parametrize("basis", ["message", "traceback", "status", "plan", "milestone", "the log ends here"])
def test_what_a_program_says_is_not_weighed(basis: StageBasis) -> None:
    death = Death(True, "weights_load", basis)
    assert weighed(death, TOLD) is death


def test_a_log_with_a_sentence_is_read_by_its_log() -> None:
    log = (Path(__file__).parent / "fixtures" / "P03.log").read_text(encoding="utf-8")
    alone, with_words = (oomph.explain(text, plan=False) for text in (log, f"{TOLD}\n\n{log}"))
    assert asserts(alone.stage_basis) and with_words.stage == alone.stage


def test_the_model_is_small_and_its_answer_stays_the_same() -> None:
    stored = Path(prose.__file__).with_name("prose.json")
    assert stored.stat().st_size < 300_000
    assert prose.learned_chances(TOLD) == prose.learned_chances(TOLD + "  ")
    assert prose.hashed_grams("a server with 24 GiB of memory that is used by 3 users at once and then it is gone") == (
        prose.hashed_grams("a server with 80 GiB of memory that is used by 7 users at once and then it is gone")
    )


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        # no word that is known says that it failed, and for memory
        ("vllm 0.10 auf einer 4080: beim Einlesen der Gewichtsdateien kommt er nur bis zur Hälfte, dann wird ihm die "
         "Karte zu klein. Mit einem kleineren Modell habe ich das nie gesehen.", "weights_load"),
        ("SGLang on an L4: the pool of tokens is there, it begins to record graphs for decode and at a batch of 96 the "
         "card has nothing more to give, so I am back at the prompt.", "cudagraph_capture"),
    ],
)  # fmt: skip
def test_a_failure_in_unknown_words_is_read(text: str, stage: str) -> None:
    answer = oomph.explain(f"{text}\n", plan=False)
    assert answer.failed and stage in {one.stage for one in answer.stages} and not answer.cause.sure


@pytest.mark.parametrize(
    "text",
    [
        "We used to see out of memory crashes with vLLM 0.8 every night. Since the new release it has been quiet.",
        "Früher ist vLLM nachts mit Speichermangel gestorben, mit der neuen Version läuft es seit Wochen.",
        "之前 vllm 经常显存不足崩溃,换了新版本以后一直很稳定,跑了一个月。",
        "I have read about people running out of memory with this model in vLLM. Will 48 GB be enough for 8 users?",
    ],
)
def test_what_was_once_or_is_only_heard_of_is_no_failure_and_no_all_clear(text: str) -> None:
    assert oomph.explain(f"{text}\n", plan=False).failed is None


def test_a_text_about_something_else_is_still_refused() -> None:
    recipe = "Cut two onions, fry them in butter until they are golden, then add the rice and stir for three minutes."
    with pytest.raises(OomphError):
        oomph.explain(f"{recipe}\n", plan=False)
