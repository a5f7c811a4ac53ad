"""Options are written as they were typed, so that a command that is changed is still its user's own."""

import shlex

import pytest

from oomph.answers.plan import plan
from oomph.commands import parse_command, to_shell

MOE = "llama-server -hf unsloth/Qwen3-30B-A3B-GGUF:Q4_K_M"


@pytest.mark.parametrize(
    "text",
    [
        f"{MOE} -c 32768 --n-cpu-moe 0 -ngl 99",
        f"{MOE} --ctx-size 32768 -ncmoe 48 --n-gpu-layers 99",
        f"{MOE} -cmoe -ot 'token_embd=CPU,output=CPU'",
        f"{MOE} -ot 'a=CPU' --n-cpu-moe 3 -ot 'b=CPU'",
        f"{MOE} --n-cpu-ffn 2 --n-cpu-moe 0",
        f"{MOE} -kvu --no-mmap --jinja --port 8080 -t 8",
        "vllm serve Qwen/Qwen3-8B -tp 2 -dp 2 -q fp8 --max-model-len 4096",
        "vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 --no-enable-prefix-caching",
        "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 2 --dp-size 2 --mem-fraction-static 0.8",
        "trtllm-serve Qwen/Qwen3-8B --tensor_parallel_size 2 --ep_size 2",
    ],
)
def test_a_command_is_written_as_it_was_typed(text: str) -> None:
    read = parse_command(shlex.split(text))
    assert sorted(shlex.split(to_shell(read))) == sorted(shlex.split(text))
    again = parse_command(shlex.split(to_shell(read)))
    assert (again.flags, again.model, again.spelling, again.passed) == (
        read.flags,
        read.model,
        read.spelling,
        read.passed,
    )


def test_no_experts_on_the_cpu_is_no_empty_pattern() -> None:
    answer = plan(shlex.split(f"{MOE} -c 32768 --n-cpu-moe 0 -ngl 99"), gpu="RTX 4060")
    assert answer.advice is not None
    assert answer.advice.fixes
    for fix in answer.advice.fixes:
        assert "-ot" not in fix.command
        assert len(fix.command) < 200
        assert plan(shlex.split(fix.command), gpu="RTX 4060", advise=False).verdict.outcome == "fits"
