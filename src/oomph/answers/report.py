"""A report to attach to an issue: the plan, what the log says, the machine and the versions, without secrets."""

import os
import platform
from collections.abc import Sequence

from msgspec.structs import replace

from oomph.answers.plan import plan
from oomph.doctor.explain import explain
from oomph.doctor.explanation import Explanation
from oomph.engines.registry import engine_of
from oomph.errors import OomphError
from oomph.ir import Deployment, Device, Plan
from oomph.ir.printed import Printed
from oomph.text.late import late_pattern
from oomph.text.redaction import session

LAST_LINES = 60  # of the log, beside those that the explanation rests on
LONGEST_LINE = 400


class Bundle(Printed, frozen=True):
    versions: dict[str, str]
    machine: tuple[str, ...]  # a line for each card, and the host
    plan: Plan | None = None
    explanation: Explanation | None = None
    log_end: tuple[str, ...] = ()  # its last lines
    log_lines: int = 0  # how many it has
    problems: tuple[str, ...] = ()  # what could not be told, and why

    def in_short(self) -> str:
        parts = ["plan"] * (self.plan is not None) + ["log"] * (self.explanation is not None)
        return f"{', '.join(parts) or 'versions only'}; {len(self.problems)} problems"


def bundle(deployment: Deployment | None = None, *, gpu: str | None = None, logs: Sequence[str] = ()) -> Bundle:
    """What cannot be told becomes a problem of the report, never a refusal: it is made because something went wrong."""
    problems: list[str] = []
    foreseen: Plan | None = None
    devices = _devices(gpu, problems)
    explanation, end, number = _explained(logs, deployment, devices, problems)
    if deployment is not None:
        try:
            foreseen = plan(_as_logged(deployment, explanation), gpu=gpu)
        except OomphError as refused:
            problems.append(f"not planned: {refused.message}")
    return Bundle(_versions(foreseen), _machine(devices), foreseen, explanation, end, number, problems=tuple(problems))


def _as_logged(deployment: Deployment, explanation: Explanation | None) -> Deployment:
    """Under the release that the log is of, unless --engine names one: one report speaks of one release."""
    if explanation is None or deployment.engine.version_from == "--engine":
        return deployment
    engine, logged = engine_of(deployment), explanation.engine
    if logged.name != engine.name or not logged.version:
        return deployment
    version, note = engine.nearest(logged.version)
    moved, dropped = engine.at_release(deployment, version)
    release = replace(moved.engine, version_from="the log")
    return replace(moved, engine=release, notes=(*moved.notes, *filter(None, (note,)), *dropped))


def _versions(foreseen: Plan | None) -> dict[str, str]:
    from importlib.metadata import version

    versions = {
        "oomph": version("oomph"),
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
    if foreseen is not None:
        engine = foreseen.deployment.engine
        versions[engine.name] = f"{engine.version} ({engine.version_from})" if engine.version_from else engine.version
    driver = _driver()
    return {**versions, "NVIDIA driver": driver} if driver else versions


def _driver() -> str:
    """Where one is loaded, Linux says its version in a file."""
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
            words = file.read(400).split()
    except OSError:
        return ""
    return next((word for word in words if word.count(".") >= 1 and word[0].isdigit()), "")


def _devices(gpu: str | None, problems: list[str]) -> tuple[Device, ...]:
    from oomph.sources.gpu import parse_gpus

    try:
        return parse_gpus(gpu or "auto")
    except OomphError as refused:
        problems.append(f"the GPUs are not known: {refused.message}")
        return ()


def _machine(devices: Sequence[Device]) -> tuple[str, ...]:
    import psutil  # type: ignore[import-untyped]

    from oomph.units import human

    cards = [
        f"{device.name}: {human(device.total_bytes)}, {human(device.used_bytes)} in use by others" for device in devices
    ]
    memory = psutil.virtual_memory()
    host = f"host: {human(memory.total)} of memory, {human(memory.available)} available, {os.cpu_count()} CPUs"
    return (*cards, host)


def _explained(
    logs: Sequence[str], deployment: Deployment | None, devices: tuple[Device, ...], problems: list[str]
) -> tuple[Explanation | None, tuple[str, ...], int]:
    if not logs:
        return None, (), 0
    from oomph.logs.reader import read_paths

    try:
        raw = read_paths(logs)
    except OomphError as refused:
        problems.append(refused.message)
        return None, (), 0
    end = _hidden([line.text[:LONGEST_LINE] for line in raw.lines[-LAST_LINES:]])
    try:
        return explain(list(logs), deployment=deployment, gpus=devices), end, raw.total_lines
    except OomphError as refused:
        problems.append(f"the log is not explained: {refused.message}")
        return None, end, raw.total_lines


def _hidden(lines: Sequence[str]) -> tuple[str, ...]:
    """Looked through together: a secret may stand on the line below its name, and JSON has each line by itself."""
    together = tuple(session().hide("\n".join(lines)).split("\n"))
    return together if len(together) == len(lines) else tuple(map(session().hide, lines))


# Home folders as Linux, macOS, Windows and WSL write them, with one or two backslashes; who speaks in a prompt or mail.
_HOME = late_pattern(
    r"(?P<before>/(?:home|Users|var/home|mnt/[a-z]/Users|[a-z]/Users|data/home|lustre/home|gpfs/home|nfs/home)/|"
    r"\b[A-Za-z]:(?:\\{1,4}|/)(?:Users|Documents and Settings)(?:\\{1,4}|/))(?P<name>[^\s/\\:\"'<>|]{1,64})"
)
_AT = late_pattern(
    r"(?<![\w/.@=:-])(?!git@)[A-Za-z_][\w.-]{0,40}@(?!sha256:)(?:\d{1,3}(?:\.\d{1,3}){3}|[A-Za-z][\w-]{0,60}"
    r"(?:\.[A-Za-z][\w-]{0,60}){1,6}|[A-Za-z][\w-]{1,60}(?=:[~/]|[:\s][^\n]{0,80}[$#] |\b[^\n]{0,40}\]\$))"
)
_NOBODY = ("root", "localhost", "ubuntu", "user", "admin", "runner", "shared", "Public", "Default")


def without_places(text: str) -> str:
    """Whose machine it is says nothing of its memory: home folders, users and hosts are left out, of this machine and
    of the one that the log is from."""
    import getpass
    import socket

    home = os.path.expanduser("~")
    text = text.replace(home, "~") if len(home) > 1 else text
    text = _HOME.sub(lambda match: match["before"] + (match["name"] if match["name"] in _NOBODY else "USER"), text)
    text = _AT.sub("USER@HOST", text)
    try:
        names = [(socket.gethostname(), "HOST"), (getpass.getuser(), "USER")]
    except (OSError, KeyError):
        return text
    for name, word in names:
        if len(name) > 3 and name not in _NOBODY:
            text = text.replace(name, word)
    return text


__all__ = ["Bundle", "bundle", "without_places"]
