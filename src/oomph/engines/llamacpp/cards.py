"""Cards for llama.cpp: the best quantisation that a card holds whole, with every user's context."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from oomph import catalog
from oomph.answers.bare_plan import run
from oomph.commands import parse_command
from oomph.engines.llamacpp.source import gguf_for
from oomph.facts.gpus import GpuRow
from oomph.ir import Deployment, Device, Plan
from oomph.search.best import plan_speed
from oomph.search.cards import Card, Search, headroom
from oomph.search.request import Want, context_grid, user_levels
from oomph.sources import place
from oomph.sources.load import load_once

# Best first: llama.cpp's own order of perplexity (tools/quantize/README.md).
TAGS = ("BF16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q3_K_M", "Q2_K")
FILE = "as it is"  # a file on this machine has no other quantisation
LEAST_CAPABILITY = (6, 0)


def card_search(model: str, request: str) -> Search:
    name = source(model)
    longest = load_once(name).max_position

    def seek(row: GpuRow, count: int, price: float | None, want: Want) -> tuple[Card | None, int]:
        seeker = Seeker(name, row, count, want.context, want.users, request)
        tag = seeker.best()
        if not tag:
            return None, seeker.plans
        users = seeker.most_users(tag)
        plan = seeker.plan(tag, want.context, users)
        assert plan is not None
        card = Card(
            name=row.name,
            count=count,
            memory_bytes=row.total_bytes * count,
            nominal_gb=row.nominal_gb * count,
            price=price,
            checkpoint=name if tag == FILE else f"{name}:{tag}",
            note="",
            command=command(name, tag, want.context, users),
            plan=plan,
            headroom_bytes=headroom(plan),
            users=users,
            longest=seeker.longest(tag, longest),
            speed=plan_speed(plan, load_once(name), want.users),
        )
        return card, seeker.plans

    return Search(seek, least_bytes(name), longest, LEAST_CAPABILITY)


def source(model: str) -> str:
    """A file is what it is; else the checkpoint to convert: the unquantised one of the family, if it is known."""
    if place.is_gguf_file(model):
        return model
    named = load_once(model)
    if named.quantization is None:
        return named.name
    return next((n for n in catalog.variants(named.name) if load_once(n).quantization is None), named.name)


def least_bytes(name: str) -> int:
    """Of the smallest quantisation, less the embedding, which stays in host memory."""
    smallest, _ = gguf_for(name if place.is_gguf_file(name) else f"{name}:{TAGS[-1]}")
    return sum(s.nbytes for s in smallest.stored if s.role not in ("embed", "multimodal"))


class Seeker:
    """One model on one kind and number of cards."""

    def __init__(self, name: str, row: GpuRow, count: int, context: int, users: int, request: str) -> None:
        self.name, self.context, self.users = name, context, users
        self.gpus: tuple[Device, ...] = (row.device(),) * count
        self.release = parse_command(["llama-server", "-m", "model.gguf"], engine=request).engine
        self.plans = 0

    def deployment(self, tag: str, context: int, users: int) -> Deployment:
        file = ["-m", self.name] if tag == FILE else ["-hf", f"{self.name}:{tag}"]
        words = ["llama-server", *file, "-c", str(context * users), "-np", str(users)]
        return replace(parse_command([*words, "-ngl", "99"], engine=self.release), gpus=self.gpus)

    def plan(self, tag: str, context: int, users: int) -> Plan | None:
        """None: does not fit, or only where the uncertain terms are kind."""
        self.plans += 1
        plan = run(self.deployment(tag, context, users))
        safe = plan.fits and all(s.peak_high <= rank.total_bytes for rank in plan.ranks for s in rank.stages)
        return plan if safe else None

    def best(self) -> str:
        tags = (FILE,) if place.is_gguf_file(self.name) else TAGS
        return next((t for t in tags if self.plan(t, self.context, self.users) is not None), "")

    def most_users(self, tag: str) -> int:
        levels = [n for n in user_levels(self.users) if n >= self.users]
        return _last(levels, lambda n: self.plan(tag, self.context, n) is not None)

    def longest(self, tag: str, limit: int) -> int:
        grid = [c for c in context_grid(limit, self.context) if c >= self.context]
        return _last(grid, lambda c: self.plan(tag, c, self.users) is not None)


def _last(values: Sequence[int], good: Callable[[int], bool]) -> int:
    """The last for which it holds; it holds for the first."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if good(values[middle]) else (low, middle)
    return values[low]


def command(name: str, tag: str, context: int, users: int) -> str:
    file = name if tag == FILE else f"{name.rpartition('/')[2]}-{tag}.gguf"
    return f"llama-server -m {file} -c {context * users} -np {users} -ngl 99"
