"""`oomph mcp`: the answers for agents, over the Model Context Protocol."""

import click

from oomph.errors import CannotPlan


@click.command()
@click.option("--http", is_flag=True, help="Streamable HTTP on 127.0.0.1 instead of standard input and output.")
@click.option("--port", default=8765, show_default=True, help="With --http: the port.")
@click.option("--root", default=".", metavar="DIR", help="The folder whose files it may read; this one by default.")
def command(http: bool, port: int, root: str) -> None:
    """Answer agents: a server of the Model Context Protocol, with plan, explain, fit, models, inspect and compare.

    \b
    claude mcp add oomph -- oomph mcp
    oomph mcp --http --port 8765          http://127.0.0.1:8765/mcp
    """
    try:
        import mcp  # noqa: F401
    except ModuleNotFoundError:
        raise CannotPlan("the package mcp is not installed", hint="pip install 'oomph[mcp]'") from None
    from oomph.agents.server import build
    from oomph.cli.lasting import collect_often

    server = build(root)
    collect_often()
    if http:
        server.run("streamable-http", host="127.0.0.1", port=port)
    else:
        server.run("stdio")
