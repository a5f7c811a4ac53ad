"""When the engines were last looked at: the day on which the newest release that the facts name was the newest.

Whoever adds a release (CONTRIBUTING.md) writes the day here.
"""

from datetime import date

LOOKED_AT = {
    "vllm": date(2026, 11, 15),
    "sglang": date(2026, 11, 15),
    "llamacpp": date(2026, 11, 15),
    "ollama": date(2026, 11, 15),
    "trtllm": date(2026, 11, 15),
}
STALE_AFTER = 60  # days: vLLM makes a release every two to three weeks
