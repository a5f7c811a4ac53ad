"""SGLang behind the protocol. Its logs are read and explained; its commands are not planned yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oomph.engines.protocol import EngineProtocol

if TYPE_CHECKING:
    from oomph.doctor.case import Case
    from oomph.facts.loglines import LogRow
    from oomph.ir.timeline import StageName


class SgLang(EngineProtocol):
    name = "sglang"
    title = "SGLang"

    package = "sglang"
    programs = ("sglang",)
    modules = ("sglang",)
    images = ("sglang",)
    variables = ("SGLANG_",)
    launches = (r"\bsglang\s+serve\b", r"-m\s+sglang\.launch_server\b")
    frame_paths = ("/sglang/",)

    def log_rows(self) -> tuple[LogRow, ...]:
        from oomph.facts.sglang.logs import ROWS

        return ROWS

    def inferred(self, case: Case) -> tuple[StageName | None, str] | None:
        from oomph.doctor.inferred_vllm import inferred

        return inferred(case)


ENGINE = SgLang()
