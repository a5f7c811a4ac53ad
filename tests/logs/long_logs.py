# ruff: noqa: E501 - a line is a line
"""Logs of servers that ran for days, drawn from a seed: lines that differ in ids, figures, clients and prompts.

Each kind is an endless stream of pieces of about 64 KiB; `log` cuts one to a length and puts what the run died of
where it is asked. The lines have the engines' shapes; names, ids, texts and figures are drawn.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

PIECE = 64 << 10
MIDDLE, END, BEGINNING = 0.5, 1.0, 0.0

_TEXT = (
    "the a of to and in that is was he for it with as his on be at by had not are but from or have an they which one you were all her she there "
    "would their we him been has when who will no more if out so up said what its about than into them can only other time new some could these two "
    "may first then do any like my now over such our man me even most made after also did many off before must well back through years where much "
    "your way down should because long each just state those people too mister little good world make very year still see own work men day get here "
    "between both life being under three never know same last another while us might great go come since against right came take used himself few "
    "house american use place during high without again home around small however found mrs part school thought went say general once upon every "
    "server thread memory request summary table function python class return translate recipe island river error model token query index window"
)
_WORDS = _TEXT.split()


class Draw:
    """Random parts of lines, cheap enough for a gigabyte."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = 0.0
        whole = " ".join(self.chance.choices(_WORDS, k=120_000))
        self._prose = whole + whole

    def hex(self, digits: int = 32) -> str:
        return f"{self.chance.getrandbits(4 * digits):0{digits}x}"

    def number(self, most: int) -> int:
        return int(self.chance.random() * most)

    def real(self, most: float, digits: int = 1) -> str:
        return f"{self.chance.random() * most:.{digits}f}"

    def prose(self, length: int) -> str:
        at = self.number(len(self._prose) // 2)
        return self._prose[at : at + length]

    def address(self) -> str:
        return f"10.{self.number(256)}.{self.number(256)}.{self.number(256)}:{self.number(64000)}"

    def tick(self, seconds: float) -> tuple[int, int, int, int, int]:
        """Month, day, hour, minute, second, a little later than before."""
        self.clock += self.chance.random() * seconds
        now = int(self.clock)
        return 5 + now // 2_592_000 % 7, 1 + now // 86_400 % 30, now // 3600 % 24, now // 60 % 60, now % 60

    def stamp(self, seconds: float) -> str:
        """As vLLM prints it."""
        month, day, hour, minute, second = self.tick(seconds)
        return f"{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"


def _vllm(draw: Draw) -> str:
    stamp = draw.stamp(3)
    api, kind = f"(APIServer pid={draw.number(2) + 41})", draw.number(10)
    if kind < 5:
        path = ("chat/completions", "completions", "models", "embeddings")[draw.number(4)]
        return f'{api} INFO:     {draw.address()} - "POST /v1/{path}?session={draw.hex(12)} HTTP/1.1" 200 OK'
    if kind < 8:
        return f"{api} INFO {stamp} [async_llm.py:330] Added request chatcmpl-{draw.hex()}."
    return (
        f"{api} INFO {stamp} [loggers.py:127] Engine 000: Avg prompt throughput: {draw.real(9000)} tokens/s, Avg generation throughput: "
        f"{draw.real(3000)} tokens/s, Running: {draw.number(200)} reqs, Waiting: {draw.number(30)} reqs, GPU KV cache usage: {draw.real(100)}%, "
        f"Prefix cache hit rate: {draw.real(100)}%"
    )


def _vllm_prompts(draw: Draw) -> str:
    stamp = draw.stamp(3)
    if draw.number(4) == 0:
        return _vllm(draw)
    return (
        f"(APIServer pid=41) INFO {stamp} [logger.py:41] Received request chatcmpl-{draw.hex()}: prompt: '<|im_start|>user\\n"
        f"{draw.prose(draw.number(1800))}<|im_end|>\\n<|im_start|>assistant\\n', params: SamplingParams(n=1, presence_penalty=0.0, frequency_penalty=0.0, "
        f"repetition_penalty=1.0, temperature={draw.real(1, 2)}, top_p=0.95, top_k=0, min_p=0.0, seed={draw.number(1 << 30)}, stop=[], stop_token_ids=[], "
        f"bad_words=[], include_stop_str_in_output=False, ignore_eos=False, max_tokens={draw.number(32000)}, min_tokens=0, logprobs=None, "
        "prompt_logprobs=None, skip_special_tokens=True, spaces_between_special_tokens=True, truncate_prompt_tokens=None, guided_decoding=None, "
        "extra_args=None), prompt_token_ids: None, prompt_embeds shape: None, lora_request: None."
    )


def _sglang(draw: Draw) -> str:
    month, day, *hours = draw.tick(2)
    stamp = f"[2026-{month:02}-{day:02} {hours[0]:02}:{hours[1]:02}:{hours[2]:02} TP0]"
    kind = draw.number(10)
    if kind < 5:
        return (
            f"{stamp} Decode batch, #running-req: {draw.number(80)}, #token: {draw.number(400000)}, token usage: {draw.real(1, 2)}, cuda graph: True, "
            f"gen throughput (token/s): {draw.real(4000, 2)}, #queue-req: {draw.number(12)}"
        )
    if kind < 8:
        return (
            f"{stamp} Prefill batch, #new-seq: {draw.number(8)}, #new-token: {draw.number(8192)}, #cached-token: {draw.number(30000)}, "
            f"token usage: {draw.real(1, 2)}, #running-req: {draw.number(80)}, #queue-req: {draw.number(12)}, "
        )
    if kind < 9:
        return f"{stamp[:-5]}] Finish: obj=GenerateReqInput(rid='{draw.hex()}', text='{draw.prose(draw.number(400))}')"
    return f'{stamp[:-5]}] INFO:     {draw.address()} - "POST /generate HTTP/1.1" 200 OK'


def _trtllm(draw: Draw) -> str:
    month, day, *hours = draw.tick(2)
    clock = f"{hours[0]:02}:{hours[1]:02}:{hours[2]:02}"
    stamp = f"[{month:02}/{day:02}/2026-{clock}] [TRT-LLM] [RANK {draw.number(4)}] [I]"
    if draw.number(10) < 8:
        return (
            f"{stamp} iter = {draw.number(9_000_000)}, global_rank = 0, rank = 0, currank_total_requests = {draw.number(20)}/{draw.number(20)}, "
            f"host_step_time = {draw.chance.random() * 40}ms, prev_device_step_time = {draw.chance.random() * 40}ms, timestamp = 2026-{month:02}-{day:02} {clock}, "
            f"num_scheduled_requests: {draw.number(64)}, states = {{'num_ctx_requests': {draw.number(4)}, 'num_ctx_tokens': {draw.number(4096)}, "
            f"'num_generation_tokens': {draw.number(64)}}}"
        )
    return f'INFO:     {draw.address()} - "POST /v1/chat/completions?trace={draw.hex(16)} HTTP/1.1" 200 OK'


def _llamacpp(draw: Draw) -> str:
    slot, task = draw.number(4), draw.number(900000)
    head = f"id {slot:2} | task {task} |"
    tokens = draw.number(32768)
    kind = draw.number(8)
    return (
        f"slot get_availabl: {head} selected slot by LCP similarity, sim_best = {draw.real(1, 3)} (> 0.100 thold), f_keep = {draw.real(1, 3)}",
        f"slot launch_slot_: {head} processing task",
        f"slot update_slots: {head} new prompt, n_ctx_slot = 32768, n_keep = 0, task.n_tokens = {tokens}",
        f"slot update_slots: {head} memory_seq_rm [{tokens}, end)",
        f"slot update_slots: {head} prompt processing progress, n_tokens = {tokens}, batch.n_tokens = {draw.number(2048)}, progress = {draw.real(1, 6)}",
        f"slot print_timing: {head} \nprompt eval time = {draw.real(9000, 2):>10} ms / {tokens:5} tokens ({draw.real(9, 2):>8} ms per token, {draw.real(900, 2):>8} tokens per second)\n"
        f"       eval time = {draw.real(9000, 2):>10} ms / {draw.number(2000):5} tokens ({draw.real(90, 2):>8} ms per token, {draw.real(90, 2):>8} tokens per second)",
        f"srv  log_server_r: request: POST /v1/chat/completions {draw.address().partition(':')[0]} 200",
        f"srv        update:  - prompt 0x{draw.hex(12)}: {tokens:7} tokens, checkpoints:  0, {draw.real(900, 3):>9} MiB",
    )[kind]


def _ollama(draw: Draw) -> str:
    month, day, *hours = draw.tick(2)
    clock = f"{hours[0]:02}:{hours[1]:02}:{hours[2]:02}"
    unit = f"May {day:02} {clock} node{draw.number(3)} ollama[{draw.number(2) + 811}]: "
    kind = draw.number(10)
    if kind < 7:
        return f'{unit}[GIN] 2026/{month:02}/{day:02} - {clock} | 200 | {draw.real(90, 9):>13}s | {draw.address().partition(":")[0]:>15} | POST     "/api/chat"'
    if kind < 9:
        return f'{unit}time=2026-{month:02}-{day:02}T{clock}.{draw.number(1000):03}Z level=DEBUG source=cache.go:151 msg="loading cache slot" id={draw.number(4)} cache={draw.number(9000)} prompt={draw.number(9000)} used={draw.number(900)} remaining={draw.number(900)}'
    return f'{unit}time=2026-{month:02}-{day:02}T{clock}.{draw.number(1000):03}Z level=DEBUG source=sched.go:583 msg="evaluating already loaded" model=/root/.ollama/models/blobs/sha256-{draw.hex(64)}'


def _kubernetes(draw: Draw) -> str:
    month, day, *hours = draw.tick(2)
    stamp = f"2026-{month:02}-{day:02}T{hours[0]:02}:{hours[1]:02}:{hours[2]:02}.{draw.number(10**9):09}Z stdout F "
    return stamp + (_vllm(draw) if draw.number(4) else _trtllm(draw))


def _json(draw: Draw) -> str:
    month, day, *hours = draw.tick(2)
    stamp = f"2026-{month:02}-{day:02}T{hours[0]:02}:{hours[1]:02}:{hours[2]:02}.{draw.number(10**9):09}Z"
    if draw.number(3):
        return json.dumps({"log": _vllm(draw) + "\n", "stream": "stderr", "time": stamp})
    fields = {
        "level": "info",
        "time": stamp,
        "trace_id": draw.hex(),
        "span": draw.hex(16),
        "message": f"answered in {draw.real(9000)} ms",
        "user": draw.prose(24),
    }
    return json.dumps(fields)


def _bars(draw: Draw) -> str:
    done = draw.number(200)
    bar = "█" * (done // 20) + " ▏▎▍▌▋▊▉"[done % 8]
    states = (f"Processed prompts: {n // 2:3}%|{bar:<10}| {n}/200 [{draw.number(60):02}:{draw.number(60):02}<{draw.number(60):02}:{draw.number(60):02}, {draw.real(90, 2)}it/s, est. speed input: {draw.real(9000, 2)} toks/s, output: {draw.real(900, 2)} toks/s]" for n in range(done, done + 3))  # fmt: skip
    return "\r".join(states)


def _dump(draw: Draw) -> str:
    """What faulthandler and py-spy print of a healthy process, again and again."""
    if draw.number(40):
        return _vllm(draw)
    frames = "\n".join(
        f'  File "/usr/lib/python3.12/{name}.py", line {draw.number(2000)} in {name}_{draw.hex(4)}'
        for name in ("selectors", "asyncio/base_events", "concurrent/futures/thread", "threading")
    )
    return f"Thread 0x{draw.hex(16)} (most recent call first):\n{frames}"


def _client_error(draw: Draw) -> str:
    """A request that the server refuses and outlives: real logs have one every few minutes."""
    stamp, tokens = draw.stamp(1), draw.number(90000) + 40000
    head = f"(APIServer pid=41) ERROR {stamp} [serving_chat.py:257]"
    frames = "".join(
        f'{head}   File "/opt/venv/lib/python3.12/site-packages/vllm/entrypoints/openai/{name}.py", line {draw.number(900)}, in {function}\n{head}     {code}\n'
        for name, function, code in (("serving_chat", "create_chat_completion", "await self._preprocess_chat("), ("serving_engine", "_validate_input", "raise ValueError("))
    )  # fmt: skip
    return (
        f"{head} Error in preprocessing prompt inputs\n{head} Traceback (most recent call last):\n{frames}"
        f"{head} ValueError: This model's maximum context length is 40960 tokens. However, your request has {tokens} input tokens."
    )


def _mix(draw: Draw) -> str:
    chance = draw.number(1000)
    if chance == 0:
        return _client_error(draw)
    return (_vllm, _vllm, _vllm_prompts, _kubernetes, _json, _bars, _dump)[chance % 7](draw)


KINDS: dict[str, Callable[[Draw], str]] = {
    "vllm": _vllm, "prompts": _vllm_prompts, "sglang": _sglang, "trtllm": _trtllm, "llamacpp": _llamacpp, "ollama": _ollama,
    "kubernetes": _kubernetes, "json": _json, "bars": _bars, "dumps": _dump, "mix": _mix,
}  # fmt: skip

# what a run of each engine dies of; the figures are unlike those of every other line
_VLLM_OOM = """\
(EngineCore_DP0 pid=137) ERROR 05-14 12:01:22 [core.py:710] EngineCore encountered a fatal error.
(EngineCore_DP0 pid=137) ERROR 05-14 12:01:22 [core.py:710] Traceback (most recent call last):
(EngineCore_DP0 pid=137) ERROR 05-14 12:01:22 [core.py:710]   File "/opt/venv/lib/python3.12/site-packages/vllm/v1/engine/core.py", line 701, in run_engine_core
(EngineCore_DP0 pid=137) ERROR 05-14 12:01:22 [core.py:710]     engine_core.run_busy_loop()
(EngineCore_DP0 pid=137) ERROR 05-14 12:01:22 [core.py:710]   File "/opt/venv/lib/python3.12/site-packages/vllm/v1/worker/gpu_model_runner.py", line 2321, in execute_model
(EngineCore_DP0 pid=137) ERROR 05-14 12:01:22 [core.py:710]     model_output = self._model_forward(
(EngineCore_DP0 pid=137) ERROR 05-14 12:01:22 [core.py:710] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.37 GiB. GPU 0 has a total capacity of 23.53 GiB of which 611.12 MiB is free. Including non-PyTorch memory, this process has 22.92 GiB memory in use. Of the allocated memory 21.77 GiB is allocated by PyTorch, and 402.50 MiB is reserved by PyTorch but unallocated."""
_DEATHS = {
    "sglang": """\
[2026-05-14 12:01:22 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py", line 2751, in run_scheduler_process
    scheduler.event_loop_overlap()
  File "/sgl-workspace/sglang/python/sglang/srt/model_executor/model_runner.py", line 1893, in forward_extend
    return self.model.forward(
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.37 GiB. GPU 0 has a total capacity of 23.53 GiB of which 611.12 MiB is free. Including non-PyTorch memory, this process has 22.92 GiB memory in use.""",
    "trtllm": """\
[05/14/2026-12:01:22] [TRT-LLM] [RANK 0] [E] Encountered an error in forward function: CUDA out of memory. Tried to allocate 1.37 GiB. GPU 0 has a total capacity of 23.53 GiB of which 611.12 MiB is free.""",
    "llamacpp": """\
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 1402.88 MiB on device 0: cudaMalloc failed: out of memory
ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 1471026176
CUDA error: out of memory
  current device: 0, in function alloc at ggml/src/ggml-cuda/ggml-cuda.cu:503
ggml/src/ggml-cuda/ggml-cuda.cu:98: CUDA error""",
    "ollama": """\
May 14 12:01:22 node1 ollama[811]: ggml_backend_cuda_buffer_type_alloc_buffer: allocating 1402.88 MiB on device 0: cudaMalloc failed: out of memory
May 14 12:01:22 node1 ollama[811]: time=2026-05-14T12:01:22.001Z level=ERROR source=server.go:273 msg="llama runner terminated" error="exit status 2\"""",
}


def death(kind: str) -> str:
    return _DEATHS.get(kind, _VLLM_OOM)


def pieces(kind: str, seed: int = 1) -> Iterator[bytes]:
    draw, line = Draw(seed), KINDS[kind]
    while True:
        waiting: list[str] = []
        size = 0
        while size < PIECE:
            waiting.append(line(draw))
            size += len(waiting[-1]) + 1
        yield ("\n".join(waiting) + "\n").encode()


def log(kind: str, size: int, place: float | None = MIDDLE, seed: int = 1) -> Iterator[bytes]:
    """About `size` bytes; what the run died of stands at this share of them, None = nowhere."""
    fatal = death(kind).encode() + b"\n"
    at = 0
    waiting = place is not None
    for piece in pieces(kind, seed):
        if waiting and place is not None and at >= place * size:
            yield fatal
            waiting = False
        if at >= size:
            return
        yield piece
        at += len(piece)
