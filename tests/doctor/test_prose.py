"""What is learned of people's words stands beside the rules, and only where nothing else says the stage."""

from pathlib import Path

import pytest

import oomph
from oomph.doctor.reading import prose
from oomph.doctor.reading.meanings import ORDER
from oomph.doctor.reading.stages import Death
from oomph.ir.evidence import asserts

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
def test_what_a_program_says_is_not_weighed(basis: prose.StageBasis) -> None:
    death = Death(True, "weights_load", basis)
    assert prose.weighed(death, TOLD) is death


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
