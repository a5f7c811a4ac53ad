"""`docker run ... IMAGE ARGS` (podman, nerdctl) to the command that runs inside."""

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from oomph.commands.call import Call, program, short, shown
from oomph.commands.manifests.memory_limit import docker_bytes
from oomph.engines.registry import all_engines, engine_named
from oomph.errors import CannotPlan, CommandError

PROGRAMS = ("docker", "podman", "nerdctl", "nvidia-docker", "docker.io")

# every other option of `docker run` takes a value (docker run --help), podman's own included
_SWITCHES = frozenset((
    "-d", "--detach", "-i", "--interactive", "-t", "--tty", "--rm", "--init", "--privileged", "--read-only", "-P",
    "--publish-all", "--no-healthcheck", "--oom-kill-disable", "--sig-proxy", "--disable-content-trust", "-q",
    "--quiet", "--help", "--use-api-socket", "--replace", "--rmi", "--no-hostname", "--no-hosts", "--env-host",
    "-T", "--no-TTY", "--no-deps",
))  # fmt: skip
_SHORT_SWITCHES = set("ditqP")
_PROGRAMS = {"python", "bash", "sh", "env"}  # a container's command that begins with one of them is whole


def image_engine(image: str) -> str:
    """'vllm/vllm-openai:v0.21.0' -> 'vllm'; "" = the name does not say. vLLM may be named by the way: it is last."""
    name = image.split("@", 1)[0].lower()
    return next((one.name for one in reversed(all_engines()) if any(word in name for word in one.images)), "")


def is_run(words: Sequence[str]) -> bool:
    return any(word in ("run", "exec", "create") for word in words[1:3])


def compose_exec(words: Sequence[str]) -> list[str]:
    """`docker compose exec [options] SERVICE COMMAND ...` and docker-compose's own: the command; [] = it is none."""
    rest = list(words)
    if rest[:2] in (["docker", "compose"], ["podman", "compose"]):
        rest = rest[1:]
    elif program(rest[0]) not in ("docker-compose", "podman-compose"):
        return []
    at = next((i for i, word in enumerate(rest) if word in ("exec", "run")), 0)
    behind = _options(rest[at + 1 :])[1] if at else []
    return behind[1:]


def run(words: Sequence[str], environment: Mapping[str, str]) -> Call:
    """The container's command as a call; what it runs may be wrapped again."""
    at = next(i for i, word in enumerate(words) if word in ("run", "exec", "create"))
    options, rest = _options(list(words[at + 1 :]))
    if not rest:
        raise CommandError("docker run without an image")
    inside = _environment(options, environment)
    if words[at] == "exec":
        return Call(tuple(rest[1:]), inside, gpu_count=0)
    named = [value for name, value in options if name == "--entrypoint"]
    entrypoint = [word for word in named[-1:] if word] if named else None
    count, notes = _gpus(options, inside)
    call = container(rest[0], rest[1:], inside, entrypoint=entrypoint, gpu_count=count, notes=notes)
    named = [gpus_option(value)[1] for name, value in options if name == "--gpus"]
    call = replace(call, gpu_ids="".join(named[-1:]))
    call = replace(call, mounts=mounts_of(value for name, value in options if name in ("-v", "--volume", "--mount")))
    limits = [docker_bytes(value) for name, value in options if name in ("-m", "--memory")]
    return replace(call, memory_limit=limits[-1]) if limits else call


def container(
    image: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    entrypoint: Sequence[str] | None = None,
    gpu_count: int = 0,
    notes: Sequence[str] = (),
) -> Call:
    """An image with its command: the image's own entry point is put in front where the command leaves it out.

    `entrypoint`: what replaces the image's own; None = it stays, () = it is taken away.
    """
    words, refusal = [*(entrypoint or ()), *command], ""
    if not entrypoint:
        if entrypoint is None and (name := image_engine(image)):
            refusal = engine_named(name).container_refusal(image, words)
        words = _with_entrypoint(image, words)
    return Call(
        tuple(words),
        dict(environment),
        image=image,
        gpu_count=gpu_count,
        notes=tuple(notes),
        refusal=CommandError(refusal) if refusal else None,
    )


def mounts_of(values: Iterable[str]) -> dict[str, str]:
    """-v HERE:THERE:ro and --mount type=bind,source=HERE,target=THERE: there -> here; a named volume is no path."""
    mounts: dict[str, str] = {}
    for value in values:
        pairs = dict(part.split("=", 1) for part in value.split(",") if "=" in part)
        here, _, rest = value.partition(":")
        there = rest.partition(":")[0]
        if "target" in pairs or "dst" in pairs:
            here, there = pairs.get("source") or pairs.get("src", ""), pairs.get("target") or pairs.get("dst", "")
        if there.startswith("/") and here.startswith(("/", ".", "~")):
            mounts[there.rstrip("/")] = here.rstrip("/")
    return mounts


def _with_entrypoint(image: str, words: list[str]) -> list[str]:
    """The words with the image's own entry point in front, unless they name a program."""
    name = image_engine(image)
    engine = engine_named(name) if name else None
    if words and program(words[0]) in _PROGRAMS | {word for one in all_engines() for word in one.programs}:
        return words
    if engine is None:
        raise CannotPlan(f"the image {short(image)} does not say which engine it runs, and neither does its command")
    return engine.in_container(image, words)


def _options(words: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """The options before the image, each with its value, and what follows them."""
    options: list[tuple[str, str]] = []
    index = 0
    while index < len(words) and words[index].startswith("-") and words[index] != "-":
        word = words[index]
        index += 1
        if word == "--":
            break
        name, sign, value = word.partition("=")
        if sign and word.startswith("--"):
            options.append((name, value))
        elif name in _SWITCHES or (not word.startswith("--") and set(word[1:]) <= _SHORT_SWITCHES):
            options.append((name, ""))
        elif not word.startswith("--") and len(word) > 2:
            glued = word.lstrip("-")
            while glued and glued[0] in _SHORT_SWITCHES:  # -itp8000:8000
                glued = glued[1:]
            if len(glued) > 1:
                options.append(("-" + glued[0], glued[1:].removeprefix("=")))
            else:
                options.append(("-" + glued, words[index] if index < len(words) else ""))
                index += 1
        else:
            if index >= len(words):
                raise CommandError(f"docker run: flag needs an argument: {shown(word)}")
            options.append((name, words[index]))
            index += 1
    return options, words[index:]


def _environment(options: Sequence[tuple[str, str]], outer: Mapping[str, str]) -> dict[str, str]:
    """-e K=V, and -e K taken from outside; files named by --env-file are not read."""
    inside: dict[str, str] = {}
    for name, value in options:
        if name in ("-e", "--env"):
            key, sign, text = value.partition("=")
            if sign:
                inside[key] = text
            elif key in outer:
                inside[key] = outer[key]
    return inside


def _gpus(options: Sequence[tuple[str, str]], inside: dict[str, str]) -> tuple[int, list[str]]:
    """How many GPUs the container sees (0 = all, or not said)."""
    notes = [f"the variables of {shown(value)} were not read" for name, value in options if name == "--env-file"]
    values = [value for name, value in options if name == "--gpus"]
    if values:
        count, visible = gpus_option(values[-1])
        if visible and "CUDA_VISIBLE_DEVICES" not in inside:
            notes.append(f"docker gives it GPU {shown(visible)}")
        return count, notes
    devices = [value for name, value in options if name == "--device" and value.startswith("nvidia.com/gpu")]
    if devices:
        numbers = {value.partition("=")[2] for value in devices}
        return (0 if "all" in numbers else len(numbers)), notes
    has_gpus = any(name in _GIVES_GPUS or (name == "--device" and value.startswith("/dev/")) for name, value in options)
    if not has_gpus and GPU_VARIABLE not in inside:
        notes.append(NO_GPU.format("--gpus all"))
    return 0, notes


GPU_VARIABLE = "NVIDIA_VISIBLE_DEVICES"  # who sets it has a default runtime that reads it
NO_GPU = "nothing gives this container a GPU ({}): it sees one only where the default runtime hands them out"
_GIVES_GPUS = ("--runtime", "--privileged", "--annotation", "--cdi-spec-dirs", "--hooks-dir")


def gpus_option(text: str) -> tuple[int, str]:
    """docker's --gpus: all, 2, device=0,1, "device=0,1", count=2; (count, the devices named)."""
    text = text.strip().strip("\"'").strip()
    for part in re.split(r",(?=[a-z])", text):
        key, sign, value = part.strip().strip("\"'").partition("=")
        if sign and key.strip("\"'") == "device":
            devices = [d for d in value.strip("\"'").split(",") if d.strip()]
            return len(devices), ",".join(devices)
        if sign and key == "count":
            part = value
        if part.strip().isascii() and part.strip().isdigit():
            return min(int(part), 1 << 16), ""
    return 0, ""
