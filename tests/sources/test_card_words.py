"""Cards as people say them: counts in their languages, nodes, amounts; and what is never guessed."""

import pytest
from hypothesis import given, strategies as st

from oomph.errors import CommandError
from oomph.facts.cards import CARDS
from oomph.sources.gpu import parse_gpus
from oomph.units import GIB

SAID = {
    "7900xtx": (1, "RX 7900 XTX"),
    "2x7900xtx": (2, "RX 7900 XTX"),
    "7900xtx x2": (2, "RX 7900 XTX"),
    "两张4090": (2, "RTX 4090"),
    "4090双卡": (2, "RTX 4090"),
    "8卡A100 80G": (8, "A100 SXM 80GB"),
    "４０９０双卡": (2, "RTX 4090"),
    "4090を2枚": (2, "RTX 4090"),
    "4090 2장": (2, "RTX 4090"),
    "dual 3090s": (2, "RTX 3090"),
    "a pair of 3090s": (2, "RTX 3090"),
    "my 4090": (1, "RTX 4090"),
    "a single 4090": (1, "RTX 4090"),
    "zwei RTX 3090 Karten": (2, "RTX 3090"),
    "zwei 4090er": (2, "RTX 4090"),
    "deux RTX 3090": (2, "RTX 3090"),
    "cuatro A6000": (4, "RTX A6000"),
    "две 4090": (2, "RTX 4090"),
    "mac studio m3 ultra 512": (1, "Apple M3 Ultra 512GB"),
    "8x H100 80GB SXM5": (8, "H100 SXM"),
    "rtx 6000 pro": (1, "RTX PRO 6000"),
    "4090 mobile": (1, "RTX 4090 Laptop"),
    "mac mini m4 with 16gb ram": (1, "Apple M4 16GB"),
    "24 gb vram": (1, "24 gb GPU"),
    "deux A100 80 Go": (2, "A100 SXM 80GB"),
    "RTX 4090 두 장": (2, "RTX 4090"),
    "2 枚の RTX 4090": (2, "RTX 4090"),
}


@pytest.mark.parametrize("text", SAID)
def test_a_count_in_words_is_that_many_of_the_card(text: str) -> None:
    devices = parse_gpus(text)
    assert (len(devices), {device.name for device in devices}) == (SAID[text][0], {SAID[text][1]})


@pytest.mark.parametrize("text", ["8 x h100 nodes x2", "2 nodes x 8 H100", "two nodes with 8 H100 each", "两台8卡H100"])
def test_nodes_are_machines_of_their_own(text: str) -> None:
    devices = parse_gpus(text)
    assert [device.node for device in devices] == [0] * 8 + [1] * 8


def test_and_is_a_list() -> None:
    assert [device.name for device in parse_gpus("a 4090 und eine 3090")] == ["RTX 4090", "RTX 3090"]


@pytest.mark.parametrize("text", ["4090 with 64gb ram", "2x 4090, 64GB RAM", "4090 + 3090 and 64 GB of system ram"])
def test_the_hosts_memory_is_told_beside_the_cards(text: str) -> None:
    gpus = parse_gpus(text)
    assert len(gpus) == 1 + (text[0] == "2" or "+" in text) and {gpu.host_bytes for gpu in gpus} == {64 << 30}
    assert parse_gpus("mac mini m4 with 16gb ram")[0].host_bytes == 0  # its memory is the GPU's


def test_amounts_are_read_in_words() -> None:
    assert parse_gpus("4090 with 2gib used")[0].used_bytes == 2 * GIB
    (card,) = parse_gpus("24gb card, 20gib free")
    assert card.total_bytes - card.used_bytes == 20 * GIB


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("780m", "shares the machine's memory"),
        ("3090 or 4090", "a choice"),
        ("64gb ram", "name the card too"),
        ("4090 30gib free", "more cannot be free"),
        ("三张显卡", "not in the table"),
    ],
)
def test_what_is_not_a_card_is_asked_for(text: str, part: str) -> None:
    with pytest.raises(CommandError, match=part):
        parse_gpus(text)


@given(st.sampled_from(CARDS), st.text(alphabet="bcfhjkqwvz仓谷水冷가나щж", min_size=4, max_size=8))
def test_a_word_that_is_not_known_is_never_dropped(card: object, word: str) -> None:
    with pytest.raises(CommandError):
        parse_gpus(f"{getattr(card, 'name')} {word}")  # noqa: B009


@given(st.sampled_from(CARDS), st.sampled_from(["", " "]), st.integers(2, 16))
def test_a_count_is_never_read_out_of_a_cards_number(card: object, space: str, count: int) -> None:
    name = str(getattr(card, "name")).lower()  # noqa: B009
    if "strix" not in name and "max+" not in name:
        assert len(parse_gpus(name.replace(" ", ""))) == 1
        assert len(parse_gpus(f"{count}x{space}{name}")) == count


@pytest.mark.parametrize("text", ["16 gb 5060 ti", "16-GB RTX 5060 Ti", "a 16 GB 5060 Ti"])
def test_a_size_with_a_blank_may_stand_before_the_card(text: str) -> None:
    assert [device.name for device in parse_gpus(text)] == ["RTX 5060 Ti 16GB"]
