"""Every architecture of the newest release is planned, or refused with a sentence that names it."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import pytest

from oomph.errors import OomphError
from oomph.facts.sglang import registry as sglang
from oomph.facts.sglang.facts import at as sglang_at
from oomph.facts.sglang.versions import RELEASES as SGLANG_RELEASES
from oomph.facts.vllm.architectures import NOT_PLANNED, REGISTRY, WITHIN, is_planned
from oomph.facts.vllm.known import GONE, NOT_YET
from oomph.facts.vllm.versions import NEWEST, REGISTRY_OF
from oomph.sources.arch import FAMILIES, family
from oomph.sources.build import build_model

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "sources" / "arch")]
import registry_page  # noqa: E402
from test_every_architecture import LAYERS, every_key  # noqa: E402

NAMES = [name for names in REGISTRY.values() for name in names]


def test_the_list_is_of_the_newest_release() -> None:
    assert REGISTRY_OF == NEWEST
    assert len(NAMES) == len(set(NAMES)) > 400


def test_what_is_not_planned_is_refused_by_name() -> None:
    for name in NAMES:
        if name in FAMILIES:
            assert family(name) is not None
            continue
        with pytest.raises(OomphError, match=name):
            build_model("a model", {"architectures": [name]})


# Transformers' name of what Qwen3OmniMoeForConditionalGeneration serves, for who has written that part alone
PARTS = {"Qwen3OmniMoeThinkerForConditionalGeneration"}


def test_a_family_is_one_that_an_engine_registers_or_refuses_by_name() -> None:
    """Without a registry's name or a row of known.py, every release would be said to serve it."""
    classes = set(sglang.DRAFTERS).union(*(sglang_at(release).models.classes for release in SGLANG_RELEASES))
    assert set(FAMILIES) - {*NAMES, *classes, *NOT_YET, *GONE} == PARTS


def test_the_share_of_the_registry_does_not_shrink() -> None:
    (planned, registered), (drafters, of) = registry_page.counts()
    assert registered == 318 and planned >= 300
    assert of == 63 and drafters >= 45


def test_every_architecture_that_is_not_planned_has_a_reason() -> None:
    missing = {name for _, names in registry_page.KINDS for name in names if not is_planned(name, FAMILIES)}
    assert missing == NOT_PLANNED.keys()
    assert all(reason and "not known" not in reason for reason in NOT_PLANNED.values())


def test_the_page_is_current() -> None:
    assert registry_page.PAGE.read_text(encoding="utf-8") == registry_page.page()


_DRAFTING = {
    "num_nextn_predict_layers": 1, "mtp_num_hidden_layers": 1, "num_mtp_modules": 1,
    "mtp_hybrid_override_pattern": "*E", "mtp_layers_block_type": ["attention", "moe"],
}  # fmt: skip


@pytest.mark.parametrize("drafter", sorted(WITHIN))
def test_a_drafter_of_a_target_is_planned_with_it(drafter: str) -> None:
    target, drafts = WITHIN[drafter], 0
    for language in ("llama", "qwen2"):
        for layers in LAYERS.values():
            with suppress(OomphError):
                config = every_key(target, language, {**layers, **_DRAFTING}, language != "llama")
                drafts = max(drafts, len(build_model(target, config).drafts))
    assert drafts
