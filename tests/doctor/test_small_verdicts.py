"""Decisions of the doctor that no other test noticed when one was turned round (`make mutants`)."""

from __future__ import annotations

import pytest

from oomph.doctor.explain import explain
from oomph.doctor.reading.failure import _wraps
from oomph.doctor.reading.guesses import STARTS, starting
from oomph.doctor.remedies import can_be_planned
from oomph.engines.common.inferred import EXTREME
from oomph.ir import Change
from oomph.ir.observation import Observation

CONFIG = """\
(APIServer pid=1) INFO 04-19 12:18:53 [utils.py:233] non-default args: {{'model': 'org/model', \
'gpu_memory_utilization': {share}}}
(APIServer pid=1) INFO 04-19 12:18:53 [model.py:1685] Using max model len 262144
"""


@pytest.mark.parametrize(
    ("remedy", "planned"),
    [
        (Change("a", "--b", flags={"b": 1}), True),
        (Change("a", "B=1", environment={"B": "1"}), True),
        (Change("a", "another", model="o/m"), True),
        (Change("a", "newer", version="0.32.0"), True),
        (Change("a", "--b", "host", flags={"b": 1}), False),
        (Change("a", "restart the driver"), False),
    ],
)
def test_a_remedy_is_planned_where_it_changes_the_command(remedy: Change, planned: bool) -> None:
    assert can_be_planned(remedy) == planned


@pytest.mark.parametrize(
    ("observation", "wraps"),
    [
        (Observation(1, "x_nccl", text="torch.distributed.DistBackendError: NCCL error"), True),
        (Observation(1, "x_nccl", text="NCCL WARN Cuda failure"), False),
        (Observation(1, "x_mismatch", text="torch.distributed.DistBackendError"), False),
        (Observation(1, "x_crash", text=""), True),
        (Observation(1, "x_setting", text=""), True),
    ],
)
def test_a_wrapper_hands_on_what_another_line_says(observation: Observation, wraps: bool) -> None:
    assert _wraps(observation) == wraps


@pytest.mark.parametrize(("share", "named"), [(EXTREME - 0.001, False), (EXTREME, True), (EXTREME + 0.001, True)])
def test_a_share_is_extreme_from_its_bound_on(share: float, named: bool) -> None:
    reason = explain(CONFIG.format(share=share), plan=False).inferred_reason
    assert ("Utilization" in reason) == named


@pytest.mark.parametrize(
    ("source", "starts"),
    [
        (f"engine.py:{STARTS}", True),
        (f"engine.py:{STARTS - 1}", False),
        ("core.py:1510", True),  # vLLM 0.32.0
        ("core.py:1515", True),
        ("core.py:1516", False),
        ("other.py:1510", False),
        ("core.py", False),
    ],
)
def test_where_a_failed_start_is_printed(source: str, starts: bool) -> None:
    assert starting(Observation(1, "engine_failed", {"source": source})) == starts


def test_layers_that_stay_on_the_host_are_counted() -> None:
    log = (
        "load_tensors: offloading 20 repeating layers to GPU\n"
        "load_tensors: offloaded 20/33 layers to GPU\n"
        "load_tensors:          CPU model buffer size =  9000.00 MiB\n"
        "load_tensors:        CUDA0 model buffer size =  9000.00 MiB\n"
    )
    assert "(13 of 33 layers)" in explain(log, plan=False).inferred_reason
