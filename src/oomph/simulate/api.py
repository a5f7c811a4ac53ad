"""run(): a serve command under a load; held(): the largest load that keeps a promise. oomph.simulate() is built on it.

from oomph.simulate import api
api.run("vllm serve Qwen/Qwen3-8B", gpu="RTX 4090", users=32).result.ttft.p95
api.held("vllm serve Qwen/Qwen3-8B", gpu="RTX 4090").users
"""

from collections.abc import Sequence
from typing import Any

from oomph.errors import CommandError
from oomph.ir import Deployment
from oomph.simulate.build import Setup as Setup, prepare as prepare
from oomph.simulate.play import Load as Load, simulate as simulate, spread as spread
from oomph.simulate.search import (
    Held as Held,
    Simulation as Simulation,
    Sweep as Sweep,
    Target as Target,
    TwoReleases as TwoReleases,
    breach as breach,
    calibrated as calibrated,
    judge as judge,
    parse_sweep as parse_sweep,
    search as search,
    sweep as sweep,
)
from oomph.simulate.workloads import Arrivals, shape


def run(
    command: str | Sequence[str] | Deployment | Setup,
    *,
    users: int = 0,
    rate: float = 0.0,
    trace: str = "",
    workload: str = "fixed",
    prompt: int | None = None,
    output: int | None = None,
    requests: int = 0,
    seed: int = 0,
    at_once: bool = False,
    **options: Any,
) -> Simulation:
    """`at_once`: all users begin at the same instant. `options`: gpu, engine, given, factors, accepted, timed, as
    prepare() takes them."""
    setup = command if isinstance(command, Setup) else prepare(command, **options)
    if not users and not rate and not trace:
        raise CommandError("a load is needed: users, a rate or a trace")
    arrivals = Arrivals(users=users, rate=rate, at_once=at_once)
    load = Load(shape(workload, prompt, output), arrivals, requests, seed, trace)
    if users:
        load = spread(setup, load)
    return Simulation(setup, load, simulate(setup, load))


def held(
    command: str | Sequence[str] | Deployment | Setup,
    *,
    target: Target | None = None,
    workload: str = "fixed",
    prompt: int | None = None,
    output: int | None = None,
    seed: int = 0,
    at_once: bool = False,
    **options: Any,
) -> Held:
    setup = command if isinstance(command, Setup) else prepare(command, **options)
    load = Load(shape(workload, prompt, output), Arrivals(at_once=at_once), 0, seed)
    return search(setup, load, target or Target())
