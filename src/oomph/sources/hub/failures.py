"""What can go wrong between a question and its answer, and how it is said."""


class Cut(Exception):
    """The body ended before its length."""


class BadAnswer(Exception):
    """What came is not HTTP."""


class OutOfTime(Exception):
    """The question's time is over; `first`: without any answer."""

    def __init__(self, seconds: float, *, first: bool) -> None:
        self.seconds, self.first = seconds, first


def http_error() -> type[Exception]:
    from urllib3.exceptions import HTTPError

    return HTTPError


def is_final(error: BaseException) -> bool:
    """Trying again would not help: an unknown name, a refused certificate, an address that is none, no time left."""
    from urllib3 import exceptions

    if isinstance(error, OutOfTime):
        return True
    if isinstance(error, exceptions.SSLError):
        return "certificate" in str(error).lower()
    return isinstance(error, (exceptions.NameResolutionError, exceptions.LocationValueError, ValueError))


def reason(error: BaseException) -> str:
    from urllib3 import exceptions

    if isinstance(error, OutOfTime):
        if error.first:
            return f"does not answer within {error.seconds:.0f} s"
        return f"does not answer to the end within {error.seconds:.0f} s (--timeout SECONDS waits longer)"
    if isinstance(error, Cut | exceptions.IncompleteRead | ConnectionError):
        return "ends its answer before it is complete"
    if isinstance(error, exceptions.NameResolutionError):
        return "cannot be found: there is no network, or no host of that name"
    if isinstance(error, exceptions.ProxyError):
        return f"cannot be reached through its proxy: {_own_words(error)}"
    if isinstance(error, exceptions.NewConnectionError | exceptions.SSLError):
        return f"cannot be reached: {_own_words(error)}"
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return "does not answer in time"
    if isinstance(error, exceptions.ProtocolError | BadAnswer):
        inner = error.args[-1] if error.args else error
        cut = isinstance(inner, ConnectionError) or type(inner).__name__ in ("IncompleteRead", "InvalidChunkLength")
        if cut and type(inner).__name__ != "BadStatusLine":
            return "ends its answer before it is complete"
        return f"does not answer as HTTP: {_own_words(error)}"
    if isinstance(error, exceptions.LocationValueError | ValueError):
        return "is not an address that can be asked"
    return f"cannot be reached: {_own_words(error)}"


def _own_words(error: BaseException) -> str:
    """What went wrong, without the names of a library's objects around it."""
    while error.args and isinstance(error.args[-1], BaseException):
        error = error.args[-1]
    if type(error).__name__ in ("BadStatusLine", "UnknownProtocol"):
        return "no status line"
    message = getattr(error, "verify_message", "") or getattr(error, "strerror", "") or str(error)
    return " ".join(message.rpartition("] ")[2].rstrip("')").split()).lower()[:160]
