"""`oomph ui`: the page."""

import click

from oomph.errors import CannotPlan


@click.command()
@click.option("--port", default=7860, show_default=True, help="The port on 127.0.0.1; 0 takes a free one.")
@click.option("--no-browser", is_flag=True, help="Do not open the browser.")
@click.option("--root", default=".", metavar="DIR", help="The folder whose files it may look at; this one by default.")
@click.option("--public", metavar="NAME", default="", help="For everybody, behind a reverse proxy with this host name.")
def command(port: int, no_browser: bool, root: str, public: str) -> None:
    """See the memory: a page on this machine that plans as you move the sliders and explains a pasted log.

    The address that it prints holds a token: nobody else on this machine can use the page.

    With --public there is no token: a reverse proxy ends TLS, keeps Host and sets X-Forwarded-For. Such a page looks at
    no folder, has no hub token, and answers 40 questions at once and 60 a minute to each client.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as missing:
        raise CannotPlan(f"the package {missing.name} is not installed", hint="pip install 'oomph[ui]'") from None
    from oomph.cli.lasting import collect_often
    from oomph.web.server import serve, serve_publicly

    collect_often()
    if public:
        serve_publicly(port, public)
        return
    serve(port, browser=not no_browser, root=root)
