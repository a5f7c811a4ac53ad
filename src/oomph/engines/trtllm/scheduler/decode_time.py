"""How long attention takes in TensorRT-LLM's steps: of one decode, and of many equal ones as an arithmetic series."""

from oomph.engines.trtllm.scheduler.capacity import Live
from oomph.simulate.config import Group
from oomph.simulate.timing import StepTime

_FAR = 1 << 120


class DecodeTime:
    def __init__(self, time: StepTime, groups: tuple[Group, ...], beams: int) -> None:
        self.time, self.groups, self.beams = time, groups, beams
        self.rates = time.decoding()
        self.spans = [group.span if group.kind == "window" else _FAR for group in groups]

    def step(self, request: Live, tokens: int, *, drafts: int) -> int:
        """One request's part of a step, its slots taken: a chunk of its prompt, or its next token."""
        if not request.decodes:
            return self.time.chunk(self.groups, request.computed, tokens)
        if drafts:
            return self.time.chunk(self.groups, request.prompt + request.new - 1, 1 + drafts)
        return self.series(request.tokens - 1, 1)

    def steps(self, requests: list[Live]) -> int:
        """One step of requests that decode a token each, whose slots are not taken yet."""
        contexts = [request.tokens + (request.tokens - request.prompt < request.max_new) for request in requests]
        ticks = sum(
            rate * (sum(contexts) if span == _FAR else sum(min(span, context) for context in contexts))
            for rate, span in zip(self.rates, self.spans)
        )
        return ticks * self.beams

    def all_series(self, contexts: list[int], count: int) -> int:
        """`series` of requests with so many tokens each: without a window their sum is enough."""
        read = count * sum(contexts) + len(contexts) * (count * (count + 1) // 2)
        ticks = self.beams * read * sum(rate for rate, span in zip(self.rates, self.spans) if span == _FAR)
        for rate, span in zip(self.rates, self.spans):
            if span != _FAR:
                ticks += self.beams * rate * sum(_read(tokens, count, span) for tokens in contexts)
        return ticks

    def series(self, tokens: int, count: int) -> int:
        """Of so many steps, the first of which has tokens + 1 in its cache."""
        return self.beams * sum(rate * _read(tokens, count, span) for rate, span in zip(self.rates, self.spans))


def _read(tokens: int, count: int, span: int) -> int:
    """Cached tokens that so many steps read, of which a window holds no more than its span."""
    growing = max(0, min(count, span - tokens))
    return growing * tokens + growing * (growing + 1) // 2 + (count - growing) * min(span, tokens + count)
