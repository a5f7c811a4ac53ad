"""What happens to MXFP4 experts on the GPU once they are loaded; steps as in facts/vllm/repack.py."""

from oomph.facts.changes import changes
from oomph.facts.vllm.expert_kernels import MXFP4_TRTLLM, MXFP4_TRTLLM_8, TRITON
from oomph.facts.vllm.experts_case import ExpertsCase, Step, drop, marlin_values
from oomph.units import round_up


def _mxfp4(case: ExpertsCase) -> list[Step]:
    """triton_kernels' hopper_value.py: tiles of 16 x 32 bytes; oracle/mxfp4.py (0.25.0) drops the scales it copied."""
    return [*_mxfp4_on(case, (16, 32), doubled=False), *drop("w13_weight_scale", "w2_weight_scale")]


def _mxfp4_fours(case: ExpertsCase) -> list[Step]:
    """mxfp4_utils.py (0.26.0): the groups of scales are padded to whole fours first; 560 KiB a layer of gpt-oss-20b."""
    steps = _mxfp4_on(case, (16, 32), doubled=False, groups=4)
    return [*steps, *drop("w13_weight_scale", "w2_weight_scale")]


def _mxfp4_kept(case: ExpertsCase) -> list[Step]:
    return _mxfp4_on(case, (16, 32), doubled=False)


def _mxfp4_padded(case: ExpertsCase) -> list[Step]:
    """hopper_value.py of 0.17.0 to 0.21.0: SWIZZLE_ALIGN_M = SWIZZLE_ALIGN_K = 64, by a copy of its own."""
    return _mxfp4_on(case, (64, 64), doubled=True)


def _mxfp4_on(case: ExpertsCase, tile: tuple[int, int], *, doubled: bool, groups: int = 2) -> list[Step]:
    if case.kernel == TRITON:
        return _mxfp4_triton(case, tile, doubled, groups)
    if case.kernel in (MXFP4_TRTLLM, MXFP4_TRTLLM_8):
        return _mxfp4_trtllm(case)
    return _mxfp4_marlin(case)


def _mxfp4_early(case: ExpertsCase) -> list[Step]:
    """The wheel has Triton's kernels since 0.12.0 (vllm/third_party); before, Hopper takes Marlin too. The container
    image had them: gpt-oss-120b printed 64.38 GiB there and 65.97 GiB from the wheel (0.11)."""
    return _mxfp4_trtllm(case) if case.kernel in (MXFP4_TRTLLM, MXFP4_TRTLLM_8) else _mxfp4_marlin(case)


def _mxfp4_marlin(case: ExpertsCase) -> list[Step]:
    """marlin_utils_fp4.py prepare_moe_mxfp4_layer_for_marlin."""
    steps = marlin_values(case)
    for name, n, k in case.rows:
        scales = n * (k // 32)
        steps += [
            ("wide", case.dtype_bytes * case.experts * scales),
            (f"{name}y", scales, case.experts),
            (f"{name}s", case.experts * scales),
            *drop("wide", f"{name}y"),
        ]
    if case.bias:
        steps += [
            ("w13b", case.experts * case.rows[0][1] * case.dtype_bytes),
            ("w2b", case.experts * case.rows[1][1] * case.dtype_bytes),
            *drop("w13_bias", "w2_bias"),
        ]
    return [*steps, *drop("w13_weight", "w2_weight", "w13_weight_scale", "w2_weight_scale")]


def _mxfp4_trtllm(case: ExpertsCase) -> list[Step]:
    """oracle/mxfp4.py:660: shuffled expert by expert; biases in float32."""
    steps: list[Step] = []
    if case.bias:
        steps += [("w13b", 4 * case.experts * case.rows[0][1]), ("w2b", 4 * case.experts * case.rows[1][1])]
    (_, n, k), (_, n2, k2) = case.rows
    steps += [
        ("swapped_s", case.experts * n * (k // 32)),
        ("swapped", case.experts * n * k // 2),
        ("x13", n * k // 2, case.experts),
        ("y13", n * (k // 32), case.experts),
        ("x2", n2 * k2 // 2, case.experts),
        ("y2", n2 * k2 // 32, case.experts),
        ("w13'", case.experts * n * k // 2),
        ("w13s", case.experts * n * (k // 32)),
        ("w2'", case.experts * n2 * k2 // 2),
        ("w2s", case.experts * n2 * k2 // 32),
        *drop("x13", "y13", "x2", "y2", "swapped", "swapped_s", "w13_weight", "w2_weight"),
    ]
    return [*steps, *drop("w13_weight_scale", "w2_weight_scale", *(["w13_bias", "w2_bias"] if case.bias else []))]


def _mxfp4_triton(case: ExpertsCase, tile: tuple[int, int], doubled: bool, groups: int) -> list[Step]:
    """mxfp4_utils.py _swizzle_mxfp4 on Hopper, triton_kernels' HopperMXValueLayout and HopperMXScaleLayout.

    Values are padded to whole tiles and packed through int32; the scales are padded to 256 rows and copied, and the
    layer keeps the ones it was created with; biases become float32.
    """
    steps: list[Step] = []
    if case.bias:
        steps += [(f"{name}b", 4 * case.experts * n) for name, n, _ in case.rows]
    for name, n, k in case.rows:
        packed = case.experts * round_up(n, tile[0]) * round_up(k // 2, tile[1])
        steps += [
            *([("pad", packed), ("clone", packed), ("pad", 0)] if doubled else [("clone", packed)]),
            ("moved", packed),
            ("clone", 0),
        ]
        for quarter in ("first", "second", "third", "fourth"):
            steps += _pack_nibbles(quarter, packed)
        steps += [
            ("s2", packed),
            ("m2", packed),
            ("s2", 0),
            ("or1", packed),
            ("m2", 0),
            ("s3", packed),
            ("m3", packed),
            ("s3", 0),
            ("or2", packed),
            *drop("m3", "or1"),
            (f"{name}'", packed),
            ("or2", 0),
            *drop("first", "second", "third", "fourth", "moved"),
        ]
        scale, padded = case.experts * n * (k // 32), case.experts * round_up(n, 256) * round_up(k // 32, groups)
        steps += [
            ("c", scale),
            ("t", scale),
            ("c", 0),
            ("padded", padded),
            ("t", 0),
            (f"{name}s", padded),
            ("padded", 0),
        ]
    return [*steps, *drop("w13_weight", "w2_weight", *(["w13_bias", "w2_bias"] if case.bias else []))]


def _pack_nibbles(name: str, size: int) -> list[Step]:
    """hopper_value.py _compress_fp4(x) | (_compress_fp4(x >> 4) << 16): a quarter of the values, as int32."""
    low: list[Step] = [
        ("x", size),
        ("a", size),
        ("b", size),
        ("a", 0),
        ("a", size),
        ("c", size),
        ("a", 0),
        ("low", size),
        *drop("b", "c", "x"),
    ]
    high: list[Step] = [
        ("nibble", size // 4), ("x", size), ("a", size), ("b", size), ("a", 0), ("a", size), ("c", size), ("a", 0),
        ("high", size), *drop("b", "c", "x", "nibble"), ("shifted", size), ("high", 0),
    ]  # fmt: skip
    return [*low, *high, (name, size), *drop("low", "shifted")]


MXFP4 = changes(
    _mxfp4_early,
    ("0.12.0", _mxfp4_kept),
    ("0.17.0", _mxfp4_padded),
    ("0.22.0", _mxfp4_kept),
    ("0.25.0", _mxfp4),
    ("0.26.0", _mxfp4_fours),
)
