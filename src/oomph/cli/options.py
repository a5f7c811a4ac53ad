"""`--html FILE`, which every command with a view on the page has: the answer as one file that shows that view."""

from importlib import import_module

import click


class BesideCommand(click.Command):
    """Everything behind `--` is the serve command, not a log."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta["oomph.command"] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


html_option = click.option("--html", "html", metavar="FILE", help="Write one self-contained page.")


def write_html(path: str | None, view: str, answer: object, title: str = "") -> None:
    """`view`: a module of `oomph.web.views` whose function of that name draws such an answer."""
    if path is None:
        return
    from oomph.web.document import write_document

    draw = getattr(import_module(f"oomph.web.views.{view}"), f"{view}_view")
    write_document(draw(answer), title or f"oomph {view.replace('_', '-')}", path)
