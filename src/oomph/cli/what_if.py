"""`oomph what-if [options] -- vllm serve MODEL FLAGS`: every flag that moves memory, changed alone and planned."""

from __future__ import annotations

import click

from oomph.errors import CannotPlan, CommandError


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--gpu", metavar="GPUS", help='The GPUs: "2x RTX 5070 Ti", auto (default).')
@click.option("--engine", metavar="NAME==VERSION", default="", help="The engine's release: vllm==0.21.0.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; bytes are integers.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND | FILE | -")
def command(gpu: str | None, engine: str, as_json: bool, words: tuple[str, ...]) -> int:
    """What each flag would do to this command, alone: the advice of the blogs, planned.

    \b
    oomph what-if --gpu "RTX 4090" -- vllm serve meta-llama/Llama-3.1-8B-Instruct
    """
    if not words:
        raise CommandError("no command to look at", hint="oomph what-if --gpu H100 -- vllm serve MODEL")
    from oomph.cli.words import deployment, exit_code, late_gpu
    from oomph.plan import load, plan, run
    from oomph.search.what_if import what_if

    gpu, words = late_gpu(gpu, words)
    made = plan(deployment(words, engine), gpu=gpu)
    if made.deployment.engine.name != "vllm":
        raise CannotPlan("what-if knows vLLM's flags only", hint="oomph plan shows what helps a llama.cpp command")
    found = what_if(made, load(made.deployment.model), run)
    if as_json:
        from oomph.report.json import dumps
        from oomph.report.plan_json import plan_json

        rows = [dict(zip(r.__struct_fields__, (getattr(r, f) for f in r.__struct_fields__))) for r in found.rows]
        print(dumps({"schema": 1, "binding": found.binding, "rows": rows, "plan": plan_json(made)}))
    else:
        from oomph.report.what_if_text import print_what_if

        print_what_if(found)
    return exit_code(made.verdict)
