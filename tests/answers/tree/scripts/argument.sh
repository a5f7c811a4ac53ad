#!/bin/sh
vllm serve "$1" --max-model-len 8192
