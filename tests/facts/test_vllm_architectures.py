"""Every architecture of the newest release is planned, or refused with a sentence that names it."""

from __future__ import annotations

import pytest

from oomph.errors import OomphError
from oomph.facts.vllm.architectures import REGISTRY, RELEASE
from oomph.facts.vllm.versions import NEWEST
from oomph.sources.arch import FAMILIES, family
from oomph.sources.build import build_model

NAMES = [name for names in REGISTRY.values() for name in names]


def test_the_list_is_of_the_newest_release() -> None:
    assert RELEASE == NEWEST
    assert len(NAMES) == len(set(NAMES)) > 400


def test_what_is_not_planned_is_refused_by_name() -> None:
    for name in NAMES:
        if name in FAMILIES:
            assert family(name) is not None
            continue
        with pytest.raises(OomphError, match=name):
            build_model("a model", {"architectures": [name]})


def test_the_share_of_language_models_does_not_shrink() -> None:
    assert sum(name in FAMILIES for name in REGISTRY["text"]) >= 98
