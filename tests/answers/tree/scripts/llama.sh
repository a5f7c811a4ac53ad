#!/bin/sh
llama-server -m /models/Qwen3-8B-Q4_K_M.gguf -c 16384 -ngl 99
