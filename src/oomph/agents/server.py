"""The tools and resources of `oomph mcp`, with the official SDK: plan, explain, fit, inspect, compare, models.

Each tool is a command of the same name: typed inputs, the answer of answers.py as structured content, every text
without secrets. What is refused is an error with the sentence and the hint of the command line.
"""

import os
from collections.abc import Callable
from typing import Annotated, Any, Literal

from anyio import to_thread
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from oomph.agents import answers
from oomph.errors import CommandError, InputError, OomphError
from oomph.ir.timeline import STAGES
from oomph.sources import boundary
from oomph.text.redaction import hide_secrets

INSTRUCTIONS = """\
oomph foresees and explains GPU memory in LLM serving (vLLM, SGLang, llama.cpp, Ollama, TensorRT-LLM). Use `plan`
before a server is started, `explain` with the log of one that died, `fit` to find the command that works, `models` to
find a model. It needs no GPU and runs nothing. Quote the stage, the cause, the remedy and its basis, not a figure
alone: figures have intervals. A remedy whose basis begins with "planned" was planned with exactly the command that it
gives."""
_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
_LONGEST_TEXT = 2 << 20

Gpu = Annotated[
    str, Field(description='The GPUs: "2x RTX 5070 Ti", "RTX 3090 used 1.2GiB", "g5.12xlarge", "24GiB"; empty: live.')
]
Release = Annotated[str, Field(description='The engine\'s release, if the command does not say: "vllm==0.21.0".')]
Command = Annotated[
    str, Field(description='The whole serve command: "vllm serve Qwen/Qwen3-8B --max-model-len 16384".')
]
Path = Annotated[str, Field(description="A file instead: compose, manifest, script, notebook, log.")]
Model = Annotated[str, Field(description='A hub id, a folder, a GGUF file, or a name: "gemma-4-31b nvfp4".')]
Context = Annotated[int, Field(ge=0, le=1 << 30, description="Tokens of one request; 0: not said.")]
OwnBuild = Annotated[bool, Field(description="The engine was built from source, with code for these cards.")]
Users = Annotated[int, Field(ge=0, le=4096, description="Requests of that context at once; 0: not said.")]


def build(root: str = ".") -> MCPServer[Any]:
    """`root`: the folder whose files may be read."""
    boundary.confine(root)
    server: MCPServer[Any] = MCPServer("oomph", instructions=INSTRUCTIONS, log_level="WARNING")
    _add_tools(server)
    _add_searches(server)
    _add_rules(server)
    return server


def _add_tools(server: MCPServer[Any]) -> None:
    @server.tool(title="Will it fit?", annotations=_READS)
    async def plan(
        command: Command = "", file: Path = "", gpu: Gpu = "", engine: Release = "", own_build: OwnBuild = False
    ) -> Annotated[CallToolResult, answers.PlanAnswer]:
        """Will a serve command start on these GPUs; if not, at which stage it dies, why, and which change helps."""
        from oomph.answers.plan import plan as plan_command

        def answer() -> answers.PlanAnswer:
            deployment = _deployment(command, file, engine)
            return answers.plan_answer(plan_command(deployment, gpu=gpu or None, own_build=own_build))

        return await _answer(answer)

    @server.tool(title="Why did it die?", annotations=_READS)
    async def explain(
        log: Annotated[str, Field(description="The text of the log, from its first line.")] = "",
        file: Path = "",
        command: Command = "",
        gpu: Gpu = "",
        engine: Release = "",
        stage: Annotated[str, Field(description="Where it failed, if known: an answer to `question`.")] = "",
    ) -> Annotated[CallToolResult, answers.ExplainAnswer]:
        """Why a run ran out of memory (or failed otherwise), from its log: stage, cause, evidence, remedies."""
        from oomph.doctor.explain import explain as explain_log

        def answer() -> answers.ExplainAnswer:
            text = _log(log, file)
            known = next((name for name in STAGES if name == stage), None)
            words = [command] if command else ()
            explained = explain_log(text, gpus=gpu, command=words, engine=engine or None, stage=known)
            return answers.explain_answer(explained)

        return await _answer(answer)

    @server.tool(title="What is this checkpoint?", annotations=_READS)
    async def inspect(model: Model) -> Annotated[CallToolResult, answers.InspectAnswer]:
        """What a checkpoint is: bytes by part, what is quantised, layers, the KV cache of one sequence."""
        from oomph.answers.inspection import inspect as inspect_model

        return await _answer(lambda: answers.inspect_answer(inspect_model(model)))


def _add_searches(server: MCPServer[Any]) -> None:
    @server.tool(title="The command that works best", annotations=_READS)
    async def fit(
        model: Model,
        gpu: Gpu,
        context: Context = 0,
        users: Users = 0,
        engine: Release = "",
    ) -> Annotated[CallToolResult, answers.FitAnswer]:
        """The checkpoint, layout and flags that serve a model best on these GPUs. Takes seconds."""
        from oomph.search.fit import fit as fit_model

        return await _answer(
            lambda: answers.fit_answer(fit_model(model, gpu or "auto", context=context, users=users, engine=engine))
        )

    @server.tool(title="Which engine?", annotations=_READS)
    async def compare(
        model: Model, gpu: Gpu, context: Context = 0, users: Users = 1
    ) -> Annotated[CallToolResult, answers.CompareAnswer]:
        """The same model on vLLM, SGLang, llama.cpp and Ollama. Takes seconds."""
        from oomph.answers.compare import compare as compare_engines

        return await _answer(
            lambda: answers.compare_answer(compare_engines(model, gpu=gpu or None, context=context, users=users or 1))
        )

    @server.tool(title="What should I run?", annotations=_READS)
    async def models(
        gpu: Gpu,
        purpose: Literal["chat", "code", "reasoning", "vision", "embedding"] = "chat",
        context: Context = 0,
        users: Users = 0,
        words: Annotated[str, Field(description='Words of the model\'s name: "qwen3"; empty looks at all.')] = "",
    ) -> Annotated[CallToolResult, answers.ModelsAnswer]:
        """The models that run well on these GPUs, the best first, each with its command. Takes seconds."""
        from oomph.search.models import models as search_models

        return await _answer(
            lambda: answers.models_answer(
                search_models(
                    gpu or "auto", purpose=purpose, context=context, users=users, words=words.split(), limit=5
                )
            )
        )


def _add_rules(server: MCPServer[Any]) -> None:
    from oomph.doctor.rules import page, rules

    @server.resource("oomph://rules", name="rules", title="All diagnoses", mime_type="text/plain")
    def index() -> str:
        """Every diagnosis that oomph knows: its id and its title."""
        return "\n".join(f"{rule.id}  {rule.title}" for rule in rules()) + "\n"

    @server.resource("oomph://rules/{rule_id}", name="rule", title="A diagnosis", mime_type="text/plain")
    def rule_page(rule_id: str) -> str:
        """What a diagnosis is, how to recognise it, what fixes it and what does not."""
        text = page(rule_id)
        if not text:
            raise ResourceNotFoundError(f"no rule is called {rule_id[:20]!r}; oomph://rules lists them")
        return text


def _deployment(command: str, file: str, engine: str) -> Any:
    from oomph.commands import parse_command

    if bool(command.strip()) == bool(file.strip()):
        raise CommandError("give the serve command or a file that holds it, one of the two")
    if file:
        boundary.require(file)
    return parse_command([command.strip() or file], engine=engine or None)


def _log(log: str, file: str) -> Any:
    if bool(log.strip()) == bool(file.strip()):
        raise InputError("give the text of the log or a file, one of the two")
    if len(log) > _LONGEST_TEXT:
        raise InputError(f"the log is over {_LONGEST_TEXT:,} characters: name its file instead")
    if not file:
        return log if "\n" in log else log + "\n"  # a text, never a path
    boundary.require(file)
    if not os.path.isfile(file):
        raise InputError(f"{file[:200]!r} is not a file")
    return [file]


async def _answer(work: Callable[[], Any]) -> CallToolResult:
    """In a thread, so that the server keeps answering; the verdict as text, everything as structured content."""
    try:
        fields = await to_thread.run_sync(lambda: answers.without_secrets(work()))
    except OomphError as refused:
        hint = f" Hint: {refused.hint}" if refused.hint else ""
        raise ToolError(hide_secrets(f"{refused.kind}: {refused.message}.{hint}")) from None
    except (RecursionError, MemoryError):
        raise ToolError("input_error: this input is too deep or too large to read") from None
    import json

    text = TextContent(type="text", text=json.dumps(fields, ensure_ascii=False))
    return CallToolResult(content=[text], structured_content=fields)
