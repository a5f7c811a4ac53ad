"""From modules to the checkpoint's tensors: what a config.json alone says is in the weight files."""

from collections.abc import Iterable, Iterator
from functools import cache
from math import prod

from oomph.facts.dtypes import nbytes
from oomph.facts.quantization import Tensors, linear_tensors
from oomph.ir import Block, Experts, Layer, Linear, Module, Param, Role, Stored, Tower, Vocab

# (name, shape, dtype, role, how many of them)
StoredTensor = tuple[str, tuple[int, ...], str, Role, int]


def module_tensors(module: Module) -> Iterator[StoredTensor]:
    """The tensors of one module, named relative to its block."""
    if isinstance(module, Linear):
        for part in module.parts:
            if not part.stored:
                continue
            for suffix, shape, dtype in linear_tensors(
                module.scheme, part.out_features, module.in_features, module.dtype, module.bias
            ):
                yield part.name + suffix, shape, dtype, module.role, 1
    elif isinstance(module, Experts):
        yield from _expert_tensors(module)
    elif isinstance(module, Vocab):
        if module.stored:
            for suffix, shape, dtype in linear_tensors(
                module.scheme, module.rows, module.dim, module.dtype, module.bias
            ):
                yield module.name + suffix, shape, dtype, module.role, 1
    elif isinstance(module, Param) and module.stored:
        yield module.name, module.shape, module.dtype, module.role, 1


def _expert_tensors(experts: Experts) -> Iterator[StoredTensor]:
    if not experts.stored:
        return
    *ins, down = experts.projections
    if experts.layout == "stacked":
        for suffix, shape, dtype in _stacked(experts):
            yield f"{experts.name}.{suffix}", shape, dtype, experts.role, 1
        return
    for name in ins:
        for suffix, shape, dtype in linear_tensors(
            experts.scheme, experts.intermediate, experts.hidden, experts.dtype, experts.bias
        ):
            yield f"{experts.name}.*.{name}{suffix}", shape, dtype, experts.role, experts.count
    for suffix, shape, dtype in linear_tensors(
        experts.scheme, experts.hidden, experts.intermediate, experts.dtype, experts.bias
    ):
        yield f"{experts.name}.*.{down}{suffix}", shape, dtype, experts.role, experts.count


def _stacked(experts: Experts) -> Tensors:
    """gpt-oss, Llama 4, Qwen3-VL: all experts in one tensor, gate and up side by side."""
    width = (2 if experts.gated else 1) * experts.intermediate
    up = "gate_up_proj" if experts.gated else "up_proj"
    tensors: Tensors = []
    for name, n, k in ((up, width, experts.hidden), ("down_proj", experts.hidden, experts.intermediate)):
        if experts.scheme is not None and experts.scheme.method == "mxfp4":
            tensors += [
                (f"{name}_blocks", (experts.count, n, k // 32, 16), "U8"),
                (f"{name}_scales", (experts.count, n, k // 32), "U8"),
            ]
        else:
            for suffix, shape, dtype in linear_tensors(experts.scheme, n, k, experts.dtype):
                tensors.append(
                    (name + ("" if suffix == ".weight" else suffix.replace(".", "_")), (experts.count, *shape), dtype)
                )
        if experts.bias:
            tensors.append((f"{name}_bias", (experts.count, n), experts.dtype))
    return tensors


def stored(
    layers: Iterable[Layer], root: Block, drafts: Iterable[Layer], draft_root: Block, towers: Iterable[Tower]
) -> tuple[Stored, ...]:
    """All tensors summed by role and dtype; a block's sum is computed once however many layers share it."""
    total: dict[tuple[Role, str], list[int]] = {}
    sum_of = cache(_sum)

    def add(block: Block, times: int = 1) -> None:
        for key, (tensors, elements) in sum_of(block).items():
            row = total.setdefault(key, [0, 0, 0])
            row[0] += tensors * times
            row[1] += elements * times
            row[2] += nbytes(key[1], elements) * times

    add(root)
    add(draft_root)
    for layer in (*layers, *drafts):
        add(layer.block)
    for tower in towers:
        for times, block in tower.blocks:
            add(block, times)
    return tuple(Stored(role, dtype, *row) for (role, dtype), row in sorted(total.items()))


def _sum(block: Block) -> dict[tuple[Role, str], list[int]]:
    out: dict[tuple[Role, str], list[int]] = {}
    for module in block.modules:
        for _, shape, dtype, role, times in module_tensors(module):
            row = out.setdefault((role, dtype), [0, 0])
            row[0] += times
            row[1] += prod(shape) * times
    return out
