"""Which tensors of a layer are alive at once while the profiling batch runs, phase by phase.

Every tensor is tokens x width. Run eagerly, a tensor lives as long as Python refers to it: the decoder loop keeps the
hidden state and the residual it passed in, an MLP that binds `gate_up` to a name keeps it through the down projection.
Compiled, Inductor frees a buffer after its last use, but the arguments of a piece (pieces end at every attention) live
until it returns: the attention's output and the residual. Both were read off memory traces of vLLM 0.21.0 and 0.26.0
on an H200 (tests/truth/activation.jsonl).
"""

from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from oomph.engines.common.shard import in_features, outs
from oomph.engines.vllm.profile.batch import Batch, Phase, Widths
from oomph.engines.vllm.profile.live_experts import expert_inputs, quantises_input, unshared
from oomph.engines.vllm.traits import REMEMBERED
from oomph.facts.dtypes import nbytes
from oomph.facts.vllm import activation as facts
from oomph.ir import Attention, Block, Experts, Layer, Linear, Model, Param, State

LATENT_CONTEXT = 8192  # mla_attention.py:632 (0.21.0): the workspace holds eight of it, and no more than 65,536 tokens


def layer_phases(model: Model, layer: Layer, before: Layer, batch: Batch) -> Iterator[Phase]:
    holding = facts.HOLDING.get(model.architecture, facts.Holding())
    live = _Layer(model, layer, before, holding, batch, nbytes(batch.dtype, 1))
    yield from live.compiled() if batch.compiled else live.eager()


def has_experts(layer: Layer) -> bool:
    return any(isinstance(module, Experts) for module in layer.block.modules)


def mixer_widths(model: Model, layer: Layer, batch: Batch) -> Widths:
    """A recurrent layer's input projection and the output of its scan, elements for one token."""
    live = _Layer(model, layer, layer, facts.Holding(), batch, nbytes(batch.dtype, 1))
    state = next(mixer for mixer in layer.mixers if isinstance(mixer, State))
    return live.projected(state)


@lru_cache(REMEMBERED)
def _linears_of(block: Block, role: str) -> tuple[Linear, ...]:
    return tuple(module for module in block.modules if isinstance(module, Linear) and module.role == role)


@lru_cache(REMEMBERED)
def _widest_of(block: Block, role: str, tp: int) -> int:
    """The widest output of the role's projections, but for those that sum over the ranks."""
    return max((sum(outs(x, tp)) for x in _linears_of(block, role) if x.shard != "row"), default=0)


@lru_cache(REMEMBERED)
def _widths_of(block: Block, role: str, tp: int) -> tuple[int, int]:
    """The output of the role's up projection and the input of its down projection."""
    ups = [sum(outs(x, tp)) for x in _linears_of(block, role) if x.shard == "column"]
    downs = [in_features(x, tp) for x in _linears_of(block, role) if x.shard == "row"]
    return (max(ups), max(downs)) if ups and downs else (0, 0)


class _Layer(Struct, frozen=True):
    """One kind of layer; widths are elements of the model's dtype for one token."""

    model: Model
    layer: Layer
    before: Layer
    holding: facts.Holding
    batch: Batch
    width: int

    # --- eager -----------------------------------------------------------------------------------------------------

    def eager(self) -> Iterator[Phase]:
        hidden, holding, block = (self.model.hidden_size,), self.holding, self.layer.block
        for mixer in self.layer.mixers:
            if isinstance(mixer, State):
                yield self._phase(
                    "recurrent layer", holding.state * hidden + self._state(mixer), self._tuning(mixer), True
                )
                if holding.splits_qkvz:
                    yield self._phase("recurrent layer", holding.state * hidden + self._split(mixer), 0, True)
            elif mixer.kind == "mla":
                wide = (*(holding.attention - 1) * hidden, *self._mla(mixer), mixer.kv_lora_rank, self._out(mixer))
                yield self._phase("attention", wide, self._mla_workspace(mixer), True)
            else:
                quant = self._requantised("attention")
                wide = (*holding.attention * hidden, *self._attention(mixer), self._sum())
                yield self._phase("attention", wide, quant, True)
                if holding.float_norm is not None:
                    yield self._phase("attention", self._float_norm(mixer, holding.float_norm), 0, True)
        stays = holding.keeps_qkv * (self._qkv(),)
        role = self._dense()
        if role:
            extra, reduced = (self._requantised(role), self._sum()) if holding.keeps_gate_up else (0, 0)
            yield self._phase("mlp", (*holding.mlp * hidden, *self._mlp(role), *stays, reduced), extra)
            yield self._reduced(role, holding.mlp * hidden + stays)
        if has_experts(self.layer):
            shared = self._mlp("shared_experts")
            alive = holding.experts * hidden + stays
            if any(shared):
                yield self._phase("shared experts", alive + shared + holding.keeps_gate_up * hidden, 0, True)
            yield from self._experts(block, alive, shared=any(shared))

    # --- compiled --------------------------------------------------------------------------------------------------

    def compiled(self) -> Iterator[Phase]:
        hidden, holding, block = (self.model.hidden_size,), self.holding, self.layer.block
        inputs = max((self._given(m) for m in self.layer.mixers), default=(), key=sum)
        for mixer in self.layer.mixers:
            if isinstance(mixer, State):
                yield self._recurrent_compiled(mixer)
            elif mixer.kind == "mla":
                yield self._phase("attention", 2 * hidden + self._mla(mixer), self._mla_workspace(mixer), True)
            else:
                yield self._phase("attention", holding.compiled * hidden + self._attention_compiled(mixer), 0, True)
        alive = holding.compiled * hidden + inputs
        role = self._dense()
        if role:
            yield self._mlp_compiled(role, alive)
            yield self._reduced(role, alive + hidden)
        if has_experts(self.layer):
            shared = self._mlp("shared_experts")
            alive += hidden + holding.compiled_experts * hidden
            if any(shared):  # inside one custom operation: as in eager mode
                yield self._phase("shared experts", alive + shared + holding.keeps_gate_up * hidden, 0, True)
            yield from self._experts(block, alive, shared=any(shared))

    def _attention_compiled(self, attention: Attention) -> Widths:
        """The last attention's output, the new projection (unless V is normalised out of it too), its rotated query and
        key, room for the new output."""
        query, k = self._heads(attention)
        last = max((self._out(x) for x in self.before.mixers if isinstance(x, Attention)), default=0)
        if self.model.architecture in facts.NORMALISES_V:
            return query, k, query, k, last
        return last, self._qkv(), query, k, query

    def _mlp_compiled(self, role: str, alive: Widths) -> Phase:
        """gate_up and its activation, or, without a gate, the activation written over its input and the output."""
        up, down = self._widths(role)
        flushed = self.batch.cold and self.holding.tuned and self.batch.rules.flushes_cache
        flush = self.batch.l2_bytes if flushed else 0
        scheme = next((x.scheme for x in self._linears(role) if x.shard == "row"), None)
        if up < 2 * down:
            return self._phase("mlp", (*alive, down, self.model.hidden_size), 0)
        if quantises_input(scheme, self.batch.sm) and scheme is not None:
            # one kernel activates and quantises groups of 128; else the activation is there too
            quant = self._requantised(role)
            if not self.holding.tuned:
                return self._phase("mlp", (*alive, up, down), quant)
            if scheme.strategy == "block" or self.batch.rules.fuses_quantisation:
                return self._phase("mlp", (*alive, up), quant)
            return self._phase("mlp", (*2 * (self.model.hidden_size,), up, down), quant)
        return self._phase("mlp", (*alive, up, down), flush)

    def _recurrent_compiled(self, state: State) -> Phase:
        """The last layer's projection and scan output, this layer's, and the residuals; or one operation with all of it
        inside, as in eager mode."""
        if state.kind == "kda":  # kimi_linear.py: q, k, v, gates and output of this layer and the last, by a trace
            inner = 9 * state.num_heads * state.head_dim // self.batch.layout.tp
            return self._phase("recurrent layer", (*4 * (self.model.hidden_size,), inner), 0, True)
        if state.kind not in ("mamba2", "gdn"):
            return self._phase("recurrent layer", 3 * (self.model.hidden_size,) + self._state(state), 0, True)
        once = self.projected(state)
        quantised = any(x.scheme is not None for x in self._linears("linear_attn"))
        wide = (2 if quantised else 3) * (self.model.hidden_size,) + 2 * once
        return self._phase("recurrent layer", wide, self._tuning(state), True)

    def projected(self, state: State) -> Widths:
        inner = state.intermediate if state.kind == "mamba2" else state.num_heads * state.head_dim
        return self._projection(), max(1, inner // self.batch.layout.tp)

    def _given(self, attention: Attention | State) -> Widths:
        """What the piece after a mixer was called with."""
        if isinstance(attention, Attention):
            return (self._out(attention),)
        tp, hidden = self.batch.layout.tp, self.model.hidden_size
        if attention.kind in ("gdn", "kda"):  # and the next layer's output: zeros that wait for nothing
            value = attention.num_heads * attention.head_dim // tp
            return self._projection(), value, value
        if attention.kind == "mamba2":
            return self._projection(), max(1, attention.intermediate // tp)
        return (hidden,)  # the operation ends with its output projection

    # --- parts -----------------------------------------------------------------------------------------------------

    def _phase(self, name: str, widths: Widths, extra: int, before_experts: bool = False) -> Phase:
        size = self.batch.tokens * sum(widths) * self.width + extra
        return Phase(name, size, before_experts=before_experts, widths=widths, extra=extra)

    def _sum(self) -> int:
        """pynccl.py:171 (0.21.0): what the ranks sum goes into a new tensor."""
        return self.model.hidden_size if self.batch.layout.tp > 1 else 0

    def _reduced(self, role: str, alive: Widths) -> Phase:
        """The down projection's input, and with several ranks its output and their sum."""
        _, down = self._widths(role)
        return self._phase("mlp", (*alive, down, *2 * (self._sum(),)), 0)

    def _linears(self, role: str) -> tuple[Linear, ...]:
        return _linears_of(self.layer.block, role)

    def _heads(self, attention: Attention) -> tuple[int, int]:
        tp = self.batch.layout.tp
        return max(1, attention.num_heads // tp) * attention.head_dim, max(
            1, attention.num_kv_heads // tp
        ) * attention.head_dim

    def _out(self, attention: Attention) -> int:
        return max(1, attention.num_heads // self.batch.layout.tp) * attention.head_dim_v

    def _qkv(self) -> int:
        return _widest_of(self.layer.block, "attention", self.batch.layout.tp)

    def _attention(self, attention: Attention) -> Widths:
        """qkv, the normalised copies of q, k (and v), and the attention's output (twice where a gate scales it)."""
        query, k = self._heads(attention)
        names = {x.name for x in self.layer.block.modules if isinstance(x, Param)}
        normalised: Widths = ()
        if any("q_norm" in n for n in names) and self.holding.float_norm is None:
            normalised = query, k
            if self.model.architecture in facts.NORMALISES_V:
                normalised += (max(1, attention.num_kv_heads // self.batch.layout.tp) * attention.head_dim_v,)
        return (self._qkv(), *normalised, *self.holding.outputs * (self._out(attention),))

    def _float_norm(self, attention: Attention, norm: facts.FloatNorm) -> Widths:
        query, k = self._heads(attention)
        alive = norm.alive * (self.model.hidden_size,)
        return (*alive, self._qkv(), *norm.query * (2 * query,), *norm.copies * (query,), 2 * k if norm.key else 0)

    def _mla(self, attention: Attention) -> Widths:
        """deepseek_v2.py: the down projection, the query heads and the latent key-value state."""
        tp = self.batch.layout.tp
        query = max(1, attention.num_heads // tp) * (attention.qk_nope_head_dim + attention.qk_rope_head_dim)
        down = sum(sum(outs(x, tp)) for x in self._linears("attention") if x.shard == "replicated")
        return down, query

    def _mla_workspace(self, attention: Attention) -> int:
        """mla_attention.py:632 (0.21.0): room for the keys and values of chunked context, allocated while profiling."""
        batch = self.batch
        if attention.indexer is not None:
            return 0
        tokens = min(max(8 * batch.length, 4 * batch.seqs * batch.block_size), 8 * LATENT_CONTEXT)
        return (
            tokens
            * max(1, attention.num_heads // batch.layout.tp)
            * (attention.qk_nope_head_dim + attention.head_dim_v)
            * self.width
        )

    def _widths(self, role: str) -> tuple[int, int]:
        return _widths_of(self.layer.block, role, self.batch.layout.tp)

    def _dense(self) -> str:
        """The role of the layer's MLP; Granite's hybrids without experts call theirs shared."""
        if self._widths("mlp")[0]:
            return "mlp"
        return "" if has_experts(self.layer) or not self._widths("shared_experts")[0] else "shared_experts"

    def _mlp(self, role: str) -> Widths:
        """gate_up and its activation; an MLP without a gate may hold more, the square say."""
        up, down = self._widths(role)
        return up, down, round(self.holding.inner * down) if up < 2 * down else 0

    def _requantised(self, role: str) -> int:
        """The row projection's input once more in one byte, with a float32 scale for every 128 or every token."""
        total = 0
        for linear in self._linears(role):
            if linear.shard == "row" and linear.scheme is not None and quantises_input(linear.scheme, self.batch.sm):
                k = in_features(linear, self.batch.layout.tp)
                total = max(total, self.batch.tokens * (k + (k // 128 if linear.scheme.strategy == "block" else 0) * 4))
        return total

    def _projection(self) -> int:
        return _widest_of(self.layer.block, "linear_attn", self.batch.layout.tp)

    def _state(self, state: State) -> Widths:
        """mamba_mixer2.py: the input projection (and a scaled copy beside an attention mixer), the scan's output and
        its gated norm, which is in float32 and twice there where the state has groups (:100)."""
        tp, inner = self.batch.layout.tp, max(1, state.intermediate // self.batch.layout.tp)
        if state.kind in ("gdn", "kda"):
            # gdn_linear_attn.py:737: qkvz, a copy of z, b and a twice, the attention's output
            value = state.num_heads * state.head_dim // tp
            return self._projection(), value, value, 4 * (state.num_heads // tp)
        if state.kind == "mamba2" and state.groups > 1:
            return self._projection(), inner, 2 * inner, 2 * inner - self.model.hidden_size
        return (2 if len(self.layer.mixers) > 1 else 1) * (self._projection(),) + (inner, inner)

    def _split(self, state: State) -> Widths:
        """gdn_linear_attn.py:748: qkvz, the parts copied out of it (q, k and v also joined), output and its norm."""
        tp = self.batch.layout.tp
        key, value = state.groups * state.key_dim // tp, state.num_heads * state.head_dim // tp
        return self._projection(), 2 * key + value, 2 * key + value, value, value, value

    def _tuning(self, state: State) -> int:
        tuned = state.kind == "gdn" and self.batch.rules.tunes_gdn and self.batch.triton_gdn and self.batch.profiling
        return facts.TRITON_FLUSH_BYTES if tuned else 0

    # --- experts ---------------------------------------------------------------------------------------------------

    def _experts(self, block: Block, alive: Widths, *, shared: bool) -> Iterator[Phase]:
        """The experts' kernels, then (moe_runner.py:679) the sum with the shared experts' output."""
        hidden = (self.model.hidden_size,)
        experts = next(module for module in block.modules if isinstance(module, Experts))
        out = alive + (2 if shared else 1) * hidden
        yield self._phase("experts", (*out, unshared(experts, self.batch)), expert_inputs(experts, self.batch))
        if shared:
            yield self._phase("experts", (*out, *hidden, self._sum()), 0)
