#!/usr/bin/env bash
# run.sh SECONDS: the cases that have no record yet; records stay on the machine and are copied to $OUT, even when stopped.
here=$(cd "$(dirname "$0")" && pwd); . "$here/env.sh"; kept=${KEPT:-$HOME/sglang-results}; mkdir -p "$kept" "$OUT"
trap 'cp "$kept"/sglang.jsonl.gz "$OUT"/ 2>/dev/null; for f in "$kept"/*.log; do tail -c 60000 "$f"; done | gzip > "$OUT/logs.gz"' EXIT
python3 "$here/serve.py" "${CASES:-$here/cases.jsonl}" "$1" "$here/models" "$kept" 2>&1
