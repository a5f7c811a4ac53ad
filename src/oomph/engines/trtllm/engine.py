"""TensorRT-LLM behind the protocol. Its logs are read and explained; its commands are not planned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from oomph.engines.protocol import EngineProtocol, LeverWords, Words

if TYPE_CHECKING:
    from oomph.doctor.case import Case
    from oomph.facts.loglines import LogRow


class TensorRtLlm(EngineProtocol):
    name = "trtllm"
    title = "TensorRT-LLM"
    aliases = ("tensorrt-llm",)

    words = Words(parallel_flag="--tp_size", offloads_weights=False)

    programs = ("trtllm-serve",)
    modules = ("tensorrt_llm",)
    images = ("tensorrt-llm", "tensorrt_llm", "trtllm")
    launches = (r"\btrtllm-serve\b",)
    frame_paths = ("/tensorrt_llm/",)

    def log_rows(self) -> tuple[LogRow, ...]:
        from oomph.facts.trtllm.logs import ROWS

        return ROWS

    def lever_words(self, case: Case) -> Mapping[str, LeverWords]:
        from oomph.engines.trtllm.lever_words import OPTIONS

        return OPTIONS


ENGINE = TensorRtLlm()
