"""CUDA graph mode and capture sizes (config/vllm.py _set_cudagraph_sizes, OPTIMIZATION_LEVEL_TO_CONFIG)."""

from collections.abc import Mapping
from typing import Any

from oomph.engines.vllm.kv.specs import Refused
from oomph.engines.vllm.resolve.verify import invalid
from oomph.facts.vllm.running import CAPTURE_MAX, Capture

# -O levels: config/vllm.py OPTIMIZATION_LEVEL_TO_CONFIG
_LEVELS = {0: "NONE", 1: "PIECEWISE", 2: "FULL_AND_PIECEWISE", 3: "FULL_AND_PIECEWISE"}
_COMPILED = (3, "3", "VLLM_COMPILE", "vllm_compile", "PIECEWISE", None)  # the mode that splits the graph


_UNCOMPILED = (0, "0", "NONE", "none")


def breaks_graphs(architecture: str, environment: Mapping[str, str], capture: Capture, vendor: str) -> bool:
    """Graphs are cut while they are captured (_maybe_enable_breakable_cudagraph), which needs no torch.compile."""
    text = environment.get("VLLM_USE_BREAKABLE_CUDAGRAPH", "")
    is_compiled_here = vendor == "amd" and architecture in capture.compiled_on_amd
    by_default = architecture in capture.broken_by_default and not is_compiled_here
    return bool(capture.breakable) and (text == "1" if text in ("0", "1") else by_default)


def compiles(flags: Mapping[str, Any], *, breakable: bool = False) -> bool:
    """Whether torch.compile runs: graphs can be captured of a model that is not compiled (-O0, "mode": 0)."""
    return not flags.get("enforce_eager") and not breakable and _compile_mode(flags) not in _UNCOMPILED


def _compile_mode(flags: Mapping[str, Any]) -> Any:
    compilation = _compilation(flags)
    usual = 3 if flags.get("optimization_level", 2) else 0
    return compilation.get("mode", compilation.get("level", usual))  # `level` until 0.17


def _compilation(flags: Mapping[str, Any]) -> Mapping[str, Any]:
    compilation = flags.get("compilation_config")
    return compilation if isinstance(compilation, Mapping) else {}


def cudagraph_mode(
    flags: Mapping[str, Any], capture: Capture, *, pooling: bool, encoder_decoder: bool, breakable: bool = False
) -> str:
    compilation = _compilation(flags)
    if flags.get("enforce_eager"):
        return "NONE"
    level = flags.get("optimization_level", 2)
    mode = str(
        compilation.get("cudagraph_mode") or flags.get("cudagraph_mode") or _LEVELS.get(level, _LEVELS[2])
    ).upper()
    compiled = _compile_mode(flags)
    if mode in ("PIECEWISE", "FULL_AND_PIECEWISE") and not breakable and compiled not in _COMPILED:
        mode = capture.mode_uncompiled if mode == "FULL_AND_PIECEWISE" and compiled in _UNCOMPILED else "NONE"
    if mode.startswith("FULL") and capture.piecewise_with_dcp and int(flags.get("decode_context_parallel_size", 1)) > 1:
        return "PIECEWISE"
    if pooling and mode.startswith("FULL"):
        return "PIECEWISE"
    if encoder_decoder and mode not in ("NONE", "FULL_DECODE_ONLY"):
        return capture.mode_encoder_decoder
    return mode


def _steps(top: int, wide: bool) -> list[int]:
    sizes = [n for n in (1, 2, 4) if n <= top]
    if not wide:
        return sizes + list(range(8, top + 1, 8))
    return sizes + list(range(8, min(top + 1, 256), 8)) + list(range(256, top + 1, 16))


def _verify_sizes(sizes: Any, largest: Any) -> None:
    """config/compilation.py: pydantic's own check of the two fields."""
    if sizes is not None and not isinstance(sizes, list | tuple):
        raise invalid("CompilationConfig", ("cudagraph_capture_sizes", *_NO_LIST, sizes))
    wrong = [("max_cudagraph_capture_size", largest)] if largest is not None and not _is_count(largest) else []
    wrong += [(f"cudagraph_capture_sizes.{i}", n) for i, n in enumerate(sizes or ()) if not _is_count(n)]
    if wrong:
        raise invalid("CompilationConfig", *((name, *_NO_INTEGER, value) for name, value in wrong))


_NO_LIST = ("Input should be a valid list", "list_type")
_NO_SIZE = "Assertion failed, Maximum cudagraph size should be greater than or equal to 1 when using cuda graph."
_NO_INTEGER = ("Input should be a valid integer", "int_type")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _given_sizes(wanted: Any, largest: int | None, tokens: int) -> tuple[int, ...]:
    sizes = sorted({int(n) for n in wanted if int(n) <= tokens})
    if largest is not None and sizes and sizes[-1] != largest:
        raise Refused(
            "ValidationError",
            f"customized max_cudagraph_capture_size(={largest}) should be consistent with the max value of "
            f"cudagraph_capture_sizes(={sizes[-1]})",
        )
    return tuple(sizes)


def _old_sizes(wanted: list[int], capture: Capture) -> list[int]:
    """--cuda-graph-sizes: one number is the largest size (config/__init__.py:3653, 0.10.2), until it became another
    name for --cudagraph-capture-sizes (arg_utils.py:1743, 0.11.2)."""
    return _steps(wanted[0], False) if len(wanted) == 1 and capture.one_size_is_largest else wanted


def capture_sizes(
    flags: Mapping[str, Any],
    capture: Capture,
    *,
    architecture: str,
    sm: int,
    seqs: int,
    tokens: int,
    drafts: int,
) -> tuple[int, ...]:
    """The capture sizes in rising order; called only where graphs are on."""
    compilation = flags.get("compilation_config")
    compilation = compilation if isinstance(compilation, Mapping) else {}
    explicit = flags.get("cudagraph_capture_sizes") or compilation.get("cudagraph_capture_sizes")
    largest = flags.get("max_cudagraph_capture_size") or compilation.get("max_cudagraph_capture_size")
    if explicit is None and flags.get("cuda_graph_sizes"):
        explicit = _old_sizes(flags["cuda_graph_sizes"], capture)
    _verify_sizes(explicit, largest)
    if 0 in (flags.get("max_cudagraph_capture_size"), compilation.get("max_cudagraph_capture_size")):
        raise Refused("ValidationError", _NO_SIZE)
    top = largest
    wide = capture.steps_of_16
    if top is None and explicit is None and architecture == "GptOssForCausalLM":
        top, wide = capture.max_gpt_oss, True
    decode: list[int] = []
    if top is None:
        limit = capture.max_sm100 if sm // 10 == 10 else CAPTURE_MAX
        query = 1 + drafts if capture.counts_drafts else 1
        top = min(seqs * query * 2, limit)
        if capture.decode_multiples and query > 1:
            requests = min(seqs, limit)
            decode = [n * query for n in {*_steps(requests, True), requests} if n * query <= top]
        elif capture.adds_max_seqs and seqs <= top:
            decode = [seqs]
    top = min(tokens, int(top))
    if explicit is not None:
        return _given_sizes(explicit, largest, tokens)
    if flags.get("performance_mode") == "interactivity":
        small = list(range(1, min(top, 32) + 1))
        sizes = small + [n for n in _steps(top, wide) if n >= 8]
    else:
        sizes = _steps(top, wide)
    if capture.adds_small_batch and tokens <= top:
        sizes.append(tokens)
    return tuple(sorted({*sizes, *(n for n in decode if n <= tokens)}))
