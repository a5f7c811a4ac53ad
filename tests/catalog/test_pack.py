"""What is packed is what is read again."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from oomph.catalog.pack import KEYS, pack, pack_names, unpack, unpack_names

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.sampled_from(["full_attention", "x.1.y", "a"])
WORDS = st.sampled_from([*KEYS.values(), "own", "other_key"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=9) | st.dictionaries(WORDS, inner, max_size=5), max_leaves=20
)
NAMES = st.sets(
    st.builds(
        lambda i, j, what: f"model.layers.{i}.mlp.experts.{j}.{what}" if j else f"model.layers.{i}.{what}",
        st.integers(0, 12),
        st.integers(0, 4),
        st.sampled_from(["self_attn.q_proj", "mlp", "self_attn*"]),
    )
)


def plain(value: Any) -> Any:
    """Lists of names are sets: their order is not kept."""
    if isinstance(value, list):
        items = [plain(v) for v in value]
        named = len(items) >= 6 and all(isinstance(v, str) for v in items)
        return sorted(set(items)) if named and any("." in v for v in items) else items
    return {k: plain(v) for k, v in value.items()} if isinstance(value, dict) else value


@given(st.dictionaries(WORDS, VALUES, max_size=6))
def test_round_trip(config: dict[str, Any]) -> None:
    assert plain(unpack(pack(config))) == plain(config)


@given(NAMES)
def test_names_round_trip(names: set[str]) -> None:
    again = unpack_names(pack_names(names))
    assert len(again) == len(names)
    assert set(again) == names


def test_what_it_looks_like() -> None:
    assert pack({"layer_types": ["s", "s", "f"] * 4, "hidden_size": 64}) == {
        "lt": {"~p": [["s", "s", "f"], 12]},
        "h": 64,
    }
    assert pack_names([f"model.layers.{i}.mlp" for i in (0, 1, 2, 5)] + ["lm_head"]) == {
        "lm_head": "",
        "model.layers.#.mlp": "0-2,5",
    }
    experts = [f"model.layers.{i}.experts.{j}.up" for i in range(3) for j in range(8)]
    assert pack_names(experts) == {"model.layers.#.experts.#.up": "0-2 0-7"}
    table = {f"layers.{i}.mlp": {"quant_algo": "FP8"} for i in range(9)}
    assert pack(table) == {"~m": [[{"qa": "FP8"}, {"layers.#.mlp": "0-8"}]]}
    assert unpack(pack(table)) == table
