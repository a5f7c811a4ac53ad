"""The deployment of an SGLang log: the arguments that it prints first, and what it prints of the memory, pinned."""

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from oomph.facts.sglang.flags import options_of
from oomph.facts.sglang.versions import NEWEST
from oomph.ir import Deployment, Device, Engine
from oomph.ir.observation import Observation

# ServerArgs(name=value, ...); since 0.5.20 {'name': value, ...}
_ARGUMENT = re.compile(r"(?:\b|')(\w{1,60})(?:=|': )('[^']{0,300}'|-?[\d.]{1,20}|True|False|None)(?=[,)}])")
# server_args.py prints what it has resolved. Fields that a plan reads, and the value that says nothing.
_FIELDS: dict[str, Any] = {
    "tp_size": 1, "pp_size": 1, "dp_size": 1, "ep_size": 1, "context_length": None, "mem_fraction_static": None,
    "kv_cache_dtype": "auto", "quantization": None, "dtype": "auto", "chunked_prefill_size": None,
    "max_running_requests": None, "max_total_tokens": None, "cuda_graph_max_bs": None, "disable_cuda_graph": False,
    "cuda_graph_max_bs_decode": None,
    "page_size": None, "enable_dp_attention": False, "speculative_algorithm": None, "speculative_num_steps": None,
    "speculative_draft_model_path": None, "speculative_num_draft_tokens": None, "disable_radix_cache": False,
}  # fmt: skip


def printed_settings(observations: Sequence[Observation]) -> tuple[str, dict[str, Any]]:
    """(model, flags) of the line "server_args=...", on which everything stands resolved."""
    text = next((str(o.values.get("args", "")) for o in observations if o.kind == "sg_args"), "")
    pairs = _ARGUMENT.findall(text[: 64 << 10])
    printed = {name: _value(value) for name, value in reversed(pairs)}  # the first counts, others are a part's own
    model = printed.get("model_path")
    rows = options_of(NEWEST).by_field
    return model if isinstance(model, str) else "", {
        name: printed[name]
        for name, silent in _FIELDS.items()
        if name in rows and printed.get(name) not in (None, silent)
    }


def from_arguments(observations: Sequence[Observation], gpus: tuple[Device, ...]) -> Deployment | None:
    """What was started, where no command stands in the text."""
    model, flags = printed_settings(observations)
    return Deployment(Engine("sglang", NEWEST, "newest known"), model, flags, gpus) if model and gpus else None


def _value(text: str) -> Any:
    if text.startswith("'"):
        return text.strip("'")
    if text in ("True", "False", "None"):
        return {"True": True, "False": False}.get(text)
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return None


def pin_printed(deployment: Deployment, observations: Sequence[Observation]) -> Deployment:
    """What was free before the load, and what the weights took: the rest of the share is the pool."""
    terms: dict[str, int] = {}
    for kind, name, term in (("sg_load_begin", "avail", "free_before_load"), ("sg_weights", "weights", "weights")):
        sizes = (observation.values.get(name) for observation in observations if observation.kind == kind)
        size = next(sizes, None)
        if isinstance(size, int):
            terms[term] = size
    return replace(deployment, given=terms)
