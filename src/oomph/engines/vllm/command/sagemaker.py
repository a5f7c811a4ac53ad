"""vLLM's settings as variables of Amazon SageMaker's containers: SM_VLLM_MAX_MODEL_LEN=8192 is --max-model-len 8192.

The container's own entry point makes the flags of them (the README of AWS' vLLM images); a switch is "true" or empty.
"""

from oomph.text.late import late_pattern

# "SM_VLLM_MODEL": "org/name" in Python or JSON, SM_VLLM_MODEL = "org/name" in HCL, SM_VLLM_MODEL=org/name in a shell
_SETTING = late_pattern(
    r"""(?<![\w-])["']?SM_VLLM_([A-Z][A-Z0-9_]{0,80})["']?[ \t]*[:=][ \t]*"""
    r"""(?:"([^"\n]{0,400})"|'([^'\n]{0,400})'|([^\s"',}]{1,400}))"""
)


def sagemaker_words(text: str, name: str = "") -> tuple[str, ...]:
    """The command of the first model that a text sets; () where it sets none."""
    flags: dict[str, str] = {}
    if "SM_VLLM_MODEL" not in text:
        return ()
    for name, *values in _SETTING.findall(text):
        flags.setdefault(name.lower().replace("_", "-"), "".join(values).strip())
    model = flags.pop("model", "")
    words = [word for name, value in flags.items() if value.lower() != "false" for word in _flag(name, value)]
    return ("vllm", "serve", model, *words) if model else ()


def _flag(name: str, value: str) -> tuple[str, ...]:
    return (f"--{name}",) if value.lower() in ("", "true") else (f"--{name}", value)
