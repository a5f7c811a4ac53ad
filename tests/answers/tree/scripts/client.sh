#!/bin/sh
# asks the vllm server
curl http://localhost:8000/v1/models
