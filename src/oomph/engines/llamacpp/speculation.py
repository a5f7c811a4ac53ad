"""How a server speculates: --spec-type and what follows from it (common/speculative.cpp, common/common.h)."""

from collections.abc import Mapping
from typing import Any

from oomph.facts.llamacpp.builds import SPEC_TYPE_NEEDED_SINCE

DRAFTED = 3  # common_params_speculative_draft::n_max
# The most tokens that are proposed at once: the flag's field, and llama.cpp's default.
_NGRAMS = {
    "ngram-simple": ("ngram_simple_m", 48), "ngram-map-k": ("ngram_map_k_m", 48),
    "ngram-map-k4v": ("ngram_map_k4v_m", 48), "ngram-mod": ("ngram_mod_max", 64), "ngram-cache": ("", 8),
}  # fmt: skip
_TAKES_BACK = ("draft-mtp", "draft-eagle3", "draft-dflash", "draft-dspark")  # need_n_rs_seq


def draft_name(flags: Mapping[str, Any]) -> str:
    return str(flags.get("model_draft") or flags.get("hf_repo_draft") or "")


def spec_types(flags: Mapping[str, Any], build: int) -> tuple[str, ...]:
    """A draft model alone was enough once; since then it is loaded, not used, and given back."""
    types = [word for word in str(flags.get("spec_type") or "").split(",") if word not in ("", "none")]
    types += ["ngram-mod"] if flags.get("spec_default") else []
    if not types and draft_name(flags) and build < SPEC_TYPE_NEEDED_SINCE:
        return ("draft-simple",)
    return tuple(types)


def is_draft_idle(flags: Mapping[str, Any], build: int) -> bool:
    return bool(draft_name(flags)) and not any(kind.startswith("draft") for kind in spec_types(flags, build))


def drafted_tokens(flags: Mapping[str, Any], build: int) -> int:
    """common_speculative_n_max."""
    return max((_proposed(flags, kind) for kind in spec_types(flags, build)), default=0)


def snapshots(flags: Mapping[str, Any], build: int) -> int:
    """need_n_rs_seq: recurrent states that are kept so that drafts can be taken back."""
    takes_back = any(kind in _TAKES_BACK for kind in spec_types(flags, build))
    return _drafted(flags) if takes_back else 0


def _proposed(flags: Mapping[str, Any], kind: str) -> int:
    if kind not in _NGRAMS:
        return _drafted(flags)
    field, usual = _NGRAMS[kind]
    return max(int(flags.get(field, usual)), 0)


def _drafted(flags: Mapping[str, Any]) -> int:
    return max(int(flags.get("draft_max", DRAFTED)), 0)
