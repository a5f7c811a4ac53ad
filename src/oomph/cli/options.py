"""Options as click has them: those of cli/plain.py, and `--html FILE`, which each command with a view has."""

from collections.abc import Callable

import click

from oomph.cli.plain import DECLARED


class BesideCommand(click.Command):
    """Everything behind `--` is the serve command, not a log."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta["oomph.command"] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


def declared(command: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """The options of a command whose rows are in cli/plain.py."""

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        for row in reversed(DECLARED[command]):
            if row.takes == "nothing":
                option = click.option(row.name, row.parameter, is_flag=True, help=row.help)
            else:
                kind = click.Choice(row.choices) if row.choices else None
                option = click.option(
                    row.name,
                    row.parameter,
                    metavar=row.metavar or None,
                    multiple=row.multiple,
                    type=kind,
                    help=row.help,
                )
            function = option(function)
        return function

    return decorate


html_option = click.option("--html", "html", metavar="FILE", help="Write one self-contained page.")
