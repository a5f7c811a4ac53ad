"""TensorRT-LLM behind the protocol. Its logs are read and explained; its commands are not planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oomph.engines.protocol import EngineProtocol

if TYPE_CHECKING:
    from oomph.facts.loglines import LogRow


class TensorRtLlm(EngineProtocol):
    name = "trtllm"
    title = "TensorRT-LLM"
    aliases = ("tensorrt-llm",)

    programs = ("trtllm-serve",)
    modules = ("tensorrt_llm",)
    images = ("tensorrt-llm", "tensorrt_llm", "trtllm")
    launches = (r"\btrtllm-serve\b",)
    frame_paths = ("/tensorrt_llm/",)

    def log_rows(self) -> tuple[LogRow, ...]:
        from oomph.facts.trtllm.logs import ROWS

        return ROWS


ENGINE = TensorRtLlm()
