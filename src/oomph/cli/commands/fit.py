"""`oomph fit MODEL --gpu GPUS`: the checkpoint, layout and flags that serve a model best on these GPUs."""

import sys

import click

from oomph.cli.options import html_option
from oomph.cli.show import show, write_page
from oomph.emit import FORMS
from oomph.errors import CommandError


@click.command()
@click.argument("model", nargs=-1)
@click.option("--gpu", metavar="GPUS", default="auto", help='The GPUs at hand: "2x RTX 5070 Ti", auto (default).')
@click.option("--context", metavar="TOKENS", default="", help="Tokens of one request, prompt and answer: 32k, 131072.")
@click.option("--users", metavar="N", type=click.IntRange(1, 4096), help="Requests of that context at once.")
@click.option("--prefer", type=click.Choice(["context", "users", "quality", "speed"]), help="What decides; quality.")
@click.option("--engine", metavar="NAME==VERSION", default="", help="The engine's release: vllm==0.21.0.")
@click.option("--only", is_flag=True, help="This checkpoint, not the others of the same model.")
@click.option("--also", metavar="MODEL", multiple=True, help="A further checkpoint: hub id or folder. Repeat it.")
@click.option("--images/--text-only", "images", default=None, help="Keep images or give them up; both are tried.")
@click.option("--mtp/--no-mtp", "mtp", default=None, help="With the checkpoint's own draft layers, or without.")
@click.option("--kv-cache-dtype", metavar="DTYPE", default="", help="This KV dtype only: auto, fp8.")
@click.option("--headless", is_flag=True, help="No card drives a screen: keep no room for one.")
@click.option("--explain", is_flag=True, help="Why each step further fails.")
@click.option("--all", "show_all", is_flag=True, help="The whole front.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; bytes are integers.")
@html_option
@click.option("--emit", type=click.Choice(FORMS), help="Print the pick alone, ready to use.")
@click.option("--gpus-per-node", type=click.IntRange(0, 64), default=0, help="For several nodes; 8.")
def command(
    model: tuple[str, ...], gpu: str, context: str, users: int | None, prefer: str | None, engine: str, only: bool,
    also: tuple[str, ...], images: bool | None, mtp: bool | None, kv_cache_dtype: str, headless: bool, explain: bool,
    show_all: bool,
    as_json: bool, html: str | None, emit: str | None, gpus_per_node: int,
) -> int:  # fmt: skip
    """The command that works best: searches flags, layouts and the known checkpoints of a model, by planning each.
    Without a model: what should I run? (oomph models)

    \b
    oomph fit gemma-4-31b-it --gpu "2x RTX 5070 Ti"
    oomph fit Qwen3.6-27B --gpu "RTX 5090" --context 16k --mtp
    oomph fit Llama-3.1-8B-Instruct --gpu T4 --context 8k --users 4 --prefer speed
    oomph fit gpt-oss-120b --gpu H100 --emit compose
    """
    if not model:
        return _models(gpu, context, users, prefer, engine, as_json, html)
    from oomph.cli.progress import progress
    from oomph.search.fit import fit
    from oomph.search.request import DRAFT_TOKENS, Options, Want
    from oomph.sources.gpu import parse_gpus
    from oomph.text.tables import all_that_hold
    from oomph.units import parse_tokens

    options = Options()
    options = Options(
        kv_dtypes=(kv_cache_dtype,) if kv_cache_dtype else options.kv_dtypes,
        text_only=options.text_only if images is None else (not images,),
        drafts=options.drafts if mtp is None else (DRAFT_TOKENS,) if mtp else (0,),
    )
    tokens = parse_tokens(context, what="--context") if context else 0
    if context and not 1 <= tokens <= 1 << 30:
        raise CommandError(f"--context {context!r}: it is a number of tokens such as 32k")
    if kv_cache_dtype:
        _known_dtype(kv_cache_dtype)
    needs = all_that_hold((images, "images"), (mtp, "MTP"), (kv_cache_dtype, f"a KV cache in {kv_cache_dtype}"))
    want = Want(tokens, users or 0, prefer or "", options, tuple(needs))
    with progress("fit") as step:
        result = fit(
            " ".join(model), parse_gpus(gpu), want, engine=engine, only=only, also=also, explain=explain,
            headless=headless or gpu == "auto", progress=step,
        )  # fmt: skip
    if emit is not None:
        if result.pick is None:
            raise CommandError("nothing fits: there is nothing to emit", hint="oomph fit without --emit says why")
        from oomph.emit import emit as write

        sys.stdout.write(write(result.pick.plan, emit, per_node=gpus_per_node))
        write_page(result, html)
    else:
        show(result, as_json=as_json, indent=2, everything=show_all, html=html)
    return 0 if result.met else 1


def _models(
    gpu: str, context: str, users: int | None, prefer: str | None, engine: str, as_json: bool, html: str | None
) -> int:
    """Without a model: what should I run?"""
    from oomph.cli.commands.models import run

    options = {
        "purpose": "chat", "users": users, "prefer": prefer, "engine": (engine,) if engine else (), "licence": "",
        "since": "", "largest": 0.0, "smallest": 0.0, "limit": 10, "as_json": as_json, "html": html,
    }  # fmt: skip
    return run((), gpu, context, options)


def _known_dtype(name: str) -> None:
    from oomph.facts.vllm.facts import at
    from oomph.facts.vllm.versions import NEWEST

    dtypes = at(NEWEST).cache_dtypes.choices
    if name not in dtypes:
        raise CommandError(f"--kv-cache-dtype {name[:40]!r}: vLLM has {', '.join(dtypes)}")
