"""--quantization: a checkpoint that is quantised while it is loaded, and the methods that SGLang refuses for it."""

from functools import lru_cache

from oomph.engines.common.online import quantise_layers
from oomph.errors import CannotPlan
from oomph.facts.sglang.weights import FORMAT_FAMILIES, HABITS, NEED_A_FILE
from oomph.ir import Model, Scheme

# layers/quantization/fp8.py, w8a8_fp8.py: every layer is created in the model's dtype, filled, and made smaller then
_FP8 = Scheme("fp8", 8, "float", "channel", activation="dynamic")
_SCHEMES = {"fp8": _FP8, "w8a8_fp8": _FP8}
_UNCHANGED = ("", "unquant")


def as_loaded(model: Model, quantization: str) -> Model:
    """The model as its layers are when the load has ended."""
    scheme = _SCHEMES.get(quantization) if model.quantization is None else None
    return _quantised(model, scheme) if scheme is not None else model


@lru_cache(maxsize=64)
def _quantised(model: Model, scheme: Scheme) -> Model:
    return quantise_layers(model, scheme, HABITS)


def format_refusal(model: Model, quantization: str) -> str:
    """model_loader/weight_utils.py get_quant_config, configs/model_config.py _verify_quantization (0.5.23)."""
    stored = model.quantization.method if model.quantization is not None else ""
    if not stored:
        if quantization in NEED_A_FILE:
            return f"ValueError: Cannot find the config file for {quantization}"
        if quantization not in (*_SCHEMES, *_UNCHANGED):
            raise CannotPlan(
                f"SGLang's --quantization {quantization} on a checkpoint that is not quantised is not planned: how "
                f"large its layers are then is not known",
                hint="--quantization fp8 is planned, and so is a checkpoint that is quantised already",
            )
        return ""
    stored_family, flag_family = FORMAT_FAMILIES.get(stored, ""), FORMAT_FAMILIES.get(quantization, "")
    same = stored_family == flag_family or (stored_family, flag_family) == ("fp8", "modelopt")
    if same or not stored_family or not flag_family:
        return ""
    return (
        f"ValueError: Quantization method specified in the model config ({stored}) does not match the quantization "
        f"method specified in the `quantization` argument ({quantization})."
    )
