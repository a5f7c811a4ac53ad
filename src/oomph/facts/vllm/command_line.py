"""How a release reads a command line where it is not plain argparse."""

from typing import Literal

from oomph.facts.changes import Dated, Facts, changes, since, until


class CommandLine(Facts):
    # -O3: compilation_config.level, .mode, or a flag of its own (utils/argparse_utils.py parse_args)
    dash_o: Dated[Literal["level", "mode", "optimization_level"]] = changes(
        "level", ("0.11.1", "mode"), ("0.12.0", "optimization_level")
    )
    # -O.key=value: --compilation-config up to 0.11, still read as -cc.key in 0.12 (argparse_utils.py:260)
    dotted_o = until("0.13.0")
    # what the image vllm/vllm-openai starts (docker/Dockerfile)
    entry_point = changes(("python3", "-m", "vllm.entrypoints.openai.api_server"), ("0.11.1", ("vllm", "serve")))
    moves_model_flag = since("0.11.1")  # `vllm serve --model X`: refused, then moved to the front with a warning
    negates_yaml_false = since("0.28.0")  # `key: false` in a --config file: dropped, then read as --no-key
    yaml_mapping_is_json = since("0.16.0")  # a mapping in a --config file: its Python text, then JSON
    json_numbers_are_human = since("0.20.0")  # 80m and 1G inside JSON and after --flag.key


# What vLLM prints when memory runs out before or right after the KV cache is sized, by release.

_FREE = (
    "({free}/{total} GiB) on startup is less than desired GPU memory utilization ({util}, {requested} GiB). "
    "Decrease GPU memory utilization or reduce GPU memory used by other processes."
)
_LOAD = (
    "Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to free memory for weights, "
    "increasing --tensor-parallel-size, or using --quantization. "
    "See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more tips. (original error: {original})"
)
_SAMPLER = (
    "CUDA out of memory occurred when warming up sampler with {seqs} dummy requests. Please try lowering "
    "`max_num_seqs` or `gpu_memory_utilization` when initializing the engine."
)

_STATES = (
    "max_num_seqs ({seqs}) exceeds available Mamba cache blocks ({blocks}). Each decode sequence requires one Mamba "
    "cache block, so CUDA graph capture cannot proceed. Please lower max_num_seqs to at most {blocks} or increase "
    "gpu_memory_utilization."
)


class Texts(Facts):
    free_memory = changes(  # worker/utils.py request_memory
        f"Free memory on device {_FREE}", ("0.14.0", f"Free memory on device {{device}} {_FREE}")
    )
    # gpu_model_runner.py load_model (V1 runner); "" = PyTorch's text alone
    load_failed = changes("", ("0.13.0", _LOAD))
    sampler: Dated[str] = changes(_SAMPLER)  # gpu_model_runner.py _dummy_sampler_run
    # config/compilation.py resolve_cudagraph_mode_and_sizes; "" = not checked
    state_blocks = changes("", ("0.20.0", _STATES))
