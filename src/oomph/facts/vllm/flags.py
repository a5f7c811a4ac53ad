"""Which flags a vLLM release has, and what to say of one that it does not have."""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Literal

from msgspec import Struct

from oomph.facts.changes import dated_words
from oomph.facts.vllm.command_line import CommandLine
from oomph.facts.vllm.config_keys import KEYS, KEYS_REFUSED_SINCE
from oomph.facts.vllm.flag_rows import ROWS, Flag
from oomph.facts.vllm.versions import parse

__all__ = ["Flag", "Options", "Status", "negated", "options_of", "spelled"]


class Gone(Struct, frozen=True):
    """Why a flag went and what does its work now ("" = nothing)."""

    replaced_by: str = ""
    why: str = ""


_EPLB = Gone("--eplb-config", "its settings moved into one JSON argument")
_GUIDED = Gone("--structured-outputs-config", "its settings moved into one JSON argument")
_V0 = Gone("", "it belonged to the V0 engine")

GONE: Mapping[str, Gone] = {
    "calculate_kv_scales": Gone("", "scales come from the checkpoint, or are 1.0"),
    "cuda_graph_sizes": Gone("--cudagraph-capture-sizes or --max-cudagraph-capture-size"),
    "device": Gone("", "the device is found by the platform"),
    "disable_async_output_proc": _V0,
    "disable_frontend_multiprocessing": Gone("", "the V1 engine always runs in a process of its own"),
    "disable_log_requests": Gone("--no-enable-log-requests", "requests are not logged unless asked for"),
    "disable_mm_preprocessor_cache": Gone("--mm-processor-cache-gb 0"),
    "enable_lora_bias": Gone("", "LoRA biases are no longer supported"),
    "enable_mamba_fine_grained_prefix_cache": Gone("--enable-mamba-shared-prefix-checkpoint"),
    "enable_multimodal_encoder_data_parallel": Gone("--mm-encoder-tp-mode data"),
    "enable_prompt_adapter": _V0,
    "enable_reasoning": Gone("--reasoning-parser", "naming a parser is enough"),
    "eplb_log_balancedness": _EPLB,
    "eplb_step_interval": _EPLB,
    "eplb_window_size": _EPLB,
    "expand_tools_even_if_tool_choice_none": Gone("--exclude-tools-when-tool-choice-none", "the default turned around"),
    "guided_decoding_backend": _GUIDED,
    "guided_decoding_disable_additional_properties": _GUIDED,
    "guided_decoding_disable_any_whitespace": _GUIDED,
    "guided_decoding_disable_fallback": _GUIDED,
    "logits_processor_pattern": Gone("--logits-processors"),
    "long_lora_scaling_factors": _V0,
    "lora_extra_vocab_size": Gone("", "adapters can no longer add tokens"),
    "max_long_partial_prefills": Gone("", "the V1 scheduler never used it"),
    "max_num_partial_prefills": Gone("", "the V1 scheduler never used it"),
    "max_prompt_adapter_token": _V0,
    "max_prompt_adapters": _V0,
    "max_seq_len_to_capture": Gone(
        "--cudagraph-capture-sizes", "V1 captures graphs by batch size, not by sequence length"
    ),
    "multi_step_stream_outputs": _V0,
    "num_lookahead_slots": _V0,
    "num_redundant_experts": _EPLB,
    "num_scheduler_steps": _V0,
    "override_attention_dtype": Gone("", "it only served ROCm experiments"),
    "override_neuron_config": Gone("--additional-config"),
    "override_pooler_config": Gone("--pooler-config"),
    "preemption_mode": Gone("", "V1 always recomputes a preempted request"),
    "prompt_adapters": _V0,
    "rope_scaling": Gone("--hf-overrides '{\"rope_scaling\": {...}}'"),
    "rope_theta": Gone("--hf-overrides '{\"rope_theta\": ...}'"),
    "scheduler_delay_factor": _V0,
    "swap_space": Gone("", "the V1 engine never swapped to host memory, so it never did anything there"),
    "task": Gone("--runner and --convert"),
    "tokenizer_pool_extra_config": _V0,
    "tokenizer_pool_size": _V0,
    "tokenizer_pool_type": _V0,
    "use_v2_block_manager": _V0,
}

# accepted by the release, yet without effect there
IDLE: tuple[tuple[str, str, str, str], ...] = (
    # field, since, until, why
    ("swap_space", "", "0.18.0", "the V1 engine never swaps to host memory"),
    ("num_lookahead_slots", "", "0.12.0", "the V1 scheduler does not read it"),
    ("max_num_partial_prefills", "", "0.27.0", "the V1 scheduler does not read it"),
    ("max_long_partial_prefills", "", "0.27.0", "the V1 scheduler does not read it"),
    ("disable_cascade_attn", "0.32.0", "", "cascade attention was removed"),
)


def negated(name: str) -> str:
    """argparse.BooleanOptionalAction's second spelling."""
    return "--no-" + name[2:]


@lru_cache(maxsize=1)
def _anywhere() -> Mapping[str, tuple[str, str, str]]:
    """Every spelling of any release: its field, the release that brought it and the first one without it."""
    rows = sorted(ROWS, key=lambda row: parse(row.since) if row.since else (0, 0, 0, 0))
    out: dict[str, tuple[str, str, str]] = {}
    for row in rows:
        for word, since, until in dated_words(row.names):
            span = (row.field, out[word][1] if word in out else since or row.since, until or row.until)
            out[word] = span
            if row.kind == "bool" and word.startswith("--"):
                out[negated(word)] = span
    return out


class Status(Struct, frozen=True):
    """What a release makes of a flag."""

    flag: str  # as asked, dashes for underscores
    state: Literal["known", "gone", "not yet", "unknown"]
    field: str = ""
    since: str = ""  # the release that brought it, "" = older than 0.8.5
    until: str = ""  # the first release without it
    replaced_by: str = ""
    sentence: str = ""  # for people; "" when known
    close: tuple[str, ...] = ()  # what may have been meant


def spelled(flag: str) -> str:
    """max_model_len, --max_model_len=5 and --max-model-len are all --max-model-len; -tp stays."""
    flag = flag.split("=", 1)[0]
    if flag.startswith("-") and not flag.startswith("--"):
        return flag
    return "--" + flag.lstrip("-").split(".", 1)[0].replace("_", "-")


class Options:
    """The options of one release: which there are, how it reads them, and what it says of those it does not have."""

    def __init__(self, version: str) -> None:
        self.release = version  # as sentences name it
        self._order = parse(version)
        self.reading = CommandLine.at(self._order)
        self.by_field: Mapping[str, Flag] = {row.field: row.at(version) for row in ROWS if row.holds(version)}

    @cached_property
    def fields(self) -> frozenset[str]:
        return frozenset(self.by_field)

    @cached_property
    def by_name(self) -> Mapping[str, Flag]:
        """Every option string that the release's parser knows, --no- forms included."""
        out: dict[str, Flag] = {}
        for row in self.by_field.values():
            for name in self.spelled(row):
                out[name] = row
                if row.kind == "bool" and name.startswith("--"):
                    out[negated(name)] = row
        return out

    @cached_property
    def field_names(self) -> dict[str, str]:
        """Every option string to its field."""
        return {name: flag.field for name, flag in self.by_name.items()}

    def has_begun(self, release: str) -> bool:
        """Whether this is that release or a later one; "" = it always was."""
        return not release or parse(release) <= self._order

    def spelled(self, flag: Flag) -> tuple[str, ...]:
        return self._words(flag.names)

    def allowed(self, flag: Flag) -> tuple[str, ...]:
        return self._words(flag.choices)

    def keys(self, field: str) -> frozenset[str]:
        """The keys of one JSON argument; empty = any key, or not known."""
        return frozenset(self._words(KEYS.get(field, "")))

    def refuses_keys(self, field: str) -> bool:
        """Whether the release stops at a key that it does not know (ConfigDict(extra="forbid"))."""
        return self.has_begun(KEYS_REFUSED_SINCE.get(field, "0.16.0"))

    def _words(self, text: str) -> tuple[str, ...]:
        return tuple(word for word, since, until in dated_words(text) if self._lasts(since, until))

    def _lasts(self, since: str, until: str) -> bool:
        return self.has_begun(since) and not (until and self.has_begun(until))

    def idle(self, field: str) -> str:
        """Why the release accepts a flag and does nothing with it; "" = it has an effect."""
        return next((why for name, since, until, why in IDLE if name == field and self._lasts(since, until)), "")

    def status(self, flag: str) -> Status:
        """`flag` may be spelled as on the command line or as the field's name."""
        name = spelled(flag)
        if name not in _anywhere():
            name = name if name.isprintable() and len(name) <= 80 else repr(name[:80])
            close = self._close(name)
            suggestion = f"; did you mean {' or '.join(close)}?" if close else ""
            return Status(name, "unknown", close=close, sentence=f"vLLM {self.release} has no flag {name}{suggestion}")
        field, since, until = _anywhere()[name]
        if name in self.by_name:
            return Status(name, "known", field, since, until)
        if not until or not self.has_begun(until):
            sentence = f"vLLM {self.release} has no {name} yet: it came with {since}"
            return Status(name, "not yet", field, since, until, sentence=sentence)
        other = self.by_field.get(field)
        gone = Gone(other.names.split()[0]) if other else GONE.get(field, Gone())
        replaced_by = gone.replaced_by if gone.replaced_by.split(" ")[0] in self.by_name else ""
        why = f" ({gone.why})" if gone.why else ""
        instead = f"; use {replaced_by}" if replaced_by else ""
        sentence = f"{name} is gone since vLLM {until}{why}{instead}"
        return Status(name, "gone", field, since, until, replaced_by, sentence=sentence)

    def _close(self, name: str) -> tuple[str, ...]:
        """At most two flags of the release that are spelled nearly the same."""
        from difflib import get_close_matches  # 2 ms to import, and only for a flag that does not exist

        return tuple(get_close_matches(name, self.by_name, n=2, cutoff=0.75))


@lru_cache(maxsize=64)
def options_of(version: str) -> Options:
    return Options(version)
