"""The first and the last lines of vLLM's own log in this process, for the record of a death."""

import logging
from collections import deque

_HEAD, _TAIL = 200, 200
# vLLM's request logger (--enable-log-requests): prompts, answers and parameters of requests are never kept
OF_REQUESTS = ("Received request ", "Request %s details", "Generated response ")

_head: list[str] = []
_tail: deque[str] = deque(maxlen=_TAIL)


class _Keeper(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("vllm.oomph") or str(record.msg).startswith(OF_REQUESTS):
            return
        own = next((each.formatter for each in logging.getLogger("vllm").handlers if each.formatter), None)
        line = (own or logging.Formatter("%(levelname)s %(message)s")).format(record)[:2000]
        _head.append(line) if len(_head) < _HEAD else _tail.append(line)


def keep() -> None:
    logging.getLogger("vllm").addHandler(_Keeper(logging.INFO))


def kept() -> list[str]:
    return [*_head, *_tail]
