# source me: SGLang's kit first, the machine's CUDA compiler for the kernels that it builds.
S=${DST:-/opt/sglang}; N=${OTHER:-/opt/vllm213}/nvidia
export PYTHONPATH=$S:$S/nvidia_cutlass_dsl/dsl_packages PATH=$PATH:$S/bin:${OTHER:-/opt/vllm213}/bin
export LD_LIBRARY_PATH=$N/cudnn/lib:$N/nccl/lib:$N/nvshmem/lib:$N/cusparselt/lib:$N/cu13/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export CUDA_HOME=${CUDA_HOME:-$([ -x /usr/local/cuda/bin/nvcc ] && echo /usr/local/cuda || dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")}
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONUNBUFFERED=1
