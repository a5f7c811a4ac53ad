import pytest

from oomph.commands import parse_command
from oomph.errors import CannotPlan, CommandError


def parse(text: str, version: str = "0.21.0"):
    return parse_command(text.split(), engine=f"vllm=={version}")


def test_the_first_source():
    # the command of a forum post: --model with `vllm serve`, underscores and dashes mixed
    d = parse(
        "vllm serve --model nvidia/Gemma-4-31B-IT-NVFP4 --max_num_batched_tokens 1024 --language-model-only"
        " --max_num_seqs 1 --max-model-len 1024 --kv-cache-dtype fp8 --gpu-memory-utilization 0.9"
        " --tensor_parallel_size 2"
    )
    assert d.model == "nvidia/Gemma-4-31B-IT-NVFP4"
    assert d.flags == {
        "max_num_batched_tokens": 1024,
        "language_model_only": True,
        "max_num_seqs": 1,
        "max_model_len": 1024,
        "kv_cache_dtype": "fp8",
        "gpu_memory_utilization": 0.9,
        "tensor_parallel_size": 2,
    }
    assert (d.engine.version, d.engine.version_from) == ("0.21.0", "--engine")
    assert d.usage == "serve" and d.gpus == () and d.notes == ()


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["-tp", "2"], {"tensor_parallel_size": 2}),
        (["-tp=2"], {"tensor_parallel_size": 2}),
        (["--tensor_parallel_size=2"], {"tensor_parallel_size": 2}),
        (["--tensor-parallel-s", "2"], {"tensor_parallel_size": 2}),
        (["-pp", "2", "-dp", "4"], {"pipeline_parallel_size": 2, "data_parallel_size": 4}),
        (["-q", "awq"], {"quantization": "awq"}),
        (["-qawq"], {"quantization": "awq"}),
        (["--max-model-len", "32k"], {"max_model_len": 32000}),
        (["--max-model-len", "32K"], {"max_model_len": 32768}),
        (["--max-model-len", "25.6k"], {"max_model_len": 25600}),
        (["--max-model-len", "-1"], {"max_model_len": -1}),
        (["--max-model-len", "auto"], {"max_model_len": -1}),
        (["--max-num-batched-tokens", "8k"], {"max_num_batched_tokens": 8000}),
        (["--kv-cache-memory-bytes", "4G"], {"kv_cache_memory_bytes": 4 << 30}),
        (["--kv-cache-memory", "4G"], {"kv_cache_memory_bytes": 4 << 30}),  # the engine's own log suggests it so
        (["--no-enable-prefix-caching"], {"enable_prefix_caching": False}),
        (["--no_enable_prefix_caching"], {"enable_prefix_caching": False}),
        (["--enforce-eager", "--no-enforce-eager"], {"enforce_eager": False}),
        (["--max-num-seqs", "4", "--max-num-seqs", "8"], {"max_num_seqs": 8}),
        (["--cudagraph-capture-sizes", "1", "2", "4"], {"cudagraph_capture_sizes": [1, 2, 4]}),
        (["-O3"], {"optimization_level": 3}),
        (["-O", "0"], {"optimization_level": 0}),
        (["-O=1"], {"optimization_level": 1}),
        (["-cc.cudagraph_mode=FULL"], {"compilation_config": {"cudagraph_mode": "FULL"}}),
        (["-cc", '{"cudagraph_mode": "NONE"}'], {"compilation_config": {"cudagraph_mode": "NONE"}}),
        (
            ["--compilation-config.pass_config.fuse_norm_quant", "true", "--compilation_config.mode", "3"],
            {"compilation_config": {"pass_config": {"fuse_norm_quant": True}, "mode": 3}},
        ),
        (
            ["--compilation-config.cudagraph_capture_sizes+", "1", "--compilation-config.cudagraph_capture_sizes+=2,4"],
            {"compilation_config": {"cudagraph_capture_sizes": ["1", "2", "4"]}},
        ),
        (["--limit-mm-per-prompt.video", "0"], {"limit_mm_per_prompt": {"video": 0}}),
        (["--hf-overrides", '{"a": [1]}'], {"hf_overrides": {"a": [1]}}),
        (["--kv-transfer-config", '{"kv_buffer_size": 80m}'], {"kv_transfer_config": {"kv_buffer_size": 80_000_000}}),
        (["--quantization", "None"], {"quantization": None}),
        (["--moe-backend", "FlashInfer-TRTLLM"], {"moe_backend": "flashinfer_trtllm"}),
        (["--api-key", "a", "b"], {"api_key": ["a", "b"]}),
        (["--middleware", "a", "--middleware", "b"], {"middleware": ["a", "b"]}),
        (["--allowed-origins", '["*"]'], {"allowed_origins": ["*"]}),
        (["--hf-token"], {"hf_token": True}),
        (["--hf-token", "--port", "80"], {"hf_token": True, "port": 80}),
    ],
)
def test_spellings(words, flags):
    assert parse_command(["vllm", "serve", "m", *words], engine="vllm==0.21.0").flags == flags


@pytest.mark.parametrize(
    ("version", "words", "flags"),
    [
        ("0.11.0", ["-O3"], {"compilation_config": {"level": 3}}),
        ("0.11.2", ["-O", "3"], {"compilation_config": {"mode": 3}}),
        ("0.11.2", ["-O.backend=eager"], {"compilation_config": {"backend": "eager"}}),
        ("0.12.0", ["-O.backend=eager"], {"compilation_config": {"backend": "eager"}}),
        ("0.12.0", ["-O3"], {"optimization_level": 3}),
        ("0.24.0", ["--device-ids", "2,GPU-abc"], {"device_ids": [2, "GPU-abc"]}),
        ("0.32.0", ["--device-memory-utilization", "0.5"], {"gpu_memory_utilization": 0.5}),
        ("0.32.0", ["--spec-method", "mtp", "--spec-tokens", "2"],
         {"speculative_config": {"method": "mtp", "num_speculative_tokens": 2}}),
        ("0.17.1", ["--swap-space", "8"], {"swap_space": 8.0}),
    ],
)  # fmt: skip
def test_spellings_of_a_release(version, words, flags):
    assert parse_command(["vllm", "serve", "m", *words], engine=version).flags == flags


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--swap-space 4", "--swap-space is gone since vLLM 0.18.0"),
        ("--cuda-graph-sizes 4", "use --cudagraph-capture-sizes"),
        ("--max-num-active-seqs 4", "came with 0.31.0"),
        ("--gpu-memory-utilisation 0.9", "did you mean --gpu-memory-utilization?"),
        ("--gpu-memory-utilization 1.5", "1.5 must be at most 1"),
        ("--gpu-memory-utilization 0", "0.0 must be greater than 0"),
        ("--gpu-memory-utilization nan", "not a finite number"),
        ("--gpu-memory-utilization 90%", "invalid float value: '90%'"),
        ("--tensor-parallel-size 0", "0 must be at least 1"),
        ("--max-num-seqs -4", "-4 must be at least 1"),
        ("--max-model-len 0", "must be a positive integer"),
        ("--max-model-len 1.5K", "did you mean 1.5k?"),
        ("--max-model-len lots", "argument --max-model-len: invalid int value: 'lots'"),
        ("--kv-cache-dtype fp9", "did you mean fp8?"),
        ("--kv-cache-dtype int4_per_token_head", "came with vLLM 0.25.0, this is 0.21.0"),
        ("--kv 3", "ambiguous option: --kv could match --kv-cache-dtype,"),
        ("--max-model-len", "argument --max-model-len: expected one argument"),
        ("--cudagraph-capture-sizes", "expected at least one argument"),
        ("--enforce-eager=1", "ignored explicit argument '1'"),
        ("--compilation-config {", "it is not valid JSON"),
        ("--compilation-config [1]", "must be a JSON object"),
        ("--hf-overrides {max", "must be a JSON object"),
        ("--compilation-config {\"a\":NaN}", "NaN is not a number"),
        ("--compilation-config.a", "expected one argument"),
        ('--compilation-config {"cudagraph_capture_size":[1]}', "did you mean cudagraph_capture_sizes?"),
        ("-cc.max_denoising 1", "'max_denoising' is not one of its keys"),
        ("-cc.use_cudagraph 1", "'use_cudagraph' is gone since vLLM 0.11.1"),
        ("-cc.cudagraph_decoder_replay true", "'cudagraph_decoder_replay' came with vLLM 0.32.0"),
        ("--optimization-level 5", "5 is not one of 0, 1, 2, 3"),
        ("--max-lora-rank 7", "invalid choice: '7'"),
        ("--max-lora-rank 48", "did you mean 64?"),
        ("--max-lora-rank 9000", "did you mean 512?"),
        ("--num-gpu-blocks-override -1", "must be greater than 0"),
        ("-tp4", "-tp4"),
        ("other", "unrecognized arguments: other"),
        ("--model x", "unrecognized arguments: m"),
        ("--help", "starts no server"),
    ],
)  # fmt: skip
def test_refusals(words, sentence):
    with pytest.raises(CommandError) as error:
        parse(f"vllm serve m {words}")
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_model_as_a_flag_was_refused_before_0_11_1():
    with pytest.raises(CommandError, match="positional argument"):
        parse("vllm serve --model m", "0.11.0")
    assert parse("vllm serve --model m", "0.11.1").model == "m"
    assert parse("python -m vllm.entrypoints.openai.api_server --model m", "0.11.0").model == "m"


def test_no_model_is_a_question_not_the_engines_default():
    with pytest.raises(CommandError, match=r"no model is named: vLLM would serve its default, Qwen/Qwen3-0\.6B"):
        parse("vllm serve -tp 2")


def test_the_model_may_come_last():
    d = parse("vllm serve --trust-remote-code --tensor_parallel_size 2 --gpu_memory_utilization=0.98 /root/model")
    assert d.model == "/root/model" and d.flags["gpu_memory_utilization"] == 0.98


@pytest.mark.parametrize(
    "text",
    [
        "python -m vllm.entrypoints.openai.api_server --model m -tp 2",
        "python3.12 -u -m vllm.entrypoints.openai.api_server --model=m -tp 2",
        "python3 -m vllm serve m -tp 2",
        "/opt/venv/bin/vllm serve m -tp 2",
        "CUDA_DEVICE_ORDER=PCI_BUS_ID vllm serve m -tp 2",
        "sudo -E env X=1 nohup vllm serve m -tp 2",
        "uv run --with vllm vllm serve m -tp 2",
        "numactl --cpunodebind=0 vllm serve m -tp 2",
        "org/m -tp 2",
    ],
)
def test_ways_to_start_it(text):
    d = parse(text)
    assert d.model.rpartition("/")[2] == "m" and d.flags == {"tensor_parallel_size": 2}


def test_environment_in_front():
    d = parse("CUDA_VISIBLE_DEVICES=1,5 VLLM_KV_CACHE_LAYOUT=HND HF_TOKEN=secret VLLM_API_KEY=k PATH=/x vllm serve m")
    assert d.environment == {"CUDA_VISIBLE_DEVICES": "1,5", "VLLM_KV_CACHE_LAYOUT": "HND"}
    assert d.gpu_count == 2


def test_environment_is_checked_for_the_release():
    (note,) = parse("VLLM_ATTENTION_BACKEND=X vllm serve m").notes
    assert "VLLM_ATTENTION_BACKEND is not read since vLLM 0.15.0" in note
    with pytest.raises(CommandError, match="VLLM_KV_CACHE_LAYOUT=ABC"):
        parse("VLLM_KV_CACHE_LAYOUT=ABC vllm serve m")


def test_an_idle_flag_is_noted():
    (note,) = parse("vllm serve m --swap-space 4", "0.17.1").notes
    assert "no effect" in note


def test_spec_flags_against_the_config():
    with pytest.raises(CommandError, match="mutually exclusive"):
        parse('vllm serve m --spec-method mtp -sc {"method":"eagle"}', "0.32.0")


def test_two_spellings_of_one_json_flag_do_not_add_up():
    # argparse_utils.py gathers dotted keys by spelling: the last one replaces the others
    d = parse("vllm serve m -cc.mode=1 --compilation-config.backend=eager")
    assert d.flags["compilation_config"] == {"backend": "eager"}
    assert "more than once" in d.notes[0]


def test_old_releases_drop_unknown_keys():
    d = parse("vllm serve m -O.nonsense=1", "0.11.2")
    assert d.flags["compilation_config"] == {"nonsense": 1}
    assert "drops it silently" in d.notes[0]


@pytest.mark.parametrize("command", ["bench throughput", "chat", "run-batch -i x"])
def test_other_commands_of_vllm(command):
    with pytest.raises(CannotPlan, match="starts no server"):
        parse(f"vllm {command}")


@pytest.mark.parametrize("command", ["vllm run --model m", "vllm", "foo bar", "python x", "python -m http.server", ""])
def test_what_is_no_serve_command(command):
    with pytest.raises(CommandError):
        parse(command)


def test_another_server_is_answered_with_what_can_be_planned_of_its_model() -> None:
    with pytest.raises(CommandError, match="not a serve command") as caught:
        parse("lmdeploy serve api_server Qwen/Qwen3-8B")
    assert "SGLang" in caught.value.hint and "oomph compare Qwen/Qwen3-8B --gpu GPUS" in caught.value.hint
    with pytest.raises(CommandError) as caught:
        parse("lmdeploy chat")
    assert "vllm serve MODEL" in caught.value.hint
