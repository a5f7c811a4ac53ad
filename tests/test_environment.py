"""What one test does to the environment is not there in the next, whatever it leaves behind."""

from __future__ import annotations

import os

NAME = "OOMPH_TEST_LEFT_BEHIND"


def test_a_variable_that_is_left_behind() -> None:
    assert NAME not in os.environ
    os.environ[NAME] = "1"


def test_is_gone_in_the_next() -> None:
    assert NAME not in os.environ
    os.environ[NAME] = "1"
