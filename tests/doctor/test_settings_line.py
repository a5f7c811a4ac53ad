"""The settings that an engine prints name everything that there is: they are no evidence of what ran."""

from __future__ import annotations

import oomph

LOG = """\
(APIServer pid=1) INFO 11-18 02:56:50 [api_server.py:1290] vLLM API server version 0.32.0
(EngineCore pid=9) INFO 11-18 02:56:55 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: \
model='Qwen/Qwen3-8B', encoder_cudagraph_max_vision_items_per_batch: 0, max_seq_len=8192
(EngineCore pid=9) INFO 11-18 02:57:00 [model_runner.py:424] Model loading took 15.27 GiB memory and 3.100000 seconds
(EngineCore pid=9) ERROR 11-18 02:57:05 [core.py:1510]   File "/vllm/v1/worker/gpu/model_runner.py", line 1003, in \
profile_run
(EngineCore pid=9) ERROR 11-18 02:57:05 [core.py:1510]   File "/vllm/model_executor/models/qwen3.py", line 250, in \
forward
(EngineCore pid=9) ERROR 11-18 02:57:05 [core.py:1510] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate \
3.00 GiB. GPU 0 has a total capacity of 23.53 GiB of which 764.00 MiB is free.
"""


def test_a_model_of_text_alone_profiles_no_image() -> None:
    """The line of 0.32.0 has an option of graphs for vision in it, whatever the model."""
    explanation = oomph.explain(LOG)
    assert explanation.cause is not None
    assert explanation.stage == "profile_run"
    assert explanation.cause.id == "P03"
