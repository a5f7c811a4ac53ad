"""The names that --tool-call-parser and --reasoning-parser take, release by release.

Origins: `function_call/function_call_parser.py` ToolCallParserEnum and `parser/reasoning_parser.py` DetectorMap of
every release; "auto" is a choice of both since 0.5.12 (`server_args.py`).
"""

from oomph.facts.changes import Facts
from oomph.facts.sglang.architectures import evolving


class Parsers(Facts):
    tool_call_parser = evolving(
        "deepseekv3 deepseekv31 deepseekv32 glm glm45 glm47 gpt-oss kimi_k2 llama3 mimo mistral pythonic qwen qwen25 "
        "qwen3_coder step3 minimax-m2 interns1",
        ("0.5.8", "+trinity"),
        ("0.5.9", "+lfm2 +step3p5 +hermes +gigachat3"),
        ("0.5.11", "+hunyuan +gemma4"),
        ("0.5.12", "+auto +deepseekv4 +poolside_v1"),
        ("0.5.13", "+apertus2509 +cohere_command4 +minicpm5"),
        ("0.5.16", "+minimax-m3 +inkling"),
        ("0.5.17", "+kimi_k3"),
        ("0.5.18", "+muse"),
        ("0.5.19", "+dots +ling3 +spark25"),
        ("0.5.20", "+k2_horizon +nanbeige"),
        ("0.5.21", "+deepseekv41 +gigachat35 +iquest_q1"),
        ("0.5.23", "+beam +response_template"),
    )
    reasoning_parser = evolving(
        "deepseek-r1 deepseek-v3 glm45 gpt-oss kimi kimi_k2 qwen3 qwen3-thinking minimax minimax-append-think step3 "
        "nano_v3 interns1",
        ("0.5.9", "+step3p5"),
        ("0.5.10", "+mimo +mistral +nemotron_3 -nano_v3"),
        ("0.5.11", "+hunyuan +gemma4"),
        ("0.5.12", "+auto +deepseek-v4 +poolside_v1"),
        ("0.5.13", "+apertus2509 +cohere_command4"),
        ("0.5.16", "+minimax-m3 +inkling"),
        ("0.5.17", "+kimi_k3"),
        ("0.5.18", "+muse"),
        ("0.5.19", "+dots +ling3"),
        ("0.5.20", "+k2_horizon +nanbeige +granite_thinking_parser"),
        ("0.5.21", "+deepseek-v41 +gigachat35 +iquest_q1"),
        ("0.5.23", "+beam +response_template"),
    )
