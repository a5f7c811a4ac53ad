"""Small decisions of SGLang on both sides of their bounds (`make mutants`)."""

from types import SimpleNamespace
from typing import Any

import pytest

from oomph.engines.sglang.resolve import steps


@pytest.mark.parametrize(
    ("is_large", "requests", "mib"), [(True, 399, 7), (True, 400, 3072), (True, None, 7), (False, 400, 5)]
)
def test_what_images_leave_behind(
    monkeypatch: pytest.MonkeyPatch, is_large: bool, requests: int | None, mib: int
) -> None:
    """The cache of features is larger for 400 requests and more, on a large Hopper card only; of others it is none."""
    monkeypatch.setattr(steps, "_is_large_hopper", lambda *_: is_large)
    shape: Any = SimpleNamespace(is_multimodal=True)
    facts: Any = SimpleNamespace(memory=SimpleNamespace(embedding_cache=5, feature_cache=7))
    deployment: Any = SimpleNamespace(environment={}, flags={"max_running_requests": requests})
    assert steps._image_cache(shape, facts, deployment, None) == mib  # type: ignore[arg-type]
