"""--disable-sliding-window: the model without its windows, and no longer than one of them."""

from msgspec.structs import replace

from oomph.ir import Attention, Layer, Mixer, Model


def without_windows(model: Model) -> Model:
    """config/model.py:901 (0.32.0): the longest sequence is capped to the window, then the window is taken out of the
    config, so that every layer keeps all its tokens."""
    windows = [m.window for layer in model.layers for m in layer.mixers if isinstance(m, Attention) and m.window]
    if not windows:
        return model
    window = min(windows)
    layers = tuple(replace(layer, mixers=tuple(_whole(m) for m in layer.mixers)) for layer in model.layers)
    drafts: tuple[Layer, ...] = tuple(
        replace(layer, mixers=tuple(_whole(m) for m in layer.mixers)) for layer in model.drafts
    )
    whole = replace(model, layers=layers, drafts=drafts)
    derived = float(model.param("derived_max_len", model.max_position) or 0)
    if window >= derived > 0:
        return whole
    capped: tuple[tuple[str, int | float | str], ...] = (("derived_max_len", window), ("max_len_key", "sliding_window"))
    return replace(whole, max_position=window, params=(*capped, *whole.params))


def _whole(mixer: Mixer) -> Mixer:
    if isinstance(mixer, Attention) and mixer.kind == "sliding_window":
        return replace(mixer, kind="full", window=0)
    return mixer
