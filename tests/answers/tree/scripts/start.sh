#!/usr/bin/env bash
set -euo pipefail
MODEL=${MODEL:-Qwen/Qwen3-8B}
exec vllm serve "$MODEL" --max-model-len 8192 --gpu-memory-utilization 0.92
