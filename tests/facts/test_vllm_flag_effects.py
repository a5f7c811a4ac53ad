"""Every flag of every release is used somewhere, or it is written down why it is not.

A flag that a plan reads has a witness below: a command whose plan is another one with the flag than without it.
"""

import ast
from pathlib import Path

import pytest

from oomph.answers.plan import plan
from oomph.facts.vllm.flag_effects import NO_MEMORY, NOT_ON_THE_GPU, NOT_PLANNED, ON_THE_HOST
from oomph.facts.vllm.flag_rows import ROWS
from oomph.facts.vllm.flags import options_of
from oomph.facts.vllm.versions import RELEASES

SOURCE = Path(__file__).parents[2] / "src" / "oomph"
FIELDS = {row.field for row in ROWS}
LISTED = [*NOT_ON_THE_GPU, *NOT_PLANNED, *(field for fields in NO_MEMORY.values() for field in fields.split())]
# read by the simulated scheduler, not by a plan
SCHEDULER = {
    "long_prefill_token_threshold",
    "max_num_active_seqs",
    "max_num_scheduled_tokens",
    "scheduler_reserve_full_isl",
    "scheduling_policy",
    "watermark",
}

QWEN = "Qwen/Qwen3-8B"
MOE = "Qwen/Qwen3-30B-A3B"
VISION = "Qwen/Qwen3-VL-8B-Instruct"
HYBRID = "Qwen/Qwen3.6-27B"
SLIDING = "google/gemma-3-27b-it"
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
NEMOTRON = "nvidia/NVIDIA-Nemotron-Nano-9B-v2"
DEEPSEEK = "deepseek-ai/DeepSeek-V3"
# field -> GPUs, release, the command, what is added to it
WITNESSES: dict[str, tuple[str, str, str, str]] = {
    "all2all_backend": (
        "2x H200",
        "0.32.0",
        f"{MOE} -dp 2 --enable-expert-parallel",
        "--all2all-backend deepep_low_latency",
    ),
    "async_scheduling": ("H200", "0.32.0", QWEN, "--no-async-scheduling"),
    "attention_backend": ("H200", "0.32.0", QWEN, "--attention-backend TRITON_ATTN"),
    "attention_config": ("H200", "0.32.0", QWEN, '--attention-config {"backend":"TRITON_ATTN"}'),
    "block_size": ("H200", "0.32.0", QWEN, "--block-size 64"),
    "compilation_config": ("H200", "0.32.0", QWEN, '--compilation-config {"cudagraph_mode":"NONE"}'),
    "convert": ("H200", "0.32.0", QWEN, "--runner pooling --convert embed"),
    "cpu_offload_gb": ("RTX 4090", "0.32.0", QWEN, "--cpu-offload-gb 4"),
    "cpu_offload_params": ("RTX 4090", "0.32.0", f"{QWEN} --cpu-offload-gb 4", "--cpu-offload-params mlp"),
    "enable_cumem_allocator": ("H200", "0.32.0", "openai/gpt-oss-20b", "--enable-cumem-allocator"),
    "enable_prompt_embeds": ("H200", "0.32.0", QWEN, "--enable-prompt-embeds"),
    "enable_sleep_mode": ("H200", "0.32.0", "openai/gpt-oss-20b", "--enable-sleep-mode"),
    "cuda_graph_sizes": ("H200", "0.10.2", QWEN, "--cuda-graph-sizes 16"),
    "cudagraph_capture_sizes": ("H200", "0.32.0", QWEN, "--cudagraph-capture-sizes 1 2 4"),
    "data_parallel_backend": ("1x H200", "0.32.0", f"{QWEN} -dp 2", "--data-parallel-backend ray"),
    "data_parallel_external_lb": ("1x H200", "0.32.0", f"{QWEN} -dp 2", "--data-parallel-external-lb"),
    "data_parallel_rank": ("1x H200", "0.32.0", f"{QWEN} -dp 2", "--data-parallel-rank 0"),
    "data_parallel_size": ("2x H200", "0.32.0", MOE, "-dp 2 --enable-expert-parallel"),
    "data_parallel_size_local": ("1x H200", "0.32.0", f"{QWEN} -dp 2", "--data-parallel-size-local 1"),
    "decode_context_parallel_size": ("8x H200", "0.32.0", f"{DEEPSEEK} -tp 8", "--decode-context-parallel-size 8"),
    "device_ids": ("2x H200", "0.32.0", f"{QWEN} -tp 2", "--device-ids 0"),
    "disable_chunked_mm_input": ("H200", "0.32.0", HYBRID, "--disable-chunked-mm-input --mamba-cache-mode align"),
    "disable_hybrid_kv_cache_manager": ("H200", "0.32.0", SLIDING, "--disable-hybrid-kv-cache-manager"),
    "disable_sliding_window": ("H200", "0.32.0", SLIDING, "--disable-sliding-window"),
    "distributed_executor_backend": ("1x H200", "0.32.0", f"{QWEN} -tp 2", "--distributed-executor-backend ray"),
    "dtype": ("H200", "0.32.0", QWEN, "--dtype float32"),
    "enable_chunked_prefill": (
        "H200",
        "0.32.0",
        f"{QWEN} --max-num-batched-tokens 2048",
        "--no-enable-chunked-prefill",
    ),
    "enable_eplb": ("2x H200", "0.32.0", f"{MOE} -tp 2 --enable-expert-parallel", "--enable-eplb"),
    "enable_expert_parallel": ("2x H200", "0.32.0", f"{MOE} -tp 2", "--enable-expert-parallel"),
    "enable_lora": ("H200", "0.32.0", QWEN, "--enable-lora"),
    "enable_multimodal_encoder_data_parallel": (
        "2x H200",
        "0.11.0",
        "Qwen/Qwen2.5-VL-7B-Instruct -tp 2",
        "--enable-multimodal-encoder-data-parallel",
    ),
    "enable_prefix_caching": ("H200", "0.32.0", QWEN, "--no-enable-prefix-caching"),
    "enforce_eager": ("H200", "0.32.0", QWEN, "--enforce-eager"),
    "eplb_config": (
        "2x H200",
        "0.32.0",
        f"{MOE} -tp 2 --enable-expert-parallel --enable-eplb",
        '--eplb-config {"num_redundant_experts":32}',
    ),
    "fully_sharded_loras": ("2x H200", "0.32.0", f"{QWEN} -tp 2 --enable-lora", "--fully-sharded-loras"),
    "gdn_prefill_backend": (
        "H200",
        "0.21.0",
        "Qwen/Qwen3-Next-80B-A3B-Instruct --max-num-batched-tokens 64 --max-num-seqs 1 --enforce-eager",
        "--gdn-prefill-backend triton",
    ),
    "gpu_memory_utilization": ("H200", "0.32.0", QWEN, "--gpu-memory-utilization 0.5"),
    "hf_overrides": ("H200", "0.32.0", QWEN, '--hf-overrides {"max_position_embeddings":65536}'),
    "kv_cache_dtype": ("H200", "0.32.0", QWEN, "--kv-cache-dtype fp8"),
    "kv_cache_dtype_skip_layers": ("H200", "0.32.0", f"{QWEN} --kv-cache-dtype fp8", "--kv-cache-dtype-skip-layers 0"),
    "kv_cache_memory_bytes": ("H200", "0.32.0", QWEN, "--kv-cache-memory-bytes 16G"),
    "kv_events_config": ("H200", "0.19.0", SLIDING, '--kv-events-config {"enable_kv_cache_events":true}'),
    "kv_offloading_backend": ("H200", "0.32.0", f"{SLIDING} --kv-offloading-size 8", "--kv-offloading-backend lmcache"),
    "kv_offloading_size": ("H200", "0.32.0", f"{SLIDING} --kv-offloading-backend lmcache", "--kv-offloading-size 8"),
    "kv_transfer_config": (
        "H200",
        "0.21.0",
        SLIDING,
        '--kv-transfer-config {"kv_connector":"NixlConnector","kv_role":"kv_both"}',
    ),
    "language_model_only": ("H200", "0.32.0", VISION, "--language-model-only"),
    "limit_mm_per_prompt": ("H200", "0.32.0", VISION, '--limit-mm-per-prompt {"image":0,"video":0}'),
    "load_format": ("H200", "0.32.0", QWEN, "--load-format nosuch"),
    "lora_dtype": ("H200", "0.32.0", f"{QWEN} --dtype float32 --enable-lora", "--lora-dtype float16"),
    "lora_extra_vocab_size": ("H200", "0.11.0", f"{LLAMA} --enable-lora", "--lora-extra-vocab-size 512"),
    "lora_target_modules": ("H200", "0.32.0", f"{QWEN} --enable-lora", "--lora-target-modules qkv_proj"),
    "mamba_block_size": ("H200", "0.21.0", HYBRID, "--mamba-block-size 4096"),
    "mamba_cache_dtype": ("H200", "0.32.0", HYBRID, "--mamba-cache-dtype float32"),
    "mamba_cache_mode": ("H200", "0.21.0", f"{NEMOTRON} --enable-prefix-caching", "--mamba-cache-mode align"),
    "mamba_ssm_cache_dtype": ("H200", "0.32.0", HYBRID, "--mamba-ssm-cache-dtype bfloat16"),
    "max_cudagraph_capture_size": ("H200", "0.32.0", QWEN, "--max-cudagraph-capture-size 16"),
    "max_lora_rank": ("H200", "0.32.0", f"{QWEN} --enable-lora", "--max-lora-rank 64"),
    "max_loras": ("H200", "0.32.0", f"{QWEN} --enable-lora", "--max-loras 4"),
    "max_model_len": ("H200", "0.32.0", QWEN, "--max-model-len 4096"),
    "max_num_batched_tokens": ("H200", "0.32.0", QWEN, "--max-num-batched-tokens 32768"),
    "max_num_partial_prefills": ("H200", "0.21.0", QWEN, "--max-num-partial-prefills 2 --no-enable-chunked-prefill"),
    "max_num_seqs": ("H200", "0.32.0", QWEN, "--max-num-seqs 16"),
    "mm_device_do_normalize": ("H200", "0.32.0", VISION, "--no-mm-device-do-normalize"),
    "mm_encoder_tp_mode": ("2x H200", "0.32.0", f"{VISION} -tp 2", "--mm-encoder-tp-mode data"),
    "mm_ipc_gpu_memory_gb": ("H200", "0.32.0", VISION, "--mm-ipc-gpu-memory-gb 2"),
    "mm_processor_kwargs": (
        "H200",
        "0.32.0",
        VISION + ' --limit-mm-per-prompt {"video":0}',
        '--mm-processor-kwargs {"max_pixels":100352}',
    ),
    "model": ("H200", "0.32.0", QWEN, MOE),
    "moe_backend": ("H200", "0.32.0", "openai/gpt-oss-20b", "--moe-backend marlin"),
    "nnodes": ("1x H200", "0.32.0", f"{QWEN} -tp 2", "--nnodes 2"),
    "num_gpu_blocks_override": ("H200", "0.32.0", QWEN, "--num-gpu-blocks-override 5000"),
    "num_redundant_experts": (
        "2x H200",
        "0.11.0",
        f"{MOE} -tp 2 --enable-expert-parallel --enable-eplb",
        "--num-redundant-experts 32",
    ),
    "offload_backend": (
        "RTX 4090",
        "0.32.0",
        f"{QWEN} --cpu-offload-gb 4 --offload-group-size 4",
        "--offload-backend uva",
    ),
    "offload_group_size": ("RTX 4090", "0.32.0", QWEN, "--offload-group-size 4"),
    "offload_num_in_group": ("RTX 4090", "0.32.0", f"{QWEN} --offload-group-size 4", "--offload-num-in-group 2"),
    "offload_params": ("RTX 4090", "0.32.0", f"{QWEN} --offload-group-size 4", "--offload-params mlp"),
    "offload_prefetch_step": ("RTX 4090", "0.32.0", f"{QWEN} --offload-group-size 4", "--offload-prefetch-step 2"),
    "optimization_level": ("H200", "0.32.0", QWEN, "-O0"),
    "performance_mode": ("H200", "0.32.0", QWEN, "--performance-mode throughput"),
    "pipeline_parallel_size": ("2x H200", "0.32.0", QWEN, "-pp 2"),
    "prefill_context_parallel_size": ("2x H200", "0.32.0", QWEN, "--prefill-context-parallel-size 2"),
    "quantization": ("H200", "0.32.0", QWEN, "--quantization fp8"),
    "rope_scaling": (
        "H200",
        "0.11.0",
        QWEN,
        '--rope-scaling {"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32768}',
    ),
    "rope_theta": ("H200", "0.11.0", QWEN, '--rope-theta 10000 --hf-overrides {"max_position_embeddings":65536}'),
    "runner": ("H200", "0.32.0", QWEN, "--runner pooling"),
    "skip_mm_profiling": ("H200", "0.32.0", f"{VISION} --max-num-batched-tokens 16384", "--skip-mm-profiling"),
    "spec_method": ("H200", "0.32.0", QWEN, "--spec-method ngram --spec-tokens 3"),
    "spec_model": ("H200", "0.32.0", QWEN, "--spec-model Qwen/Qwen3-0.6B --spec-tokens 3"),
    "spec_tokens": ("H200", "0.32.0", QWEN, "--spec-method ngram --spec-tokens 3"),
    "speculative_config": (
        "H200",
        "0.32.0",
        QWEN,
        '--speculative-config {"method":"ngram","num_speculative_tokens":3}',
    ),
    "task": ("H200", "0.11.0", QWEN, "--task embed"),
    "tensor_parallel_size": ("2x H200", "0.32.0", QWEN, "-tp 2"),
    "tokenizer_mode": ("H200", "0.32.0", QWEN, "--tokenizer-mode nosuch"),
}


def read_by_a_plan() -> set[str]:
    """The strings in the modules between a command and the GPUs' part of its plan."""
    others = {"arm", "emit", "engine", "host", "host_levers", "levers", "offer", "python_call", "reasons", "values"}
    others |= {"case_levers", "refusal_levers"}  # what could be changed, not what is
    files = (SOURCE / "engines" / "vllm").rglob("*.py")
    modules = [path for path in files if path.stem not in others and path.parent.name not in ("rules", "scheduler")]
    nodes = (node for path in modules for node in ast.walk(ast.parse(path.read_text())))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@pytest.mark.parametrize("release", RELEASES)
def test_every_flag_of_the_release_is_used_or_listed(release):
    unused = set(options_of(release).by_field) - set(WITNESSES) - SCHEDULER - set(LISTED)
    assert not unused, "read them in a plan and give a witness, or list them in facts/vllm/flag_effects.py"


def test_no_flag_is_listed_twice_or_unknown():
    assert len(LISTED) == len(set(LISTED))
    assert set(LISTED) | set(WITNESSES) | SCHEDULER <= FIELDS
    assert not set(LISTED) & (set(WITNESSES) | SCHEDULER)
    assert set(ON_THE_HOST) <= set(WITNESSES)


def test_a_listed_flag_is_not_read():
    # Refused where the release has no such backend or parser.
    checked_only = {"mm_encoder_attn_backend", "tool_call_parser", "reasoning_parser", "enable_auto_tool_choice"}
    checked_only |= {"tool_parser_plugin", "reasoning_parser_plugin"}
    # Refused where no kernel or no class exists; what another implementation builds is planned for plain decoders only.
    checked_only |= {"linear_backend", "model_impl", "trust_remote_code"}
    # Read for what stays while the server sleeps; and for adapters that are refused once everything is loaded.
    checked_only |= {"sleep_mode_offload_cudagraph", "lora_modules"}
    # Refused with values or beside settings that the release does not take.
    checked_only |= {"quantization_config", "enable_return_routed_experts"}
    # Read for files that they name and that are not on this machine.
    checked_only |= {"tokenizer", "chat_template", "generation_config"}
    assert set(LISTED) & read_by_a_plan() <= checked_only


def test_the_scheduler_reads_the_flags_that_are_said_to_be_its_own():
    text = "".join(
        (SOURCE / path).read_text() for path in ("engines/vllm/scheduler/build.py", "engines/vllm/resolve/steps.py")
    )
    assert not [field for field in SCHEDULER if f'"{field}"' not in text]


def fingerprint(gpu: str, release: str, words: list[str]) -> object:
    answer = plan(["vllm", "serve", *words], gpu=gpu, engine=f"vllm=={release}", advise=False)
    terms = [[(name, term.bytes) for name, term in rank.terms.items()] for rank in answer.ranks]
    tokens = answer.kv and (answer.kv.num_blocks, answer.kv.bytes_per_block, answer.kv.max_concurrency)
    notes = [note for note in answer.warnings if "replicas" in note]
    return answer.verdict.stage, answer.verdict.message, terms, tokens, answer.resolved, notes


@pytest.mark.parametrize("field", sorted(WITNESSES))
def test_a_flag_that_is_read_changes_the_plan(field):
    gpu, release, base, more = WITNESSES[field]
    words = base.split()
    changed = [more] if field == "model" else [*words, *more.split()]
    assert fingerprint(gpu, release, words) != fingerprint(gpu, release, changed)


def test_every_reason_is_a_sentence_part():
    for why in [*NO_MEMORY, *NOT_ON_THE_GPU.values(), *NOT_PLANNED.values(), *ON_THE_HOST.values()]:
        assert len(why.split()) > 3 and not why.endswith(".")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--enable-nccl-comm-suspend", "--enable-nccl-comm-suspend does not change GPU memory"),
        ("--mm-encoder-only", "--mm-encoder-only is not in this plan: only the encoder is loaded"),
        ("--kv-offloading-size 8", "--kv-offloading-size takes host memory"),
        ("--port 8000 --api-key x", ""),
        ("--no-enable-nccl-comm-suspend", ""),
    ],
)
def test_the_plan_says_what_a_flag_does_not_do(words, sentence):
    answer = plan(["vllm", "serve", QWEN, *words.split()], gpu="H200", engine="vllm==0.32.0", advise=False)
    assert any(note.startswith(sentence) for note in answer.warnings) if sentence else not answer.warnings
