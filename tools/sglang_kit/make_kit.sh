#!/usr/bin/env bash
# make_kit.sh GPULAB DIR [PART_BYTES]: what SGLang 0.5.23 needs beside an installed kit of vLLM 0.32.0 (torch 2.13) on a machine with an sm_90 card.
# GPULAB: the folder with prune_fatbin.py, zero_syms.py and pins-0.32.0.txt. Needs uv, g++, zstd, 8 GB of disk. Writes DIR/pNN/partNN and DIR/run.
set -euo pipefail
[ $# -ge 2 ] || { sed -n 2,3p "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd); lab=$(realpath "$1"); out=$(realpath -m "$2"); part=${3:-33000000}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
target=(--python-version 3.12 --python-platform x86_64-manylinux_2_34 --only-binary :all:)
uv pip install -q --link-mode=copy --target site "${target[@]}" --no-deps -r "$here/pins.txt"
# libc10_cuda of torch 2.13, for the shim alone
uv pip install -q --link-mode=copy --target torch213 "${target[@]}" --no-deps torch==2.13.0
g++ -O2 -fPIC -shared -o site/libshim214.so "$here/shim.cpp" -Ltorch213/torch/lib -lc10_cuda
# what the vLLM kit has already, in its own releases, is linked on the machine (link.py)
ours=$(cut -d= -f1 "$here/pins.txt" | paste -sd'|')
left='vllm|cuda-python|cuda-toolkit|nvidia-cuda-(cccl|crt|nvcc)|nvidia-nvvm|nvidia-cutlass-dsl-libs-cu12|pynvvideocodec|torchaudio|torchcodec|grpcio'
left="$left|tilelang|z3-solver|tokenspeed-mla|tokenspeed-triton|nccl4py|nccl-extensions|opencv-python-headless|instanttensor"
grep -vE "^($ours|$left)==" "$lab/pins-0.32.0.txt" > site/names.txt
cd site
mkdir IPython; : > IPython/__init__.py  # two names that a server never calls
printf 'def HTML(text=None):\n    return text\n\n\ndef display(*shown):\n    pass\n' > IPython/display.py
find . -name __pycache__ -prune -exec rm -rf {} +
rm -rf bin include share .lock sgl_kernel/sm100 sgl_kernel/infllm_ops* sgl_kernel/testing sglang/test sglang/multimodal_gen/apps scipy/*/tests \
  sglang/srt/rust_extensions/_*.so zstandard/_cffi* flashinfer/data/csrc/cake_dsv4 flashinfer/data/csrc/cake_sampling \
  flashinfer/data/csrc/alphamoe* flashinfer/fused_moe/backends/cudnn_frost/artifacts
python3 "$lab/prune_fatbin.py" sgl_kernel/*.so sgl_kernel/sm90/*.so flash_mla/*.so deep_gemm/_C.so
find . -name '*.so*' -size +1000k -exec python3 "$lab/zero_syms.py" {} +
rm -rf "$out"; mkdir -p "$out/run"
tar --sort=name --owner=0 --group=0 -c . | nice -n 10 zstd -q -T0 -12 --long=27 | split -b "$part" -d -a 2 - "$out/part"
cat "$out"/part* | sha256sum | cut -d' ' -f1 > "$out/run/whole.sha256"
for f in "$out"/part*; do n=${f##*part}; mkdir "$out/p$n"; mv "$f" "$out/p$n/"; done
cd "$work"; uv pip install -q --link-mode=copy --target zs "${target[@]}" --no-deps zstandard==0.25.0
tar --owner=0 --group=0 -C zs -c zstandard | xz -9 > "$out/run/zs.tar.xz"
cp "$here"/{install.sh,env.sh,run.sh,link.py,gate.py,serve.py,warm.py,cases.jsonl} "$out/run/"
echo "$(ls -d "$out"/p[0-9]* | wc -l) parts in $out; put folders with a config.json each in $out/run/models"
