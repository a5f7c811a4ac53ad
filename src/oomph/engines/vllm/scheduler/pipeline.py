"""The engine with a pipeline of stages: as many batches in flight as the engine's queue holds.

EngineCore.step_with_batch_queue (v1/engine/core.py): a batch is scheduled while the queue has room; then the engine
waits for the oldest one. A stage takes its share of a step, and starts when both the stage before it and its own last
batch are done. Nothing is summed here: a request decodes only once every few steps, so that steps are not alike.
"""

from collections import deque

from oomph.engines.vllm.scheduler.loop import FAR, Loop
from oomph.engines.vllm.scheduler.scheduler import Entry
from oomph.simulate.clients import Observer, Workload
from oomph.simulate.config import Config
from oomph.simulate.timing import StepTime


class PipelineLoop(Loop):
    def __init__(self, config: Config, time: StepTime, workload: Workload, observer: Observer, shared: bool) -> None:
        super().__init__(config, time, workload, observer, shared)
        self.summed = False
        self.in_flight: deque[tuple[list[Entry], int]] = deque()  # batches, and when their tokens are known
        self.stage_ends = [0] * config.stages

    def run(self, max_steps: int = FAR) -> bool:
        while self.steps < max_steps:
            self._receive(self.now)
            if self.tail or self.waiting:
                batch = self.schedule()
                if not batch and self._is_stuck():
                    self.leave(self.waiting.popleft(), "never", self.now, 0)
                    continue
                self.in_flight.append((batch, self._launch(batch) if batch else self.now))
                if self._schedules_again(bool(batch)):
                    continue
            elif not self.in_flight:
                if not self._idle():
                    return False
                continue
            batch, end = self.in_flight.popleft()
            self.now = max(self.now, end)
            self.process([], batch, self.now)
        return True

    def _schedules_again(self, executes: bool) -> bool:
        """Whether the engine schedules the next batch before it waits for the oldest one. An empty batch takes a place
        in the queue too; since 0.27 the engine goes on after one."""
        if len(self.in_flight) >= self.c.batches:
            return False
        if self.c.refills:
            return executes or bool(self.tail or self.waiting)
        return executes and self.in_flight[0][1] > self.now

    def _is_stuck(self) -> bool:
        """Nothing is in flight and nothing can start: the engine would try for ever."""
        in_flight = any(batch for batch, _ in self.in_flight)
        return not in_flight and not self.preempted and not self.tail and bool(self.waiting)

    def _launch(self, batch: list[Entry]) -> int:
        """When the last stage is done with a batch that is scheduled now."""
        ticks = self.duration(batch)
        end = self.now
        for stage in range(self.c.stages):
            end = max(end, self.stage_ends[stage]) + ticks // self.c.stages
            self.stage_ends[stage] = end
        self._count(ticks // self.c.stages, 1)
        return end
