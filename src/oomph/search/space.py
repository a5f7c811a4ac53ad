"""What fit() searches: arms (everything that is chosen, not measured) times context, users and utilisation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from msgspec import Struct

from oomph.ir import Experts, Model, State

# Fewer batched tokens than the default: a smaller profiling peak, longer prompts in more steps.
FEWER_TOKENS = 2048
# One draft token: what a checkpoint's own multi-token-prediction layer is trained for.
DRAFT_TOKENS = 1
FEW_GRAPHS = 8  # CUDA graphs for small batches only: the largest of them
_FINE, _COARSE, _FINE_UNTIL = 256, 1024, 8192


class Layout(Struct, frozen=True):
    tp: int = 1
    pp: int = 1
    ep: bool = False

    @property
    def gpus(self) -> int:
        return self.tp * self.pp


class Arm(Struct, frozen=True):
    """One choice of everything but context, users and utilisation. The defaults are the engine's."""

    model: str
    layout: Layout = Layout()
    kv_dtype: str = "auto"
    eager: bool = False
    few_graphs: bool = False
    text_only: bool = False
    drafts: int = 0
    prefix_off: bool = False
    tokens: int = 0  # --max-num-batched-tokens; 0 = the engine's
    offload_gib: int = 0

    @property
    def wishes(self) -> dict[str, Any]:
        """What it asks for beyond an engine's defaults; each engine spells these as its own flags."""
        wanted = {
            "tp": self.layout.tp if self.layout.tp > 1 else 0,
            "pp": self.layout.pp if self.layout.pp > 1 else 0,
            "ep": self.layout.tp if self.layout.ep else 0,
            "kv_dtype": self.kv_dtype if self.kv_dtype != "auto" else "",
            "eager": self.eager,
            "few_graphs": FEW_GRAPHS if self.few_graphs else 0,
            "text_only": self.text_only,
            "drafts": self.drafts,
            "prefix_off": self.prefix_off,
            "tokens": self.tokens,
            "offload_gib": self.offload_gib,
        }
        return {name: wish for name, wish in wanted.items() if wish}

    @property
    def changes(self) -> int:
        """How many flags it takes: of two equal answers the shorter command is the better one."""
        return len(self.wishes.keys() - {"tp"})


class Space(Struct, frozen=True):
    """The product that is searched. Contexts, users and utilisations rise."""

    arms: tuple[Arm, ...]
    contexts: tuple[int, ...]
    users: tuple[int, ...]
    utilisations: tuple[float, ...]


def layouts(count: int, *, moe: bool) -> tuple[Layout, ...]:
    """All GPUs together in every shape, then fewer of them without pipeline stages."""
    shapes = [(tp, count // tp) for tp in range(count, 0, -1) if count % tp == 0 and count // tp <= 8]
    shapes += [(tp, 1) for tp in (2**i for i in range(8, -1, -1)) if tp < count]
    out = [Layout(tp, pp) for tp, pp in dict.fromkeys(shapes)]
    return tuple(out + [Layout(x.tp, x.pp, True) for x in out if moe and x.tp > 1])


def arms_of(name: str, model: Model, shapes: Sequence[Layout], options: Options) -> Iterator[Arm]:
    """Every arm of one checkpoint; a flag that cannot matter to this model is not tried."""
    # a checkpoint that brings its own KV dtype is not asked for another, unless the user does
    own_kv = bool(model.quantization and model.quantization.kv_cache) and "auto" in options.kv_dtypes
    texts = options.text_only if model.towers else (False,)
    drafts = [n for n in options.drafts if n == 0 or model.drafts]
    state = any(isinstance(m, State) for layer in model.layers for m in layer.mixers)
    for layout, kv, graphs, text, draft, prefix, tokens in product(
        shapes,
        ("auto",) if own_kv else options.kv_dtypes,
        options.graphs,
        texts,
        drafts or [0],
        options.prefix_off if state else (False,),
        options.tokens,
    ):
        yield Arm(name, layout, kv, graphs == "eager", graphs == "few", text, draft, prefix, tokens)


class Options(Struct, frozen=True):
    """What the user leaves open."""

    kv_dtypes: tuple[str, ...] = ("auto", "fp8")
    graphs: tuple[str, ...] = ("all", "few", "eager")
    text_only: tuple[bool, ...] = (False, True)
    drafts: tuple[int, ...] = (0, DRAFT_TOKENS)
    prefix_off: tuple[bool, ...] = (False, True)
    tokens: tuple[int, ...] = (0, FEWER_TOKENS)


def is_moe(model: Model) -> bool:
    return any(isinstance(m, Experts) for layer in model.layers for m in layer.block.modules)


def context_ladder(context: int, longest: int) -> tuple[int, ...]:
    """The asked context and its doublings up to the model's own, or powers of two."""
    first = context or min(4096, longest)
    steps = [first]
    while steps[-1] * 2 < longest:
        steps.append(steps[-1] * 2)
    return tuple(dict.fromkeys([*steps, longest])) if longest > first else (first,)


def context_grid(longest: int, *also: int) -> tuple[int, ...]:
    """Where the longest context is looked for: steps of 256 tokens, above 8,192 of 1,024."""
    fine = range(_FINE, min(longest, _FINE_UNTIL) + 1, _FINE)
    coarse = range(_FINE_UNTIL, longest + 1, _COARSE)
    return tuple(sorted({*fine, *coarse, longest, *(c for c in also if c <= longest)}))


def user_levels(users: int, most: int = 256) -> tuple[int, ...]:
    """1 to 8, then steps of an eighth: no printed number of users is more than a step below what fits."""
    levels, n = [], 1
    while n <= max(most, users):
        levels.append(n)
        n += max(1, n // 8)
    return tuple(sorted({*levels, users} - {0}))


def utilisation_grid(default: float, highest: float) -> tuple[float, ...]:
    """Hundredths up to the highest that leaves room for what comes after the KV cache."""
    return tuple(sorted(n for n in {*(round(n / 100, 2) for n in range(50, 100)), default} if n <= highest))
