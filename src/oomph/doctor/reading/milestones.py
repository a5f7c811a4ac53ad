"""How far a log had got: the stage that the last of its closing lines leads into."""

from collections.abc import Sequence

from oomph.doctor.reading.meanings import AFTER_COMPONENTS, BARS, MILESTONES, ORDER, stage_of
from oomph.engines.llamacpp.log import stages as stages_llamacpp
from oomph.facts.loglines import compiled
from oomph.ir import StageName
from oomph.ir.observation import Observation


def milestone(observations: Sequence[Observation]) -> StageName | None:
    best: StageName | None = None
    for observation in observations:
        stage = stage_of(MILESTONES, observation.kind)
        if observation.kind == "blocks_override" and observation.values.get("before") == 0:
            stage = "cudagraph_profile"
        elif observation.kind == "tr_kv":
            stage = _trtllm_pool(observations, observation)
        elif observation.kind == "tr_graphs":  # twice as well: lines of the dummy run follow the first time
            later = {other.kind for other in observations if other.line > observation.line}
            stage = "profile_run" if later & {"tr_weights", "tr_activation", "tr_budget"} else "cudagraph_capture"
        elif observation.kind == "tr_step":
            stage = AFTER_COMPONENTS.get(str(observation.values.get("component", "")))
        elif observation.kind == "bar":
            what = str(observation.values.get("what", "")) or "requests"  # a loop of whoever asks
            stage = next((name for pattern, name in BARS if compiled(pattern).search(what)), None)
        elif observation.kind == "placed":
            stage = next(name for name in ORDER if name == observation.values.get("stage"))
        elif observation.kind == "lc_phase":
            stage = stages_llamacpp.of_function(str(observation.values.get("function", "")))
        if stage and (best is None or ORDER.index(stage) >= ORDER.index(best)):
            best = stage
    return best


def _trtllm_pool(observations: Sequence[Observation], pool: Observation) -> StageName:
    """The line is printed for the temporary pool, with which the peak is measured, and for the real one behind it. A
    built engine has one pool, and nothing to warm up."""
    kinds = {observation.kind for observation in observations if observation.line < pool.line}
    if kinds & {"tr_available", "tr_engine", "tr_context"}:
        return "runtime_request"
    others = {
        observation.values.get("tokens")
        for observation in observations
        if observation.kind == "tr_kv" and observation.line < pool.line
    }
    if kinds & {"tr_budget", "tr_estimate"} or others - {pool.values.get("tokens")}:
        return "cudagraph_capture"
    return "profile_run"
