"""`oomph ui`: the page."""

import click

from oomph.errors import CannotPlan


@click.command()
@click.option("--port", default=7860, show_default=True, help="The port on 127.0.0.1; 0 takes a free one.")
@click.option("--no-browser", is_flag=True, help="Do not open the browser.")
@click.option("--root", default=".", metavar="DIR", help="The folder whose files it may look at; this one by default.")
def command(port: int, no_browser: bool, root: str) -> None:
    """See the memory: a page on this machine that plans as you move the sliders and explains a pasted log.

    The address that it prints holds a token: nobody else on this machine can use the page.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as missing:
        raise CannotPlan(f"the package {missing.name} is not installed", hint="pip install 'oomph[ui]'") from None
    from oomph.web.server import serve

    serve(port, browser=not no_browser, root=root)
