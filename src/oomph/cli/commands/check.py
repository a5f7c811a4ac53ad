"""`oomph check PATH...`: every deployment in the files of a repository; a gate for CI."""

import os
import sys
from typing import TYPE_CHECKING

import click

from oomph.cli.options import html_option
from oomph.cli.show import write_page
from oomph.cli.words import settings_of
from oomph.text.output_file import write_output
from oomph.text.printable import without_commands

if TYPE_CHECKING:
    from oomph.answers.check import Check

FORMATS = ("text", "json", "junit", "sarif", "github")


@click.command()
@click.option("--gpu", metavar="GPUS", help="The GPUs of every deployment whose file names none: 2x L40S.")
@click.option("--engine", metavar="NAME==VERSION", default="", help="The engine's release: vllm==0.21.0.")
@click.option("--margin", metavar="SIZE|PERCENT", default="", help="Room to be left at every stage: 1GiB, 5%.")
@click.option("--exclude", metavar="GLOB", multiple=True, help="Files or folders to leave out; may be repeated.")
@click.option("--set", "names", metavar="NAME=WHAT", multiple=True, help="What a model's name, or a variable, is.")
@click.option("--own-build", is_flag=True, help="Engines were built from source, with code for these cards.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="What to print. Default text.")
@click.option("--output", metavar="FILE", help="Write it to a file, and the table to the terminal.")
@click.option("--allow-unplanned", is_flag=True, help="What cannot be read or planned is listed, but does not fail.")
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
@html_option
@click.argument("paths", nargs=-1, metavar="PATH...")
def command(
    gpu: str | None, engine: str, margin: str, exclude: tuple[str, ...], names: tuple[str, ...], own_build: bool,
    form: str, output: str | None, allow_unplanned: bool, as_json: bool, html: str | None, paths: tuple[str, ...],
) -> int:  # fmt: skip
    """Will every deployment of this repository fit? A gate for CI and for commits.

    \b
    oomph check .                                       compose, manifests, Helm values, scripts, ...
    oomph check --gpu "2x L40S" deploy/ start.sh        where a file does not name its GPUs
    oomph check --margin 5% --format sarif --output oomph.sarif .

    Exit code: 0 all fit, 1 one does not, 2 one cannot be read, 3 one cannot be planned, 4 one is too close to call.
    """
    from oomph.answers.check import check

    form = "json" if as_json else form
    answer = check(
        paths or (".",),
        gpu=gpu,
        engine=engine,
        margin=margin,
        exclude=exclude,
        environment={**os.environ, **settings_of(names)},
        names=settings_of(names),
        advise=html is not None,
        own_build=own_build,
    )
    if output is not None:
        write_output(output, _commands(answer, form) + without_commands(_body(answer, form)))
        form = "text"
    if commands := _commands(answer, form):
        getattr(sys.stdout, "write_commands", sys.stdout.write)(commands)
    sys.stdout.write(_body(answer, form))
    write_page(answer, html)
    return answer.lenient_exit_code if allow_unplanned else answer.exit_code


def _commands(check: "Check", form: str) -> str:
    from oomph.report import check_formats

    return check_formats.github(check) if form == "github" else ""


def _body(check: "Check", form: str) -> str:
    if form in ("text", "github"):
        from oomph.report.terminal import Style
        from oomph.report.views import screen_of

        return screen_of(check, Style(sys.stdout)) + "\n"
    if form == "json":
        return check.to_json(indent=2) + "\n"
    from oomph.report import check_formats

    if form == "junit":
        return check_formats.junit(check)
    from oomph.report.json import dumps

    return dumps(check_formats.sarif(check)) + "\n"
