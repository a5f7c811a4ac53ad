"""Random engines and workloads, small enough to be stepped literally and mean enough to run short of everything."""

from __future__ import annotations

import random
from collections.abc import Iterator

from msgspec.structs import replace

from oomph.simulate.config import Config, Group, Job
from oomph.simulate.timing import MILLISECOND, StepTime


class Listed:
    """Jobs at given times; each may be followed by others of the same user."""

    def __init__(self, jobs: list[Job], replies: dict[int, tuple[Job, int]]) -> None:
        self.list, self.replies = jobs, replies

    def jobs(self) -> Iterator[Job]:
        return iter(sorted(self.list, key=lambda j: (j.at, j.id)))

    def done(self, job: Job, at: int) -> Job | None:
        if job.id not in self.replies:
            return None
        reply, pause = self.replies[job.id]
        return Job(reply.id, at + pause, reply.prompt, reply.output, reply.chain, reply.priority)


def groups(r: random.Random, shared: bool, spec: int) -> tuple[Group, ...]:
    size = r.choice([1, 2, 4, 8, 16])
    kinds = r.choice([
        ("full",), ("full",), ("full", "window"), ("window",), ("full", "window", "window"), ("full", "chunk"),
        ("full", "state"), ("full", "align"), ("full", "all"), ("align",),
    ])  # fmt: skip
    out = []
    for kind in kinds:
        count = r.choice([1, 1, 2, 5])
        wide = kind == "full" and len(kinds) > 1 and "chunk" not in kinds and "align" not in kinds
        b = size * r.choice([1, 1, 2]) if wide else size
        if kind == "window":
            out.append(Group("window", b, r.randint(1, 60), 0, count))
        elif kind == "chunk":
            out.append(Group("chunk", b, b * r.randint(1, 8), 0, count))
        elif kind == "state":
            out.append(Group("state", 64, 0, 0, count, first=r.randint(1, 2)))
        elif kind in ("align", "all"):
            inner = r.choice([0, 1, 1, 2]) if kind == "align" else 0
            out.append(Group(kind, b, 0, 0, count, drafts=spec, checkpoint=inner))  # type: ignore[arg-type]
        else:
            out.append(Group("full", b, 0, 0, count))
    return tuple(dict.fromkeys(out))


def config(r: random.Random, shared: bool) -> Config:
    length = r.choice([24, 40, 40, 100, 240])
    seqs = r.choice([1, 2, 4, 8, 16])
    batched = max(seqs, r.choice([8, 16, 64, 200]))
    lag = r.randint(0, 1)
    spec = r.choice([0, 0, 0, 2, 3])
    made = groups(r, shared, spec)
    in_flight = batched * (1 + lag)
    made = tuple(
        Group(g.kind, g.block_size, g.span, -(-min(g.span + in_flight, length) // g.block_size) + 1, g.count)
        if g.kind in ("window", "chunk")
        else g
        for g in made
    )
    one = sum(g.count * (2 + spec if g.kind == "align" else g.required(length)) for g in made)
    chunked = any(g.kind == "chunk" for g in made)
    inner = any(g.checkpoint for g in made)  # 0.32 and later, with the rules of that release
    return Config(
        groups=made,
        num_blocks=1 + max(2, int(one * r.choice([0.5, 1.0, 1.2, 2, 5]))),
        max_num_seqs=seqs,
        max_num_batched_tokens=batched,
        max_model_len=length,
        gate=r.choice(["chunk", "full", "capped", "capped"]),
        watermark_blocks=r.choice([0, 0, 0, 3]),
        lag=lag,
        known_end=r.random() < 0.9,
        settled=bool(r.randint(0, 1)),
        stale_waits=bool(r.randint(0, 1)),
        max_scheduled=r.choice([0, 0, 0, max(seqs, batched // 2)]),
        spec_tokens=spec,
        lookahead=r.choice([0, spec]),
        lookahead_first=bool(r.randint(0, 1)),
        draft_slots=r.choice([0, 0, 1]) if spec else 0,
        pad_drafts=r.choice(["no", "running", "any"]),
        drafts_stay=r.random() < 0.3,
        accepted=r.randint(0, 1000 * spec),
        prefix_caching=shared,
        drop_last_hit=bool(spec and shared and r.randint(0, 1)) and not chunked,
        eagle=r.choice(["each", "spiral", "simple", "once", "past"]),
        kept="replay" if inner else r.choice(["all", "reachable", "replay"]),
        replays=r.choice([1, 2]),
        split="resend" if inner else r.choice(["prompt", "block", "common", "stops", "wide", "resend"]),
        align_frees="range" if inner else r.choice(["last", "margin", "range"]),
        same_step_waits=bool(r.randint(0, 1)),
        uncached_first=bool(r.randint(0, 1)),
        policy=r.choice(["fcfs", "fcfs", "fcfs", "priority"]),
        victim_by_place=bool(r.randint(0, 1)),
        long_prefill_threshold=r.choice([0, 0, 0, 7]),
        alone_unthrottled=bool(r.randint(0, 1)),
    )


def time(r: random.Random, n: int) -> StepTime:
    mixture = r.random() < 0.3
    server = r.choice([0, 0, 1, 10**9, 10**11])
    return StepTime(
        base=r.choice([0, 1, 1000]) * MILLISECOND // 1000 + 1,
        sequence=r.choice([0, r.randint(0, 10**8)]),
        token=r.choice([0, r.randint(0, 10**7)]),
        weights=r.randint(0, 10**9),
        linear=r.randint(0, 10**8),
        head=r.randint(0, 10**8),
        head_linear=r.randint(0, 10**7),
        experts=r.randint(1, 10**9) if mixture else 0,
        expert_linear=r.randint(0, 10**8) if mixture else 0,
        num_experts=8 if mixture else 0,
        top_k=2 if mixture else 0,
        kv=tuple(r.randint(0, 10**7) for _ in range(n)),
        attention=tuple(r.randint(0, 10**7) for _ in range(n)),
        request=server,
        prompt_token=r.choice([0, server // 50]),
        response=r.choice([0, server]),
        stream=r.choice([0, server // 20]),
        output=r.choice([0, 0, r.randint(0, 10**10)]),
        reduce=r.choice([0, r.randint(0, 10**7)]),
        reduce_large=r.choice([0, r.randint(0, 10**6)]),
        large=r.choice([0, 4, 64]),
    )


def workload(r: random.Random, c: Config, shared: bool) -> Listed:
    jobs, replies = [], {}
    count = r.randint(1, 22)
    gap = r.choice([0, 10**9, 10**11, 10**12, 10**19])
    at = 0
    for i in range(count):
        at += r.randint(0, gap) if gap else 0
        prompt = r.randint(1, max(1, c.max_model_len + (2 if r.random() < 0.05 else -2)))
        if r.random() < 0.5:
            prompt = max(1, prompt // 3)
        chain: tuple[tuple[int, int], ...] = ()
        if shared and r.random() < 0.8:
            chain = tuple((r.randint(1, 3), r.choice([4, 16, 20, 33])) for _ in range(r.randint(1, 3)))
        job = Job(i, at, prompt, r.randint(1, c.max_model_len), chain, r.randint(0, 2))
        if i and r.random() < 0.3:
            replies[jobs[-1].id] = (job, r.choice([1, 10**6, 10**12]))
            jobs.append(job)
        else:
            jobs.append(job)
    followers = {j.id for j, _ in replies.values()}
    return Listed([j for j in jobs if j.id not in followers], replies)


def case(seed: int) -> tuple[Config, StepTime, Listed, bool]:
    r = random.Random(seed)
    shared = r.random() < 0.35
    c = config(r, shared)
    return c, time(r, len(c.groups)), workload(r, c, shared), shared


def conversation_case(seed: int) -> tuple[Config, StepTime, Listed]:
    """One group that reads everything, under shared prefixes: what is followed in runs of blocks."""
    r = random.Random(f"conversations {seed}")
    c = config(r, True)
    plain = r.random() < 0.7
    if plain:
        seqs = c.max_num_seqs
        c = replace(
            c, spec_tokens=0, lookahead=0, draft_slots=0, accepted=0, drop_last_hit=False, known_end=True,
            policy="fcfs", long_prefill_threshold=0, max_scheduled=0, max_num_batched_tokens=max(seqs, 8),
        )  # fmt: skip
    group = Group("full", r.choice([1, 2, 4, 8, 16]))
    one = group.required(c.max_model_len)
    c = replace(c, groups=(group,), num_blocks=1 + max(2, int(one * r.choice([0.5, 1.0, 1.2, 2, 5]))))
    return c, time(r, 1), workload(r, c, True)


def branching_case(seed: int) -> tuple[Config, StepTime, Listed]:
    """Several kinds of groups under shared prefixes, every other time with a block that EAGLE drops: what hits, hashes
    and the states of recurrent layers are decided by."""
    r = random.Random(f"branches {seed}")
    while True:
        c = config(r, True)
        drops = bool(c.spec_tokens) and all(group.kind != "chunk" for group in c.groups)
        if len({group.kind for group in c.groups}) > 1 and (drops or seed % 2):
            break
    c = replace(c, drop_last_hit=drops and not seed % 2)
    return c, time(r, len(c.groups)), workload(r, c, True)
