import pytest

from oomph.errors import InputError
from oomph.facts import dtypes


def test_ggml_table_is_the_gguf_packages() -> None:
    constants = pytest.importorskip("gguf.constants")
    theirs = {int(t): (t.name, tuple(size)) for t, size in constants.GGML_QUANT_SIZES.items()}
    # The package still has Q8_1's scales as two floats; ggml-common.h has them as two halves (no file contains it).
    assert theirs.pop(9) == ("Q8_1", (32, 40))
    assert {i: (name, dtypes.BLOCKS[name]) for i, name in dtypes.GGML.items() if i in theirs} == theirs


@pytest.mark.parametrize(
    ("dtype", "elements", "size"),
    [("BF16", 3, 6), ("F4", 6, 3), ("F6_E2M3", 4, 3), ("BOOL", 5, 5), ("Q4_K", 512, 288), ("F64", 0, 0)],
)
def test_nbytes(dtype: str, elements: int, size: int) -> None:
    assert dtypes.nbytes(dtype, elements) == size


@pytest.mark.parametrize(("dtype", "elements"), [("F4", 3), ("Q4_0", 33), ("Q5_7", 32)])
def test_nbytes_refuses(dtype: str, elements: int) -> None:
    with pytest.raises(InputError):
        dtypes.nbytes(dtype, elements)


def test_bits() -> None:
    assert (dtypes.bits("BF16"), dtypes.bits("Q4_0"), dtypes.bits("F4")) == (16, 4.5, 4)
