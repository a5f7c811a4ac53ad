# ruff: noqa: E501 - a text is a line
"""Classes of what people tell: each in words that no draw of paraphrases has."""

from pathlib import Path

import pytest

import oomph

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        # a stage that had not begun is not the one that failed; nor is the one behind which another is named
        ("profile_run", "vllm 权重读完之后,测峰值的时候显存不够,KV cache 还没开始分配,进程就退出了。"),
        ("profile_run", "vLLM: nach dem Laden testet er den Bildencoder mit riesigen Bildern und geht dabei aus dem Speicher."),
        ("profile_run", "trtllm-serve 模型加载好了,然后跑一次 dummy 前向估算显存,CUDA out of memory。"),
        ("cudagraph_capture", 'On vLLM "Capturing" gets to a third, then it is out of memory.'),
        ("kv_check", "vllm 升级以后起不来:需要 6.1 GiB 的 KV cache,只有 5.0 GiB。"),
        ("kv_alloc", "With vLLM it goes on to creating the cache tensors and runs out of memory there."),
        # what has answered was past its start
        ("runtime_request", "vLLM on our L4 boots and answers questions for hours. One request with ten scans, and the vision encoder blows the card's memory."),
    ],
)  # fmt: skip
def test_the_stage_of_what_is_told(stage: str, text: str) -> None:
    answer = oomph.explain(f"{text}\n", plan=False)
    assert stage in {answer.stage, *(one.stage for one in answer.stages)}, answer.stages


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("H04", "vLLM with --kv-offloading-size 120: page-locked memory of the host is refused, cudaHostAlloc fails, the box has 96 GB of RAM."),
        ("H04", "SGLang mit --enable-hierarchical-cache: für den Host-Pool reicht der Arbeitsspeicher nicht, Abbruch beim Start."),
        ("R07", "The RAM of our vLLM pod keeps rising, 10 GB a day, until the pod is OOMKilled. The GPU is fine."),
        ("H01", "vllm -tp 2 im Container: Bus error, und NCCL sagt No space left on device für /dev/shm."),
        ("N16", "vLLM sagt beim Start, die Architektur FooForCausalLM werde nicht unterstützt, und beendet sich."),
        ("N03", "vllm 启动失败,模型仓库报 403 gated repo,没有权限访问。"),
        ("P01", "vLLM 加载完成后,多模态 encoder 用最大尺寸的图片做 profiling 时显存不足。"),
        ("R11", "RL with vLLM: the second llm.wake_up() fails, out of memory, the trainer still holds its optimizer."),
        ("K09", "vLLM, I gave --kv-cache-memory-bytes 70G by hand, and it runs out of memory creating the KV cache."),
        ("M02", "用 trl 的 SFTTrainer 训练,旁边一张卡跑 vllm 没问题。训练进程反向传播时显存爆了。"),
        ("M02", "A plain transformers script, model.generate() with 9,000 new tokens, no vLLM involved: CUDA out of memory on a T4."),
    ],
)  # fmt: skip
def test_the_cause_of_what_is_told(rule: str, text: str) -> None:
    answer = oomph.explain(f"{text}\n", plan=False)
    assert answer.failed and answer.cause.id == rule, (answer.cause.id, answer.stage)
    assert not answer.cause.sure or answer.stage_basis in ("status", "message")


def test_a_failure_that_is_over_is_no_failure() -> None:
    text = (
        "The CUDA OOM at start was gone after I had ended a forgotten notebook. The server has been up for two months."
    )
    assert oomph.explain(f"{text}\n", plan=False).failed is not True
    again = f"{text} Today it died with CUDA out of memory under load.\n"
    assert oomph.explain(again, plan=False).failed is True


def test_another_number_than_that_of_the_setting_is_no_value_of_it() -> None:
    text = "llama-server dies with CUDA out of memory, -c 2048 gives the same result, with 20 layers it loads.\n"
    assert "-c 20" not in [one.change.label for one in oomph.explain(text, plan=False).remedies]


def test_a_plan_does_not_overrule_that_the_weights_were_loaded() -> None:
    text = "Qwen2.5-72B-Instruct on an L40S with vLLM: after the weights were loaded, CUDA out of memory in the profiling run.\n"
    answer = oomph.explain(text)
    assert answer.stage == "profile_run" and answer.stage_basis == "said"


def test_cuda_refuses_host_memory_in_the_words_of_the_card() -> None:
    log = (FIXTURES / "H04.log").read_text(encoding="utf-8")
    answer = oomph.explain(log, plan=False)
    assert (answer.stage, answer.stage_basis, answer.cause.id) == ("host_ram", "traceback", "H04")
    on_card = oomph.explain(log.replace(", pin_memory=pin_memory", ""), plan=False)
    assert on_card.cause.id != "H04"


def test_pinned_memory_that_vulkan_refuses_is_no_failure() -> None:
    line = "ggml_vulkan: Failed to allocate pinned memory (vk::Device::allocateMemory: ErrorOutOfDeviceMemory)\n"
    answer = oomph.explain(f"0.01.1 I llama_model_loader: loaded meta data\n{line}", plan=False)
    assert answer.failed is not True


def test_what_helps_at_the_second_stage_is_not_called_useless() -> None:
    text = "llama-server with -c 200000 on a card of 12 GB: the tensors fit, and for the context 25 GB are wanted, which fails.\n"
    answer = oomph.explain(text, plan=False)
    assert {one.stage for one in answer.stages} == {"weights_load", "kv_alloc"}
    assert "context" not in {one.change.lever for one in answer.rejected}
    assert {answer.cause.id, *(one.id for one in answer.candidates)} >= {"B01", "B02"}


def test_no_more_kills_are_no_kills() -> None:
    text = "vLLM: no more OOM kills since the pod has 64 GB of RAM, you can close this.\n"
    assert oomph.explain(text, plan=False).failed is not True
