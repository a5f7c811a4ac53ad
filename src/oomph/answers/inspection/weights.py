"""A checkpoint's weights: bytes and parameters by part and dtype, what is quantised, and what is not."""

from collections import Counter
from collections.abc import Iterator
from math import prod

from msgspec import Struct

from oomph.facts.dtypes import bits, nbytes
from oomph.ir import Block, Experts, Linear, Model, Module, Param, Role, Scheme, Vocab
from oomph.ir.roles import ROLE_WORDS
from oomph.sources.stored import module_tensors


class RoleRow(Struct, frozen=True):
    role: str
    name: str  # for people
    bytes: int
    parameters: int
    stored_as: dict[str, int]  # NVFP4, BF16, ... -> bytes, most first
    plain_bytes: int  # not quantised
    plain_parameters: int


class DtypeRow(Struct, frozen=True):
    dtype: str
    bytes: int
    elements: int
    tensors: int


class Quantised(Struct, frozen=True):
    method: str
    name: str  # "4-bit (NVFP4)"
    bits: int
    parameters: int
    bytes: int
    kv_cache: str = ""
    sentence: str = ""  # what is not quantised, and what that costs


def blocks(model: Model) -> Iterator[tuple[int, Block]]:
    """(how many, block): each kind of layer once."""
    counts = Counter((model.root, model.draft_root, *(x.block for x in (*model.layers, *model.drafts))))
    yield from ((times, block) for block, times in counts.items())
    for tower in model.towers:
        yield from tower.blocks


def _parameters(module: Module) -> int:
    """Weights as the model counts them, however they are packed; scales and zero points are none."""
    if isinstance(module, Linear):
        parts = [p for p in module.parts if p.stored]
        return sum(p.out_features * (module.in_features + module.bias) for p in parts)
    if isinstance(module, Experts):
        inner = (2 if module.gated else 1) * module.intermediate
        each = (inner + module.intermediate) * module.hidden + ((inner + module.hidden) if module.bias else 0)
        return module.count * each if module.stored else 0
    if isinstance(module, Vocab):
        return module.rows * (module.dim + module.bias) if module.stored else 0
    return prod(module.shape) if module.stored else 0


def active_parameters(model: Model) -> int:
    """Parameters that one token of text uses: the layers' own and top_k of the routed experts'."""
    return sum(
        _parameters(module) * module.top_k // module.count if isinstance(module, Experts) else _parameters(module)
        for block in (model.root, *(x.block for x in model.layers))
        for module in block.modules
    )


def module_bytes(module: Module) -> int:
    return sum(nbytes(dtype, prod(shape)) * times for _, shape, dtype, _, times in module_tensors(module))


def scheme_name(scheme: Scheme) -> str:
    if scheme.kind == "float" and scheme.bits == 4:
        return "MXFP4" if "mxfp4" in (scheme.method, scheme.format[:5]) or scheme.group_size == 32 else "NVFP4"
    if scheme.kind == "float":
        return "FP8" if scheme.bits == 8 else f"FP{scheme.bits}"
    return f"INT{scheme.bits}"


def by_role(model: Model) -> tuple[RoleRow, ...]:
    """From the modules, which know what is quantised; from the headers where the modules do not add up to them."""
    total: dict[Role, list[int]] = {}
    forms: dict[Role, Counter[str]] = {}
    for times, block in blocks(model):
        for module in block.modules:
            size, count = module_bytes(module) * times, _parameters(module) * times
            scheme = None if isinstance(module, Param) else module.scheme
            row = total.setdefault(module.role, [0, 0, 0, 0])
            row[0] += size
            row[1] += count
            if scheme is None and not (
                isinstance(module, Param) and model.basis == "headers" and bits(module.dtype) < 16
            ):
                row[2] += size
                row[3] += count
            if size:
                form = module.dtype if scheme is None else scheme_name(scheme)
                forms.setdefault(module.role, Counter())[form] += size
    if sum(row[0] for row in total.values()) != model.nbytes:
        total, forms = _by_role_of_headers(model)
    rows = [
        RoleRow(
            role,
            _role_name(role, model),
            row[0],
            row[1],
            dict(forms.get(role, Counter()).most_common()),
            row[2],
            plain_parameters=row[3],
        )
        for role, row in total.items()
        if row[0]
    ]
    return tuple(sorted(rows, key=lambda role: -role.bytes))


def _role_name(role: Role, model: Model) -> str:
    if role == "multimodal" and len({t.modality for t in model.towers}) == 1:
        return model.towers[0].modality
    return ROLE_WORDS[role]


def _by_role_of_headers(model: Model) -> tuple[dict[Role, list[int]], dict[Role, Counter[str]]]:
    total: dict[Role, list[int]] = {}
    forms: dict[Role, Counter[str]] = {}
    for tensor in model.stored:
        row = total.setdefault(tensor.role, [0, 0, 0, 0])
        plain = bits(tensor.dtype) >= 16 and tensor.dtype not in ("I32", "I64")
        row[0] += tensor.nbytes
        row[1] += tensor.elements
        row[2] += tensor.nbytes if plain else 0
        row[3] += tensor.elements if plain else 0
        forms.setdefault(tensor.role, Counter())[tensor.dtype] += tensor.nbytes
    return total, forms


def by_dtype(model: Model) -> tuple[DtypeRow, ...]:
    total: dict[str, list[int]] = {}
    for tensor in model.stored:
        row = total.setdefault(tensor.dtype, [0, 0, 0])
        row[0] += tensor.nbytes
        row[1] += tensor.elements
        row[2] += tensor.tensors
    return tuple(DtypeRow(d, *row) for d, row in sorted(total.items(), key=lambda item: -item[1][0]))


_PLAIN = ("BF16", "F16", "F32")
_WRITERS = {"awq": "AWQ", "gptq": "GPTQ", "bitsandbytes": "bitsandbytes"}


def quantised(model: Model, roles: tuple[RoleRow, ...]) -> Quantised | None:
    quantization = model.quantization
    size = sum(r.bytes - r.plain_bytes for r in roles)
    count = sum(r.parameters - r.plain_parameters for r in roles)
    if quantization is None or not size or not count:
        return None
    width = size * 8 / count
    forms: Counter[str] = Counter()
    for role in roles:
        forms.update({form: n for form, n in role.stored_as.items() if form not in _PLAIN})
    main = forms.most_common(1)[0][0] if forms else quantization.method
    if quantization.method == "gguf":
        whole = round(width)
        name = f"GGUF, {width:.2f} bits a weight, mostly {main}"
    else:
        whole = int("".join(filter(str.isdigit, main)) or round(width))
        name = f"{whole}-bit ({_WRITERS.get(quantization.method, main)})"
    return Quantised(
        quantization.method, name, whole, count, size, quantization.kv_cache, sentence=_cost(model, roles, whole, width)
    )


def _cost(model: Model, roles: tuple[RoleRow, ...], whole: int, width: float) -> str:
    """What is left in 16 bits, and what the largest part of it would take like the rest."""
    from oomph.units import gib

    plain = sorted((r for r in roles if r.plain_bytes), key=lambda role: -role.plain_bytes)
    left = sum(r.plain_bytes for r in plain)
    if not plain or left * 10 < model.nbytes:
        return ""
    first = plain[0]
    size = gib(first.plain_bytes)
    if first.plain_bytes * 5 < model.nbytes or first.role in ("embed", "lm_head", "multimodal", "norm"):
        return f"{gib(left)} of {gib(model.nbytes)} are not quantised, the largest part {_the(first)} ({size})"
    dtype = next((form for form in first.stored_as if form in _PLAIN), model.dtype)
    verb = "are" if first.name.endswith("s") else "is"
    like_the_rest = int(first.plain_parameters * width / 8)
    return (
        f"your {whole}-bit checkpoint is {gib(model.nbytes)} because {_the(first)} {verb} still {dtype}: {size}; "
        f"like the rest it would be {gib(like_the_rest)}, the whole "
        f"{gib(model.nbytes - first.plain_bytes + like_the_rest)}"
    )


def _the(row: RoleRow) -> str:
    return row.name if row.role in ("attention", "experts", "norm", "multimodal") else f"the {row.name}"
