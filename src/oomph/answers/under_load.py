"""The same load on one engine after the other: users held, tokens per second, first token, and what ends it.

Only for engines whose scheduler is written down (`simulation` of the protocol); the others have no answer here.
"""

from msgspec import Struct

from oomph.engines.protocol import fills
from oomph.engines.registry import engine_of
from oomph.errors import CommandError
from oomph.ir import Plan


class Demand(Struct, frozen=True):
    """What every user sends and gets, and what "held" means."""

    prompt: int
    output: int
    ttft: float = 2.0  # seconds until the first token, 95th percentile
    tpot: float = 0.05  # seconds per token, 95th percentile; 0 = anything

    def __post_init__(self) -> None:
        if not 1 <= self.prompt <= 1 << 24 or not 1 <= self.output <= 1 << 24:
            raise CommandError(f"--prompt {self.prompt} --output {self.output}: both are numbers of tokens")
        if not 0 < self.ttft < 1e6 or not 0 <= self.tpot < 1e6:
            raise CommandError(f"--ttft {self.ttft:g} --tpot {1000 * self.tpot:g}: both are times above nothing")

    def words(self) -> str:
        each = f", {1000 * self.tpot:g} ms per token" if self.tpot else ""
        return f"{self.prompt:,} tokens in, {self.output:,} out; first token within {self.ttft:g} s{each} (P95)"


class UnderLoad(Struct, frozen=True):
    users: int  # whose times these are: as many as are asked for, or as are held
    users_held: int
    tokens_per_second: float  # of all answers together
    tokens_per_second_each: float
    first_token: float  # seconds, 95th percentile
    per_token: float  # seconds, 95th percentile
    binds: str  # what breaks first with more users than are held
    within_factor: float  # nine of ten published speeds were so near


def under_load(plan: Plan, demand: Demand, users: int) -> UnderLoad | None:
    """`users`: 1 = as many as are held. None: nobody has written this engine's scheduler down."""
    from oomph.simulate import api
    from oomph.simulate.search import most_users
    from oomph.simulate.workloads import Arrivals, shape

    if not fills(engine_of(plan.deployment), "simulation"):
        return None
    setup = api.prepare(plan.deployment)
    target = api.Target(demand.ttft, demand.tpot)
    most = most_users(setup, api.Load(shape("fixed", demand.prompt, demand.output), Arrivals()), target)
    number = users if users > 1 else max(1, most.users)
    result = most.result if number == most.users else None
    if result is None:
        result = api.run(setup, users=number, prompt=demand.prompt, output=demand.output).result
    each = 1 / result.tpot.p50 if result.tpot.p50 else 0.0
    return UnderLoad(
        number,
        users_held=most.users,
        tokens_per_second=round(result.output_tokens_per_second, 1),
        tokens_per_second_each=round(each, 1),
        first_token=round(result.ttft.p95, 3),
        per_token=round(result.tpot.p95, 4),
        binds=most.breaks,
        within_factor=setup.built.error.nine_of_ten,
    )
