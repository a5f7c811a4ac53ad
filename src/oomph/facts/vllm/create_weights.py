"""What vLLM's quantisation methods create on the GPU for one layer, before anything is loaded.

The rows are in create_linear.py and create_experts.py; here is what one release makes of them.
"""

from collections.abc import Sequence

from oomph.errors import CannotPlan
from oomph.facts.changes import Facts, changes, since, table
from oomph.facts.vllm.create_experts import EXPERTS, Shape, without_marlin
from oomph.facts.vllm.create_linear import LINEAR, Params
from oomph.ir import Scheme


class Creation(Facts):
    """The rows in force in one release."""

    linear_rows = table(LINEAR)
    experts_rows = table(EXPERTS)
    # Marlin's intermediate features are a multiple of this; later they are padded (auto_gptq.py, auto_awq.py)
    marlin_tile = changes(64, ("0.30.0", 1))
    # compressed_tensors.py CompressedTensorsKVCacheMethod.create_weights (0.15.0); before, as every method has them
    zero_points = since("0.15.0")

    def linear(self, scheme: Scheme | None, n: Sequence[int], k: int, k_full: int, dtype_bytes: int) -> Params:
        if scheme is None:
            return [("weight", sum(n) * k * dtype_bytes)]
        row = self.linear_rows.get((scheme.method, scheme.format)) or self.linear_rows.get((scheme.method, ""))
        if row is None:
            raise CannotPlan(f"what vLLM creates for {scheme.method} {scheme.format} linear layers is not known")
        return row(scheme, n, k, k_full, dtype_bytes)

    def experts_scheme(self, scheme: Scheme | None, hidden: int, inter: int) -> Scheme | None:
        """What the kernels make of experts of one rank's sizes."""
        if scheme is None or scheme.method not in ("awq", "gptq"):
            return scheme
        return without_marlin(scheme, hidden, inter, self.marlin_tile)

    def experts(
        self,
        scheme: Scheme | None,
        here: int,  # experts
        e_all: int,
        hidden: int,
        inter: int,
        inter_full: int,
        dtype_bytes: int,
        shards: int,
        bias: bool,
    ) -> Params:
        """`shards`: 2 for gate and up, 1 for experts without a gate."""
        if scheme is None:
            params = [
                ("w13_weight", here * shards * inter * hidden * dtype_bytes),
                ("w2_weight", here * hidden * inter * dtype_bytes),
            ]
        else:
            row = self.experts_rows.get((scheme.method, scheme.format)) or self.experts_rows.get((scheme.method, ""))
            if row is None:
                raise CannotPlan(f"what vLLM creates for {scheme.method} {scheme.format} experts is not known")
            params = row(
                Shape(
                    scheme,
                    experts=here,
                    e_all=e_all,
                    hidden=hidden,
                    inter=inter,
                    inter_full=inter_full,
                    dtype_bytes=dtype_bytes,
                    shards=shards,
                )
            )
        if bias:
            params = [
                *params,
                ("w13_bias", here * shards * inter * dtype_bytes),
                ("w2_bias", here * hidden * dtype_bytes),
            ]
        return params

    def kv_scales(self, method: str, dtype_bytes: int, kv: str = "") -> int:
        """Bytes of the loadable scales that a quantisation config gives every attention layer: q, k, v and probability
        in the model's dtype (kv_cache.py:33); compressed-tensors three float32 scales and three zero points
        (compressed_tensors.py:1009)."""
        if method == "compressed-tensors" and self.zero_points:
            return 3 * 4 + 3 * dtype_bytes
        if method == "modelopt_mixed" and not kv:  # modelopt.py:1818 (0.32.0): only where the config names a KV dtype
            return 0
        return 4 * dtype_bytes if method in _KV_SCALE_METHODS else 0


def mla_kv_scales(method: str, dtype_bytes: int) -> int:
    """fp8.py and compressed_tensors.py ask for the class Attention, which latent attention is not; modelopt.py takes
    both."""
    return 4 * dtype_bytes if method in _MLA_KV_SCALE_METHODS else 0


_MLA_KV_SCALE_METHODS = frozenset({"modelopt", "modelopt_fp4", "modelopt_mxfp8"})
_KV_SCALE_METHODS = _MLA_KV_SCALE_METHODS | {"fp8", "modelopt_mixed", "compressed-tensors"}
