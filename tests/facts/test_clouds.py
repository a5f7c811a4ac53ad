import pytest

from oomph.errors import CommandError
from oomph.facts import clouds, gpus
from oomph.sources.gpu import parse_gpus


def test_every_instance_has_a_card_of_the_table():
    for name, (card, count) in clouds.INSTANCES.items():
        assert gpus.find(card).name == card and 1 <= count <= 16, name


@pytest.mark.parametrize(
    ("text", "count", "card"),
    [
        ("g5.12xlarge", 4, "A10G"),
        ("2x g6e.12xlarge", 8, "L40S"),
        ("Standard_NC24ads_A100_v4", 1, "A100 PCIe 80GB"),
        ("nd96isr_H100_v5", 8, "H100 SXM"),
        ("a2-highgpu-1g", 1, "A100 SXM 40GB"),
        ("dual 3090", 2, "RTX 3090"),
        ("two H100s", 2, "H100 SXM"),
        ("2 T4s", 2, "T4"),
        ("Jetson Orin 64", 1, "Jetson AGX Orin 64GB"),
    ],
)
def test_as_people_write_them(text, count, card):
    assert [d.name for d in parse_gpus(text)] == [card] * count


@pytest.mark.parametrize(
    ("text", "said"),
    [("p9.48xlarge", "instance 'p9.48xlarge' is not in the table"), ("M3 Max", "Apple GPU"), ("24", "24GiB")],
)
def test_what_is_not_known_is_said(text, said):
    with pytest.raises(CommandError, match=said):
        parse_gpus(text)
