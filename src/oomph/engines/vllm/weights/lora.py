"""LoRA slots: two stacked matrices beside every linear layer, `max_loras` adapters of `max_lora_rank` (lora/layers)."""

from collections.abc import Iterator

from oomph.engines.common.created import Build
from oomph.engines.common.shard import in_features, local_experts, outs, stage_layers
from oomph.engines.vllm.resolve.plain_flags import Lora
from oomph.facts.dtypes import TORCH, nbytes
from oomph.facts.vllm.lora import HEAD_IS_EMBEDDING, LoraFacts
from oomph.ir import Experts, Linear, Model, Module, Vocab


def slots(
    model: Model, build: Build, lora: Lora | None, rules: LoraFacts, tokens: int, seqs: int
) -> tuple[tuple[str, int], ...]:
    """(module, bytes) of every buffer, in the order in which LoRAModelManager makes them; empty without LoRA."""
    return () if lora is None else tuple(_slots(model, build, lora, rules, tokens, seqs))


def _slots(
    model: Model, build: Build, lora: Lora, rules: LoraFacts, tokens: int, seqs: int
) -> Iterator[tuple[str, int]]:
    rank = lora.rank
    extra = rules.extra_vocabulary if lora.extra_vocabulary is None else lora.extra_vocabulary
    unit = lora.loras * nbytes(TORCH.get(lora.dtype, build.dtype), 1)
    yield from _punica(lora.loras, tokens, seqs)
    layout = build.layout
    first, last = layout.pp_rank == 0, layout.pp_rank == layout.pp - 1
    vocabularies = [module for module in model.root.modules if isinstance(module, Vocab)]
    has_vocabulary = model.architecture in rules.vocabulary
    if has_vocabulary and first and _is_wanted("embed_tokens", lora):
        for vocabulary in vocabularies:
            if vocabulary.role == "embed":  # vocal_parallel_embedding.py: every rank has the whole vocabulary
                yield vocabulary.name, unit * (vocabulary.rows + extra) * rank
                yield vocabulary.name, unit * vocabulary.dim * rank
    stage = stage_layers(len(model.layers), layout)
    for layer in model.layers[stage.start : stage.stop]:
        for module in layer.block.modules:
            if _is_wanted(module.name.rpartition(".")[2], lora):
                for size in _module(module, build, rank, lora.fully_sharded):
                    yield module.name, unit * size
    if has_vocabulary and last and _is_wanted("lm_head", lora):
        head = next(
            (vocabulary for vocabulary in vocabularies if vocabulary.role == "lm_head"),
            vocabularies[0] if vocabularies else None,
        )
        if head is not None:  # logits_processor.py
            if head.tied and model.architecture in HEAD_IS_EMBEDDING:
                yield "lm_head", unit * (head.rows + extra) * rank
                yield "lm_head", unit * head.dim * rank
            yield "logits_processor", unit * rank * model.hidden_size
            yield "logits_processor", unit * (head.rows + extra) * rank


def _is_wanted(name: str, lora: Lora) -> bool:
    return lora.targets is None or name in lora.targets


def _module(module: Module, build: Build, rank: int, sharded: bool) -> Iterator[int]:
    """Elements of the stacked A matrices, then of the B matrices, for one adapter."""
    tp = build.layout.tp
    if isinstance(module, Experts):
        yield from _experts(module, build, rank, sharded)
        return
    if not isinstance(module, Linear):
        return
    n = outs(module, tp, build.habits)
    if not n:
        return
    k = in_features(module, tp)
    slices = n if module.shard == "column" else [sum(n)]
    rank_here = rank // tp if sharded and module.shard == "column" else rank
    for _ in slices:
        yield rank_here * k
    for out in slices:
        yield (out // tp if sharded and module.shard == "row" else out) * rank


def _experts(module: Experts, build: Build, rank: int, sharded: bool) -> Iterator[int]:
    """lora/layers/fused_moe.py: a pair of matrices for every expert of this rank."""
    layout = build.layout
    experts = local_experts(module.count, layout)
    inter = module.intermediate // (1 if layout.expert_parallel else layout.moe_ranks)
    fused = module.layout == "stacked"  # FusedMoE3DWithLoRA: gate and up are one matrix in the adapter
    slices = [2 * inter] if fused and module.gated else [inter] * (2 if module.gated else 1)
    rank_here = rank // layout.tp if sharded else rank
    for _ in slices:
        yield experts * rank_here * module.hidden
    yield experts * rank * inter
    for out in slices:
        yield experts * out * rank
    yield experts * (module.hidden // layout.tp if sharded else module.hidden) * rank


def _punica(loras: int, tokens: int, seqs: int) -> Iterator[tuple[str, int]]:
    """punica_base.py:138, lora_kernel_metadata.py:53: which adapter a token belongs to."""
    for size in (8 * tokens, 8 * tokens, 8 * tokens, 16 * tokens, 8 * seqs, 8 * seqs, 8 * seqs):
        yield "punica_wrapper", size
    for _ in range(2):
        for size in (4 * tokens, 4 * tokens, 4 * (loras + 1), 4 * (loras + 1), 4 * (loras + 2)):
            yield "punica_wrapper", size
