"""`oomph inspect MODEL`: what a checkpoint is."""

import click

from oomph.cli.options import html_option
from oomph.cli.show import show


@click.command()
@click.argument("model", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; bytes are integers.")
@html_option
@click.option("--fresh", is_flag=True, help="Ask the hub even for a model that the catalogue knows.")
def command(model: tuple[str, ...], as_json: bool, html: str | None, fresh: bool) -> None:
    """What a checkpoint is: bytes by part and dtype, what is quantised, layers, KV cache, context.

    \b
    MODEL is a folder, a config.json, a .gguf file, a name, or a hub id:
      oomph inspect ./my-model
      oomph inspect "gemma-4-31b nvfp4"
      oomph inspect Qwen/Qwen3-8B@main
      oomph inspect unsloth/Qwen3-8B-GGUF:Q4_K_M
    """
    from oomph.answers.inspection import inspect
    from oomph.sources.load import load_model

    inspection = inspect(load_model(" ".join(model), fresh=fresh))
    show(inspection, as_json=as_json, indent=2, html=html)
