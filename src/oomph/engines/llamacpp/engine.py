"""llama.cpp behind the protocol: where each of its parts is."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from oomph.engines.protocol import EngineProtocol, part
from oomph.engines.values import Words
from oomph.ir import Deployment, Engine, Model

if TYPE_CHECKING:
    from oomph.commands.call import Call
    from oomph.doctor.case import Case
    from oomph.engines.common.case_levers import CaseRow

_OLD_PROGRAMS = ("server", "main")  # until mid-2024


class GgufEngine(EngineProtocol):
    """What llama.cpp and the engines around it have in common."""

    layout = "placed"
    asks_the_hub = False

    inferred = part("engines.llamacpp.log.inferred", "inferred")
    timing = part("engines.llamacpp.timing", "timing")

    host_plan = part("engines.llamacpp.host", "host_plan")
    reasons = part("engines.llamacpp.levers", "reasons")

    def failed_deployment(self, case: "Case") -> Deployment | None:
        from oomph.doctor.rebuild import started
        from oomph.engines.llamacpp.failed import printed_devices

        return started(case, self, printed_devices(case.observations))


class LlamaCpp(GgufEngine):
    name = "llamacpp"
    title = "llama.cpp"
    emit_forms = ("command", "llama-swap")
    aliases = (
        *("llama.cpp", "llama-cpp"),
        *("koboldcpp", "llama-cpp-python", "llamafile", "ramalama", "lm studio", "lmstudio", "llama-swap"),  # run it
    )
    words = Words(
        stages={"weights_load": "while loading the weights", "kv_alloc": "while creating the context"},
        # nothing is measured with a dummy batch before it is allocated, and graphs are recorded while it runs
        missing_stages=("profile_run", "cudagraph_profile", "kv_check", "cudagraph_capture"),
        opens={
            "weights_load": "loading model",
            "kv_alloc": "llama_context: n_ctx",
            "sampler_warmup": "warming up the model",
            "runtime_request": "server is listening",
        },
        cache_unit="cells",
        lost_reason='the lines before the process ended, from "load_tensors:" on (-lv 4 prints more)',
    )

    programs = ("llama-server", "llama-cli", "llama-bench")
    modules = ("llama_cpp",)
    frame_paths = ("/llama_cpp/",)
    images = ("llama.cpp", "llama-cpp")
    variables = ("GGML_", "LLAMA_ARG_", "UR_L0_")
    launches = (r"\bllama-server\b",)

    knows_flag = part("facts.llamacpp.flags", "is_known")
    write_command = part("engines.llamacpp.command", "to_words")
    plan = part("engines.llamacpp.source", "plan_command")
    controls = part("engines.llamacpp.controls", "CONTROLS")
    log_rows = part("facts.llamacpp.logs", "ROWS")
    ways = part("engines.llamacpp.offer", "ways")
    levers = part("engines.llamacpp.levers", "levers")
    refusal_levers = part("engines.llamacpp.levers", "refusal_levers")
    simulation = part("engines.llamacpp.scheduler.build", "build")

    looked_at = part("facts.llamacpp.builds", "LOOKED_AT")

    def newest(self) -> str:
        from oomph.facts.llamacpp.builds import NEWEST

        return f"b{NEWEST}"

    def nearest(self, version: str) -> tuple[str, str]:
        from oomph.facts.llamacpp.builds import parse_build

        return f"b{parse_build(version)}", ""

    def image_vendor(self, image: str) -> str:
        """.github/workflows/docker.yml: tags of the CPU's builds are server, light and full, alone or with a build."""
        from oomph.commands.call import image_tag

        name, tag = image.partition("@")[0], image_tag(image)
        is_own = re.search(r"(?:ggml-org|ggerganov)/llama\.cpp(?::|$)", name) is not None
        return "cpu" if is_own and re.fullmatch(r"(?:(?:server|light|full)(?:-b\d+)?)", tag) else ""

    def recognises(self, program: str, words: Sequence[str]) -> bool:
        if program in _OLD_PROGRAMS:
            return any(word.endswith(".gguf") for word in words)
        return super().recognises(program, words)

    def read_command(self, call: "Call", release: Engine | str | None) -> list[Deployment]:
        from oomph.commands.call import choose_release
        from oomph.engines.llamacpp.command import deployment

        return [deployment(call, choose_release(self, release)[0], request=release if isinstance(release, str) else "")]

    def file_command(self, name: str, context: int, users: int, *, whole: bool = True) -> list[str]:
        """Without `whole` llama.cpp's --fit places what the GPUs do not hold."""
        words = ["llama-server", "-hf", name, "-c", str(context * users), "-np", str(users)]
        return [*words, "-ngl", "99"] if whole else words

    def simulated_model(self, deployment: Deployment) -> Model:
        from oomph.engines.llamacpp.source import gguf_for

        return gguf_for(deployment.model)[0]

    def case_rows(self, case: "Case") -> "Mapping[str, CaseRow]":
        from oomph.engines.llamacpp.case_levers import FLAGS, SLIDERS

        return SLIDERS if case.has("lc_guard", "lc_studio") else FLAGS


ENGINE = LlamaCpp()
