"""Every class that SGLang's newest release registers is planned, or refused with a sentence that says why."""

import sys
from contextlib import suppress
from pathlib import Path

import pytest

from oomph.errors import OomphError
from oomph.facts.sglang import registry
from oomph.facts.sglang.versions import NEWEST
from oomph.sources.arch import FAMILIES
from oomph.sources.build import build_model

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "sources" / "arch")]
import registry_page  # noqa: E402
from test_every_architecture import LAYERS, every_key  # noqa: E402

CLASSES = registry_page.sglang_classes()


def test_the_list_is_of_the_newest_release() -> None:
    assert registry.RELEASE == NEWEST
    assert len(CLASSES) == 290


def test_every_class_that_is_not_planned_has_a_reason() -> None:
    assert {name for name in CLASSES if not registry.is_planned(name, FAMILIES)} == registry.NOT_PLANNED.keys()
    assert registry.WITHIN.keys() | registry.NOT_PLANNED.keys() <= CLASSES
    assert not registry.WITHIN.keys() & registry.NOT_PLANNED.keys()


@pytest.mark.parametrize("name", sorted(registry.NOT_PLANNED.keys() - FAMILIES.keys()))
def test_what_is_not_planned_is_refused_by_name_and_reason(name: str) -> None:
    with pytest.raises(OomphError, match=f"{name} of a model is not planned: "):
        build_model("a model", {"architectures": [name]})


_DRAFTING = {
    "num_nextn_predict_layers": 1, "mtp_num_hidden_layers": 1, "num_mtp_modules": 1,
    "mtp_hybrid_override_pattern": "*E", "mtp_layers_block_type": ["attention", "moe"],
}  # fmt: skip


@pytest.mark.parametrize("drafter", sorted(registry.WITHIN))
def test_a_draft_layer_is_planned_with_its_target(drafter: str) -> None:
    target, drafts = registry.WITHIN[drafter], 0
    for language in ("llama", "qwen2"):
        for layers in LAYERS.values():
            with suppress(OomphError):
                config = every_key(target, language, {**layers, **_DRAFTING}, language != "llama")
                drafts = max(drafts, len(build_model(target, config).drafts))
    assert drafts
