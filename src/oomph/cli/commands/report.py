"""`oomph report`: plan, log, machine and versions in one file for an issue."""

import click

from oomph.cli.options import BesideCommand
from oomph.text.output_file import write_output


@click.command(cls=BesideCommand)
@click.option("--log", "logs", metavar="LOG", multiple=True, help="The log of the run; may be repeated.")
@click.option("--gpu", metavar="GPUS", help="The GPUs; those of this machine by default.")
@click.option("--engine", metavar="NAME==VERSION", default="", help="The engine's release, if it cannot be seen.")
@click.option("--output", metavar="FILE", default="", help="Write it to a file, such as oomph-report.md.")
@click.option(
    "--measurement", metavar="FILE", default="", help="One row of a start that worked: a plugin's record or a log."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of Markdown.")
@click.pass_context
def command(
    ctx: click.Context,
    logs: tuple[str, ...],
    gpu: str | None,
    engine: str,
    output: str,
    measurement: str,
    as_json: bool,
) -> int:
    """Plan, log, machine and versions in one file, to attach to an issue. Secrets, home folder and names are left out.

    \b
    oomph report --log server.log --output report.md -- vllm serve Qwen/Qwen3-8B
    oomph report --measurement server.log --gpu "RTX 4090"
    """
    from oomph.answers.report import bundle
    from oomph.cli.words import deployment

    words = ctx.meta.get("oomph.command") or []
    started = deployment(words, engine) if words else None
    if measurement:
        from oomph.machine.learn.row import row_of_file

        text = row_of_file(measurement, gpu, started, engine).line() + "\n"
    else:
        answer = bundle(started, gpu=gpu, logs=logs)
        text = answer.to_json(indent=1) + "\n" if as_json else answer.text()
    if not output:
        print(text, end="")
        return 0
    write_output(output, text)
    print(f"{output}: {len(text):,} characters. Read it before you attach it.")
    return 0
