"""A shortage that is told in figures alone."""

import pytest

from oomph.logs.amounts import tells_shortage

SHORT = (
    "it wants 1.5 GiB that isn't there", "one request takes 5.62 GiB while it has 3.09 to give",
    "298 MiB wanted, 295 MiB there", "minus 0.9 GiB are left for the cache", "there are 95 MiB missing",
    "eine Anfrage braucht 5,62 GiB, übrig sind 3,09 GiB", "für den Cache bleiben -0,9 GiB", "es fehlen 20 MiB",
    "das Modell braucht 41 GiB, da sind aber nur 27,3 GiB", "要 576MB 只剩 571MB", "需要 5.62GiB,可用的只有 3.09GiB",
    "还差 20MB", "the tensors need 18.5 GB and 12 GB are free",
)  # fmt: skip
ENOUGH = (
    "it needs 10 GiB and 20 GiB are free", "the card has 24 GB", "the model takes 5.2 GiB of 24 GiB",
    "I use 10-20 GB of it", "braucht 3 GiB, frei sind 8 GiB", "需要 3GiB,可用 8GiB", "no figures at all", "",
)  # fmt: skip


@pytest.mark.parametrize("text", SHORT)
def test_more_was_wanted_than_was_there(text: str) -> None:
    assert tells_shortage(text)


@pytest.mark.parametrize("text", ENOUGH)
def test_figures_that_go_together_tell_of_no_shortage(text: str) -> None:
    assert not tells_shortage(text)
