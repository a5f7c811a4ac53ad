"""A search tells what it tries, and Ctrl-C ends it with the best so far."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import oomph
from oomph.answers.plan import plan

MODEL, GPUS = "Qwen/Qwen3-8B", "2x RTX 4090"


def test_progress_names_each_checkpoint_and_never_falls_behind() -> None:
    steps: list[tuple[str, int, int]] = []
    result = oomph.fit(MODEL, gpu=GPUS, context=16384, progress=lambda *step: steps.append(step))
    assert result.met and not any("stopped" in note for note in result.notes)
    assert all(0 <= done < total for _, done, total in steps)
    assert any(name == MODEL for name, _, _ in steps)


def test_ctrl_c_gives_the_best_so_far() -> None:
    tried: list[str] = []

    def interrupt(name: str, done: int, total: int) -> None:
        tried.append(name)
        if 2 * done >= total and len(tried) > 1 and done > total // 2 + 1:
            raise KeyboardInterrupt

    result = oomph.fit(MODEL, gpu=GPUS, context=16384, progress=interrupt)
    assert result.pick is not None and any("best so far" in note for note in result.notes)
    assert plan(result.pick.plan.deployment, advise=False).verdict.outcome == "fits"


def test_ctrl_c_before_anything_fits_and_without_progress_is_raised() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        oomph.fit(MODEL, gpu=GPUS, context=16384, progress=interrupt)


def test_ctrl_c_in_a_search_of_files_gives_the_longest_context_so_far() -> None:
    seen = []

    def stop_after(most: int) -> Callable[..., None]:
        def interrupt(_: str, done: int, total: int) -> None:
            seen.append(done)
            if done > most:
                raise KeyboardInterrupt

        return interrupt

    def answer(most: int) -> oomph.Fit:
        return oomph.fit(MODEL, gpu="RTX 3060", engine="llamacpp", progress=stop_after(most))

    whole = answer(1 << 30)
    stopped = answer(max(seen) - 1)
    assert whole.pick is not None and stopped.pick is not None
    assert 8192 <= stopped.pick.point.context <= whole.pick.point.context
    assert [any("best so far" in note for note in one.notes) for one in (stopped, whole)] == [True, False]
    with pytest.raises(KeyboardInterrupt):
        answer(0)


SERVICES = ["vllm serve Qwen/Qwen3-8B", "vllm serve Qwen/Qwen3-Embedding-0.6B --runner pooling"]


def test_ctrl_c_in_pack_gives_shares_that_hold() -> None:
    tried: list[str] = []

    def interrupt(share: str, done: int, total: int) -> None:
        assert done < total
        tried.append(share)
        if len(tried) > 6:
            raise KeyboardInterrupt

    stopped, whole = oomph.pack(SERVICES, gpu="H100", progress=interrupt), oomph.pack(SERVICES, gpu="H100")
    assert stopped.interrupted and not stopped.proven and stopped.outcome == "fits"
    assert "the best so far" in stopped.text() and "nothing better exists" not in stopped.text()
    shares = [sorted(each.share for each in packed.placed) for packed in (stopped, whole)]
    assert all(mine <= best for mine, best in zip(*shares, strict=True)) and whole.proven


def test_ctrl_c_in_pack_before_anything_holds_is_raised() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        oomph.pack(SERVICES, gpu="H100", progress=interrupt)


def test_gpu_and_gpus_are_the_same() -> None:
    log = "torch.OutOfMemoryError: CUDA out of memory."
    assert oomph.explain(log, gpu="RTX 4090").to_dict() == oomph.explain(log, gpus="RTX 4090").to_dict()
    assert oomph.models(gpu="RTX 4090", limit=1).picks == oomph.models("RTX 4090", limit=1).picks
