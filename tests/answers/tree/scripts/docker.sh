#!/bin/sh
docker run --gpus all --rm vllm/vllm-openai:v0.21.0 \
  --model Qwen/Qwen3-32B --max-model-len 8192
