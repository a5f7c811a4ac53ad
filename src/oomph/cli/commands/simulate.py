"""`oomph simulate [options] -- vllm serve MODEL FLAGS`: how many users it really serves."""

from typing import Any

import click

from oomph.cli.show import show
from oomph.errors import CommandError


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--gpu", metavar="GPUS", help='The GPUs: "2x RTX 5070 Ti", auto (default).')
@click.option("--engine", metavar="NAME==VERSION", default="", help="The engine's release: vllm==0.21.0.")
@click.option("--to", "after", metavar="NAME==VERSION", default="", help="Compare with this release.")
@click.option("--given", metavar="TERM=SIZE", multiple=True, help="Pin a term: available_kv=11.54GiB.")
@click.option("--users", type=int, default=0, help="So many users, each with one request at a time.")
@click.option("--rate", type=float, default=0.0, help="Requests a second, at random times (Poisson).")
@click.option("--burst", type=int, default=1, help="With --rate: so many arrive together.")
@click.option("--trace", metavar="FILE", default="", help="CSV or JSONL: Azure, BurstGPT and Mooncake columns.")
@click.option("--sweep", metavar="users=A..B", default="", help="Several loads: users=1..256.")
@click.option("--workload", default="fixed", help="fixed (default), chat, long, agentic.")
@click.option("--prompt", type=int, help="Prompt tokens (1000); for the others their median.")
@click.option("--output", type=int, help="Generated tokens (250); for the others their median.")
@click.option("--at-once", is_flag=True, help="All users begin at the same instant, as benchmarks do.")
@click.option("--think", type=float, default=0.0, help="Seconds between an answer and a user's next request.")
@click.option("--requests", type=int, default=0, help="Requests in all (20 per user, or two minutes of a rate).")
@click.option("--seed", type=int, default=0, help="The same seed gives the same run.")
@click.option("--ttft", type=float, default=2.0, help="Users are held while P95 time to first token is below (2 s).")
@click.option("--tpot", type=float, default=50.0, help="... and P95 milliseconds per token; 50, 0 for any.")
@click.option("--efficiency", metavar="PART=SHARE", multiple=True, help="bandwidth, compute, experts, attention, link.")
@click.option("--overhead", type=float, help="Milliseconds of a step outside its kernels.")
@click.option("--measured", type=float, default=0.0, help="Measured output tokens/s at --users: scales all times.")
@click.option("--accepted", type=float, default=0.6, help="Share of drafted tokens that are accepted (0.6).")
@click.option("--steps", "in_steps", is_flag=True, help="No time model: every step counts as a millisecond.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--svg", metavar="FILE", help="Write the picture.")
@click.option("--html", metavar="FILE", help="Write one self-contained page.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND | FILE | -")
def command(words: tuple[str, ...], **options: Any) -> int:
    """How many users does it serve? Without a load: the most that keep the target. Exit code 1: it is too much.

    \b
    oomph simulate --gpu H100 -- vllm serve Qwen/Qwen3-8B
    oomph simulate --gpu H100 --users 64 --prompt 8000 --output 500 -- vllm serve Qwen/Qwen3-8B
    oomph simulate --gpu H100 --sweep users=1..256 -- vllm serve Qwen/Qwen3-8B
    oomph simulate --gpu B200 --engine vllm==0.19.1 --to vllm==0.21.0 -- vllm serve google/gemma-4-31B-it
    """
    if not words:
        raise CommandError("no command to simulate", hint="oomph simulate --gpu H100 -- vllm serve MODEL")
    _check(options)
    from oomph.api import answer_load
    from oomph.cli.words import deployment, late_gpu
    from oomph.simulate import api
    from oomph.simulate.workloads import Arrivals, shape

    options["gpu"], words = late_gpu(options["gpu"], words)
    setup = _setup(api, deployment(words, options["engine"]), "", options)
    arrivals = Arrivals(
        options["users"], options["rate"], options["burst"], options["think"], at_once=options["at_once"]
    )
    load = api.Load(
        shape(options["workload"], options["prompt"], options["output"]),
        arrivals,
        options["requests"],
        options["seed"],
        options["trace"],
    )
    if options["measured"]:
        setup = api.calibrated(setup, load, options["measured"])
    target = api.Target(options["ttft"], options["tpot"] / 1000)
    answer = answer_load(setup, load, target, options["sweep"])
    code = _exit_code(api, answer)
    if options["after"]:
        upgraded = answer_load(_upgraded(api, setup, options), load, target, options["sweep"])
        _print(api.TwoReleases(answer, upgraded), options)
    else:
        _print(answer, options)
    return code


def _exit_code(api: Any, answer: Any) -> int:
    """1: the load is too much, or not one user is held. A sweep and a trace are tables, not promises."""
    if isinstance(answer, api.Held):
        return 0 if answer.users else 1
    if isinstance(answer, api.Simulation) and not answer.load.trace:
        return 1 if api.breach(answer.result, answer.target) else 0
    return 0


def _check(options: dict[str, Any]) -> None:
    if bool(options["users"]) + bool(options["rate"]) + bool(options["trace"]) + bool(options["sweep"]) > 1:
        raise CommandError("--users, --rate, --trace and --sweep are four ways to say the load: give one")
    for name in ("users", "rate", "think", "requests", "ttft", "tpot", "overhead", "measured"):
        if options[name] is not None and not 0 <= options[name] < 1e9:
            raise CommandError(f"--{name} {options[name]:g}: it cannot be negative or endless")
    for name in ("prompt", "output"):
        if options[name] is not None and not 1 <= options[name] <= 100_000_000:
            raise CommandError(f"--{name} {options[name]}: a number of tokens from 1 to 100,000,000")
    if options["users"] > 100_000 or options["rate"] > 100_000 or options["requests"] > 100_000_000:
        raise CommandError("at most 100,000 users or requests a second, and 100,000,000 requests")
    if not 1 <= options["burst"] <= 100_000:
        raise CommandError(f"--burst {options['burst']}: from 1 to 100,000")
    if options["measured"] and (not options["users"] or options["in_steps"] or options["after"]):
        raise CommandError("--measured needs --users (at how many users it was measured), and no --steps or --to")


def _setup(api: Any, words: Any, engine: str, options: dict[str, Any]) -> Any:
    from oomph.cli.answers import pinned_sizes
    from oomph.simulate.build import Factors

    shares: dict[str, float] = {}
    for pair in options["efficiency"]:
        name, _, value = pair.partition("=")
        try:
            shares[name.strip()] = float(value)
        except ValueError:
            raise CommandError(f"--efficiency {pair!r} is not PART=SHARE, such as bandwidth=0.8") from None
    unknown = set(shares) - {"bandwidth", "compute", "experts", "attention", "link"}
    if unknown:
        raise CommandError(f"--efficiency {unknown.pop()}: the parts are bandwidth, compute, experts, attention, link")
    if options["overhead"] is not None:
        shares["overhead_ms"] = options["overhead"]
    return api.prepare(
        words, gpu=options["gpu"], engine=engine, given=pinned_sizes(options["given"]), accepted=options["accepted"],
        timed=not options["in_steps"], factors=Factors(**shares),
    )  # fmt: skip


def _upgraded(api: Any, setup: Any, options: dict[str, Any]) -> Any:
    """The same command under another release, without the flags that it does not have."""
    from oomph.commands.call import choose_release
    from oomph.engines.registry import engine_of

    engine = engine_of(setup.deployment)
    release, _ = choose_release(engine, options["after"])
    return _setup(api, engine.at_release(setup.deployment, release.version)[0], "", {**options, "gpu": None})


def _print(answer: Any, options: dict[str, Any]) -> None:
    show(answer, as_json=options["as_json"], html=options["html"])
    if options["svg"]:
        from oomph.report.svg import write_plots
        from oomph.report.views import answer_of

        write_plots(answer_of(answer), options["svg"])
