#!/usr/bin/env bash
# install.sh PART...   keep parts of the SGLang kit.   install.sh --finish   unpack them beside the vLLM kit and link what both share.
# KIT: where the parts wait (~/kit-sglang). OTHER: the vLLM kit (/opt/vllm213). DST: where SGLang goes (/opt/sglang).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd); kit=${KIT:-$HOME/kit-sglang}; other=${OTHER:-/opt/vllm213}; dst=${DST:-/opt/sglang}; mkdir -p "$kit"
if [ "$1" != --finish ]; then cp "$@" "$kit/"; echo "kept $*; parts now: $(ls "$kit" | grep -c '^part')"; exit; fi
sum=$(cat "$kit"/part* | sha256sum | cut -d' ' -f1)
grep -q "$sum" "$here/whole.sha256" && echo "all parts whole" || { echo "PARTS MISSING OR DAMAGED: $(ls "$kit" | tr '\n' ' ')"; exit 3; }
mkdir -p "$dst"
if command -v zstd >/dev/null; then un=(zstd -dc --long=27); else
  zs=$(mktemp -d); tar -C "$zs" -xJf "$here/zs.tar.xz"
  un=(env ZS="$zs" python3 -c 'import os,sys; sys.path.insert(0,os.environ["ZS"]); import zstandard; zstandard.ZstdDecompressor(max_window_size=2**27).copy_stream(sys.stdin.buffer, sys.stdout.buffer, read_size=1<<20, write_size=1<<20)'); fi
cat "$kit"/part* | "${un[@]}" | tar -C "$dst" -x
python3 "$here/link.py" "$dst" "$other" "$dst/names.txt"
rm -rf "$dst/nvidia"; ln -s "$other/nvidia" "$dst/nvidia"  # with the libraries that the vLLM kit links from the machine
# torch 2.13 has two names less than SGLang's kernels ask for: the shim brings them, right after torch
cp "$dst/torch/__init__.py" "$dst/torch/__init__.new"
printf '\nimport ctypes as _ctypes\n_ctypes.CDLL("%s/libshim214.so", mode=_ctypes.RTLD_GLOBAL)\n' "$dst" >> "$dst/torch/__init__.new"
mv "$dst/torch/__init__.new" "$dst/torch/__init__.py"
# kernels of FlashInfer that were built elsewhere (aot/NAME.so) need no build here
for f in "$here"/aot/*.so; do [ -e "$f" ] && n=$(basename "$f" .so) && mkdir -p "$dst/flashinfer/data/aot/$n" && cp "$f" "$dst/flashinfer/data/aot/$n/"; done
echo "SGLang in $dst: $(du -sm "$dst" | cut -f1) MB"
