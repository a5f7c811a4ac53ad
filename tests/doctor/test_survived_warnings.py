"""What an engine warns of has not ended it, whatever errors the warning names."""

import pytest

from oomph.doctor.explain import explain

HEAD = "(APIServer pid=7) INFO 11-16 10:09:51 [api_utils.py:273] non-default args: {'model': 'Qwen/Qwen3-8B'}\n"
WARNINGS = (
    "(APIServer pid=7) WARNING 11-16 10:09:51 [system_utils.py:299] Found ulimit of 20000 and failed to automatically"
    " increase with error current limit exceeds maximum limit. This can cause fd limit errors like `OSError: [Errno 24]"
    " Too many open files`. Consider increasing with ulimit -n",
    "(EngineCore pid=9) WARNING 11-16 10:36:35 [flashinfer.py:369] Failed to connect to NVIDIA artifactory:"
    " HTTPSConnectionPool(host='edge.urm.nvidia.com', port=443): Max retries exceeded with url: /artifactory/sw",
    "(EngineCore pid=9) WARNING 11-16 10:36:35 [topk_topp_sampler.py:40] FlashInfer is not used: ModuleNotFoundError:"
    " No module named 'flashinfer'",
)
GATED = "OSError: You are trying to access a gated repo.\n403 Client Error.\n"
READY = "(APIServer pid=7) INFO:     Application startup complete.\n"


@pytest.mark.parametrize("warning", WARNINGS)
def test_a_start_that_goes_on_behind_a_warning_has_not_failed(warning: str) -> None:
    assert explain(HEAD + warning + "\n").failed is not True
    assert explain(HEAD + warning + "\n" + READY).failed is False


@pytest.mark.parametrize("warning", WARNINGS)
def test_what_ends_the_run_behind_a_warning_is_the_cause(warning: str) -> None:
    answer = explain(HEAD + warning + "\n" + GATED)
    assert (answer.failed, answer.cause.id) == (True, "N03")


def test_the_same_words_that_end_a_run_are_a_failure() -> None:
    assert explain(HEAD + "OSError: [Errno 24] Too many open files\n").cause.id == "N28"
