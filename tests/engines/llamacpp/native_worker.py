"""Runs inside its own process: llama.cpp may abort. `serve PORT` is an emulated GPU, `work PORT...` loads models."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from llama_cpp_py_sync._cffi_bindings import get_ffi

TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20, "bf16": 30}
RTLD_GLOBAL = 0x100 | 2


class Library:
    def __init__(self, home: Path) -> None:
        self.ffi = get_ffi()
        self.ffi.cdef("ggml_backend_buffer_type_t ggml_backend_cpu_buffer_type(void);")
        names = ("libggml-base.so.0", "libggml-cpu.so.0", "libggml-rpc.so.0", "libggml.so.0", "libllama.so.0")
        loaded = [self.ffi.dlopen(str(home / n), RTLD_GLOBAL) for n in names]
        self.base, _, self.rpc, self.ggml, self.llama = loaded
        self.lines: list[str] = []
        self.llama.llama_backend_init()
        self.callback = self.ffi.callback("void(enum ggml_log_level, const char *, void *)", self._log)
        self.llama.llama_log_set(self.callback, self.ffi.NULL)

    def _log(self, level: int, text: Any, data: Any) -> None:
        self.lines.append(self.ffi.string(text).decode("utf-8", "replace"))

    def serve(self, port: int) -> None:
        device = self.ggml.ggml_backend_dev_by_name(b"CPU")
        devices = self.ffi.new("ggml_backend_dev_t[]", [device])
        self.rpc.ggml_backend_rpc_start_server(f"127.0.0.1:{port}".encode(), self.ffi.NULL, 1, 1, devices)

    def devices(self, ports: list[int]) -> list[Any]:
        out = []
        for port in ports:
            registry = self.rpc.ggml_backend_rpc_add_server(f"127.0.0.1:{port}".encode())
            self.ggml.ggml_backend_register(registry)
            out.append(self.base.ggml_backend_reg_dev_get(registry, 0))
        return out

    def load(self, config: dict[str, Any], devices: list[Any]) -> dict[str, Any]:
        ffi, lib = self.ffi, self.llama
        self.lines.clear()
        params = lib.llama_model_default_params()
        chosen = ffi.new("ggml_backend_dev_t[]", [*devices[: config.get("gpus", 0)], ffi.NULL])
        params.devices = chosen
        params.n_gpu_layers = config.get("ngl", 0)
        params.no_alloc = config.get("no_alloc", False)
        params.load_mtp = config.get("load_mtp", False)
        params.load_mode = 0  # none: what stays on the host is read, and counted, tensor by tensor
        params.use_extra_bufts = False
        params.split_mode = {"none": 0, "layer": 1, "row": 2}[config.get("split_mode", "layer")]
        params.main_gpu = config.get("main_gpu", 0)
        split = ffi.new("float[16]", config.get("tensor_split", []))
        if config.get("tensor_split"):
            params.tensor_split = split
        kept = [ffi.new("char[]", p.encode()) for p in config.get("cpu_patterns", [])]
        rows = ffi.new("struct llama_model_tensor_buft_override[]", len(kept) + 1)
        for row, pattern in zip(rows, kept):
            row.pattern, row.buft = pattern, self.ggml_cpu_buft()
        if kept:
            params.tensor_buft_overrides = rows
        model = lib.llama_model_load_from_file(config["path"].encode(), params)
        if model == ffi.NULL:
            return {"error": "no model", "lines": list(self.lines)}
        context = lib.llama_init_from_model(model, self.context_params(config))
        error = "no context" if context == ffi.NULL else ""
        if context != ffi.NULL:
            lib.llama_free(context)
        lib.llama_model_free(model)
        return {"error": error, "lines": list(self.lines)}

    def ggml_cpu_buft(self) -> Any:
        return self.base.ggml_backend_cpu_buffer_type()

    def context_params(self, config: dict[str, Any]) -> Any:
        params = self.llama.llama_context_default_params()
        params.n_ctx = config.get("n_ctx", 512)
        params.n_batch = config.get("n_batch", 2048)
        params.n_ubatch = config.get("n_ubatch", 512)
        params.n_seq_max = config.get("n_seq_max", 1)
        if "n_outputs_max" in config:
            params.n_outputs_max = config["n_outputs_max"]
        params.flash_attn_type = {"auto": -1, "off": 0, "on": 1}[config.get("flash_attn", "on")]
        params.type_k, params.type_v = TYPES[config.get("type_k", "f16")], TYPES[config.get("type_v", "f16")]
        params.offload_kqv = config.get("kv_offload", True)
        params.swa_full = config.get("swa_full", False)
        params.kv_unified = config.get("kv_unified", False)
        params.embeddings = config.get("embeddings", False)
        params.n_rs_seq = config.get("n_rs_seq", 0)
        return params

    def quantize(self, config: dict[str, Any]) -> dict[str, Any]:
        """Which type each tensor would get: a dry run, nothing is written."""
        self.lines.clear()
        params = self.ffi.new("llama_model_quantize_params *", self.llama.llama_model_quantize_default_params())
        params.nthread, params.ftype, params.dry_run, params.allow_requantize = 1, config["ftype"], True, True
        done = self.llama.llama_model_quantize(config["path"].encode(), config["out"].encode(), params)
        return {"error": "" if done == 0 else "not quantized", "lines": list(self.lines)}


def main() -> None:
    home, what, *ports = sys.argv[1:]
    library = Library(Path(home))
    if what == "serve":
        library.serve(int(ports[0]))
        return
    devices = library.devices([int(p) for p in ports])
    for line in sys.stdin:
        config = json.loads(line)
        answer = library.quantize(config) if "ftype" in config else library.load(config, devices)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
