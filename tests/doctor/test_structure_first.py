# ruff: noqa: E501 - a line of a log is a line
"""Who printed a line, how it ended and what people say beside it, before any wording: one short text per class.

The classes are those of the third and the fourth batch of public reports (tests/truth/field/README.md).
"""

from __future__ import annotations

from functools import partial

import pytest

from oomph.doctor.explain import explain as full_explain

explain = partial(full_explain, plan=False)

FRAME = '  File "/x/site-packages/{path}", line 7, in {function}\n    {code}\n'
TEXTS: dict[str, tuple[str, str, bool | None, str | None, set[str]]] = {
    # name: text, engine, failed, stage, one of these causes
    "sglang by its header": (
        "Multi-thread loading shards: 100% Completed | 4/4\n[2026-04-16 01:02:09 TP1] Failed to prepare experts: CUDA out"
        " of memory. Tried to allocate 24.00 MiB. GPU 1 has a total capacity of 47.37 GiB of which 4.31 MiB is free.",
        "sglang", True, "weights_load", {"L01"}),
    "llama.cpp by its header": (
        "# box crashes: failed assertion `an encoder is encoding already'\n0.02.229.721 I loaded  54% model tensors into"
        " buffer", "llamacpp", True, "weights_load", {"N24"}),
    "ollama by its folders": (
        "CUDA error: out of memory\n  current device: 0, in function ggml_cuda_pool_malloc_vmm at"
        " C:\\git\\ollama\\llm\\llama.cpp\\ggml-cuda.cu:85\n", "ollama", True, "runtime_request", {"B02", "O02"}),
    "an error level of TensorRT-LLM": (
        "[11/18/2025-09:33:30] [TRT-LLM] [RANK 0] [E] Failed to initialize executor on rank 0: NCCL error"
        " ../runtime/ncclCommunicator.cpp:90 'invalid usage'", "trtllm", True, "other", {"N12"}),
    "an assertion of its C++ sources": (
        "[TensorRT-LLM][ERROR] Assertion failed: blocks.empty() (/src/cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp:1)",
        "trtllm", True, "runtime_request", {"N01"}),
    "a builder without memory": (
        "[11/10/2023-06:30:40] [TRT] [E] 2: [globWriter.cpp::makeResizableGpuMemory::423] Error Code 2: OutOfMemory\n"
        "[11/10/2023-06:30:40] [TRT-LLM] [E] Engine building failed, please check the error log.",
        "trtllm", True, "weights_load", {"L01", "T03"}),
    "a title over a log that says nothing": (
        "# CUDA out of memory while loading the model\nINFO 03-07 10:42:32 llm_engine.py:234] Initializing a V0 LLM engine"
        " (v0.7.3) with config: model='a/b', dtype=torch.float16", "vllm", True, "weights_load", {"L01", "M01"}),
    "a title in another script": (
        "# \u63a8\u7406\u65f6\u663e\u5b58\u589e\u52a0\u76f4\u5230OOM\n(Worker_TP4 pid=2) ERROR 10-31 03:29:24"
        " [multiproc_executor.py:671]   File \"/x/vllm/v1/worker/gpu_model_runner.py\", line 1590, in _execute_mm_encoder",
        "vllm", True, "runtime_request", {"R15"}),
    "a title over a server that is up": (
        "# Decode runs out of memory in the evening\nINFO 11-05 12:03:01 [api_server.py:9] Application startup complete",
        "vllm", True, "runtime_request", {"P07"}),
    "an engine of V0 that is dead": (
        "ERROR 11-05 12:03:00 client.py:250] RuntimeError: Engine loop has died\nCRITICAL 11-05 12:03:03 launcher.py:99]"
        " MQLLMEngine is already dead, terminating server process", "vllm", True, "runtime_request", {"R13"}),
    "a step that was dumped": (
        "(EngineCore_0 pid=399) ERROR 09-11 06:29:59 [dump_input.py:69] Dumping input data for V1 LLM engine (v0.10.1.1)"
        " with config: model='/model/a', dtype=torch.bfloat16", "vllm", True, "runtime_request", {"R13", "unknown"}),
    "a parent's report, and how far it had got": (
        "INFO 05-23 09:31:24 [gpu_model_runner.py:1347] Model loading took 18.1450 GiB and 40.766484 seconds\n"
        "INFO 05-23 09:31:43 [backends.py:430] Dynamo bytecode transform time: 19.00 s\n"
        "ERROR 05-23 09:31:47 [core.py:396] EngineCore failed to start.", "vllm", True, "profile_run", {"R13", "P03"}),
    "a paste that ends in a word": (
        "INFO 06-12 08:12:23 distributed_gpu_executor.py:45] # GPU blocks: 507, # CPU blocks: 1024\n"
        "ERROR 06-12 08:12:23 worker_base.py:145] Error execut", "vllm", True, "kv_alloc", {"K10", "R13"}),
    "a watchdog that has seen requests": (
        "[rank1]:[E ProcessGroupNCCL.cpp:563] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL("
        "SeqNum=158046, OpType=GATHER, Timeout(ms)=600000)", "vllm", True, "runtime_request", {"N12"}),
    "a watchdog that hands on an error": (
        "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  Process group watchdog thread"
        " terminated with exception: CUDA error: an illegal memory access was encountered",
        "vllm", True, "runtime_request", {"N11"}),
    "an assertion without a message": (
        FRAME.format(path="vllm/model_executor/layers/linear.py", function="weight_loader",
                     code="assert param_data.shape == loaded_weight.shape") + "AssertionError",
        "vllm", True, "weights_load", {"N17"}),
    "a traceback that ends in a compiler": (
        "(EngineCore pid=6) ERROR 01-08 11:19:33 [core.py:866]   File \"/x/vllm/v1/engine/core.py\", line 240, in"
        " determine_available_memory\n(EngineCore pid=6) ERROR 01-08 11:19:33 [core.py:866]   File"
        " \"/x/torch/_inductor/async_compile.py\", line 417, in triton", "vllm", True, "profile_run", {"N21"}),
    "a weight that is repacked": (
        "(EngineCore pid=74) ERROR 05-07 00:37:03 [core.py:1136]   File \"/x/vllm/_custom_ops.py\", line 1279, in"
        " gptq_marlin_repack\n(EngineCore pid=74) ERROR 05-07 00:37:03 [core.py:1136] RuntimeError: CUDA driver error: out"
        " of memory", "vllm", True, "weights_load", {"L05", "L01"}),
    "a model under vllm/models": (
        "# OOM\n" + FRAME.format(path="vllm/models/deepseek_v4/nvidia/model.py", function="_init_fused_moe_experts",
                                 code="self.experts = FusedMoE("), "vllm", True, "weights_load", {"L01", "M01"}),
    "graphs of V0, inside of the cache's set-up": (
        "# OOM\n" + FRAME.format(path="vllm/worker/worker.py", function="initialize_cache", code="self._warm_up_model()")
        + FRAME.format(path="vllm/worker/worker.py", function="_warm_up_model", code="self.model_runner.capture_model("),
        "vllm", True, "cudagraph_capture", {"C01", "C02"}),
    "a launcher's logger around it": (
        'time="2026-01-29T14:55:54Z" level=info msg="  File \\"/opt/x/site-packages/vllm/entrypoints/cli/serve.py\\", line'
        ' 72, in subparser_init" component=vllm\n', "vllm", True, "other", {"R13", "unknown"}),
    "a launcher's name before llama.cpp's header": (
        "# CUDA error: out of memory\n[router stdout] [60611] 0.00.135.192 I srv main: loading model",
        "llamacpp", True, "weights_load", {"B01", "M01"}),
    "people name the moment": (
        "# vLLM OOMs during CUDA initialization\ntorch.cuda.OutOfMemoryError: CUDA out of memory.\nTried to allocate 23.04"
        " GiB (GPU 0; 23.52 GiB total; 0 bytes free)", "vllm", True, "startup_free_memory", {"D01", "D07", "M01"}),
    "a traceback that ends where NCCL joins the ranks": (
        FRAME.format(path="vllm/distributed/device_communicators/pynccl_wrapper.py", function="ncclCommInitRank",
                     code="self.check("), "vllm", True, "other", {"N12"}),
    "NCCL's failure while ranks are joined, before any memory is read": (
        "RuntimeError: NCCL error: unhandled cuda error\n"
        + FRAME.format(path="vllm/v1/worker/gpu_worker.py", function="init_device",
                       code="init_worker_distributed_environment("), "vllm", True, "other", {"N12"}),
    "a title over the loader's first lines": (
        "# Vulkan backend unable to allocate memory for larger models\n"
        "llama_model_loader: loaded meta data with 27 key-value pairs and 723 tensors from a.gguf (version GGUF V3)",
        "llamacpp", True, "weights_load", {"B01", "M01"}),
    "a setting, by its name alone": (
        "ValueError: LoRA rank 64 is greater than max_lora_rank 16.", "vllm", True, "other", {"N19"}),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_structure_before_wording(name: str) -> None:
    text, engine, failed, stage, causes = TEXTS[name]
    answer = explain(text + "\n")
    assert (answer.engine.name, answer.failed) == (engine, failed)
    assert failed is None or answer.stage == stage
    assert answer.cause.id in causes


def test_what_no_line_says_is_asked_for_first() -> None:
    text = FRAME.format(path="vllm/model_executor/model_loader/loader.py", function="load_model", code="model = f(")
    assert "whole log" in explain(text).remedies[0].change.label


def test_an_exception_of_something_else_is_answered_as_what_it_is() -> None:
    answer = explain("ValueError: the colour of the paint_brush is not known\n")
    assert answer.cause.id == "N01" and "paint_brush" in answer.cause.text  # a text with a failure is never refused
