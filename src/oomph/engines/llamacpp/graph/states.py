"""The states of recurrent layers: where they are kept, read and written back (build_rs, llama-memory-recurrent.cpp)."""

from oomph.engines.llamacpp.ggml.tensor import F32, Tensor, cache, copy_into, get_rows, reshape, strided, view
from oomph.engines.llamacpp.graph.context import Context, LayerParts


def states_of(build: Context, layer: LayerParts, width: int) -> Tensor:
    rows = build.batch.sequences * (1 + build.batch.snapshots)
    return cache((width, rows), F32, layer.cache_home)


def load_states(build: Context, states: Tensor, make: "Tensor | None" = None) -> Tensor:
    """build_rs: the states of this batch's sequences; `make` reads them itself."""
    graph = build.graph
    rows = reshape(states, *states.ne[:2])
    zero = view(rows, "VIEW", (rows.ne[0],), None)
    graph.expand(view(zero, "SCALE", zero.ne, zero.nb, (zero,)))
    loaded = make if make is not None else get_rows(rows, build.copied_states)
    graph.expand(loaded)
    rest = get_rows(rows, build.extra_states)
    graph.expand(copy_into(rest, strided(states, (states.ne[0], 0), (states.nb[1],))))
    return loaded


def keep_history(
    build: Context, states: Tensor, inputs: Tensor, history: int, channels: int, *, snapshots: bool = True
) -> None:
    for _ in range(1 + (build.batch.snapshots if snapshots else 0)):
        last = strided(inputs, (history, channels, build.batch.sequences), (inputs.nb[1], inputs.nb[2]))
        target = strided(states, (history * channels, build.batch.sequences), (states.nb[1],))
        build.graph.expand(copy_into(last, target))
