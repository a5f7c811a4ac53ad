"""The GPUs that a text names: a manifest's labels, a job's resources, an instance type, or a card in the prose.

What a file declares counts where --gpu is not given. What its prose only mentions counts where, besides, this machine
has no GPU; a text that mentions several cards names none.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from oomph.errors import OomphError
from oomph.sources.gpu import parse_gpus
from oomph.text.late import late_pattern

# labels that name a card or an instance: GPU feature discovery, GKE, Karpenter, EKS, CoreWeave, Kubernetes' own
_LABELS = (
    "nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "karpenter.k8s.aws/instance-gpu-name",
    "k8s.amazonaws.com/accelerator", "gpu.nvidia.com/model", "gpu.nvidia.com/class", "amd.com/gpu.product-name",
    "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type",
)  # fmt: skip
_INSTANCE = late_pattern(
    r"(?<![\w.-])(?:(?:ml\.)?(?:g4dn|g5|g6e?|gr6|p3(?:dn)?|p4de?|p5(?:en?)?|p6-b[23]00)\.(?:\d{0,2}xlarge|metal)"
    r"|Standard_N[CDV]\w+|a2-(?:high|ultra|mega)gpu-\d+g|a[34]-(?:high|mega|ultra|edge)gpu-\d+g|g2-standard-\d+)(?![\w.-])"
)
_SLURM = late_pattern(
    r"^#SBATCH\s+(?:--gres[= ]gpu|--gpus-per-node[= ]|--gpus[= ]|-G\s*)[:=]?((?:[A-Za-z][\w.-]*:)?)(\d{1,3})\b",
    re.MULTILINE,
)
# Modal's gpu="H100:2" and gpu=modal.gpu.H100(count=2), Ray's and Anyscale's accelerator_type, BentoML's gpu_type
_KEYWORD = late_pattern(
    r"^[^#\n]*?\b(?:gpu|gpu_type|gpu_config|accelerator_type|GPU_TYPE)[\"']?\s*[:=]\s*"
    r"[\"']([A-Za-z][\w .:-]{0,40})[\"']",
    re.MULTILINE,
)
_MODAL = late_pattern(r"\bmodal\.gpu\.([A-Z]\w*)\(([^)\n]{0,80})\)")
_NUMBER_WORDS = "single|one|a|dual|two|three|quad|four|six|eight"
_CARD = late_pattern(
    rf"(?<![A-Za-z0-9_./:@-])(?:(?P<count>\d{{1,2}})\s?[x×*个张块]\s?|(?P<plain>[2-9]|16)\s|(?P<word>{_NUMBER_WORDS})\s)?"
    r"(?P<card>(?:nvidia[ -])?(?:geforce[ -])?(?:"
    r"(?:rtx|gtx)[ -]?(?:pro[ -])?(?:a?\d{4})(?:[ -]?(?:ti|super|ada))?"
    r"|[345]0[5-9]0(?:[ -]?ti)?(?=\b(?!\s*(?:tokens|mib|mb|ms|requests|samples|steps|/))|s\b)"
    r"|rtx[ -]?pro[ -]?6000|dgx spark|gb10"
    r"|(?:tesla[ -])?(?:a100|a800|h100|h800|h20|h200|b200|b300|gh200|gb200|gb300|l20|l40s?|l4|a10g?|a40|a30|a6000"
    r"|t4|p40|p100|v100|mi300x|mi325x|mi350x|mi355x|mi210|mi250x?)"
    r")(?:[ -](?:sxm\d?|pcie|nvl))?(?:[ -]\(?\d{2,3}\s?gi?b\)?)?)s?(?![A-Za-z0-9_-]|/(?!\d))"
    r"(?:\s?[x×]\s?(?P<after>[2-9]|16)\b)?",
    re.IGNORECASE,
)  # fmt: skip
_BEFORE_CARD = late_pattern(r"\b(?:my|an?|the|own|old|used|single|both|geforce)\s$|[张块台]\s?$", re.IGNORECASE)
_BEHIND_CARD = late_pattern(r"\s?(?:gpu|card|\(?\d\d\s?gi?b\b)", re.IGNORECASE)
_LONGEST = 200_000  # characters of prose that are looked at


class Named(NamedTuple):
    gpus: str = ""  # as --gpu takes them
    number: int = 0  # how many, where no card is named with it
    note: str = ""


def of_pod(pod: Mapping[str, Any], count: int) -> Named:
    """The card of a pod's nodeSelector or node affinity, `count` times; an instance has its own number."""
    values = list(dict.fromkeys(_label_values(pod)))
    cards = [value for value in values if _memory(value)]
    return _smallest(cards, count) if cards else Named(values[0] if values else "")


def of_accelerators(value: Any) -> Named:
    """SkyPilot's H100:8, {H100: 8, A100-80GB: 8} and [L4:1, A10G:1]: several are choices."""
    if isinstance(value, dict):
        # {A100:8, A100-80GB:8} without spaces is a set of names in YAML
        names = [str(name) if number is None else f"{name}:{number}" for name, number in value.items()]
    else:
        names = [str(item) for item in (value if isinstance(value, list) else [value] if value else [])]
    cards = [re.sub(r"^A100(?=:|$)", "A100 SXM 40GB", name) for name in names]  # its catalogue has A100-80GB beside it
    sized = [card for card in cards if _memory(card)]
    return _smallest(sized, 0) if sized else Named()


def declared(text: str) -> Named:
    """What a job or a program says about its GPUs anywhere in its text."""
    if match := _SLURM.search(text):
        name, count = match[1].rstrip(":"), min(int(match[2]), 1024)
        return Named(f"{count}x {name}" if name and _memory(name) else "", count)
    instances = set(_INSTANCE.findall(text))
    if len(instances) == 1:
        return Named(instances.pop())
    names = {_counted(name) for name in _KEYWORD.findall(text)} | {_modal(*pair) for pair in _MODAL.findall(text)}
    sized = [name for name in sorted(names) if _memory(name)]
    return Named(sized[0]) if len(sized) == 1 and len(names) == 1 else Named()


def mentioned(text: str) -> str:
    """The one card that a post or a remark speaks of; "" where there is none, or more than one."""
    cards: dict[str, int] = {}
    for match in _CARD.finditer(text[:_LONGEST]):
        try:
            devices = parse_gpus(match["card"].strip())
        except OomphError:
            continue
        if match["card"].isdigit() and not _is_said_of_a_card(text, match):
            continue
        number = int(match["count"] or match["plain"] or match["after"] or 0)
        if match["word"]:
            number = len(parse_gpus(f"{match['word']} {match['card']}"))
        cards[devices[0].name] = max(cards.get(devices[0].name, 0), number)
    if len(cards) != 1:
        return ""
    (name, number), *_ = cards.items()
    return f"{number}x {name}" if number > 1 else name


def _is_said_of_a_card(text: str, match: re.Match[str]) -> bool:
    """Whether a bare number is a card: "my 3090", "two 3090s", "3090 x2", "3090 GPU"; not "--port 3080"."""
    if any(match[group] for group in ("count", "plain", "word", "after")):
        return True
    before, behind = text[max(0, match.start() - 12) : match.start()], text[match.end() : match.end() + 8]
    return bool(_BEFORE_CARD.search(before) or _BEHIND_CARD.match(behind))


def _label_values(value: Any, depth: int = 0) -> Iterator[str]:
    """Values of the labels below a pod's own keys; containers are not looked into."""
    if depth > 12:
        return
    if isinstance(value, list):
        for item in value:
            yield from _label_values(item, depth + 1)
    elif isinstance(value, dict):
        if (
            value.get("key") in _LABELS
            and value.get("operator", "In") == "In"
            and isinstance(value.get("values"), list)
        ):
            yield from map(str, value["values"])
        for key, item in value.items():
            if key in _LABELS and isinstance(item, str):
                yield item
            elif key in ("nodeSelector", "affinity", "nodeAffinity") or (
                depth and key not in ("containers", "template")
            ):
                yield from _label_values(item, depth + 1)


def _memory(name: str) -> int:
    """Of the smallest card that a name stands for; 0 = it stands for none."""
    try:
        return min(device.total_bytes for device in parse_gpus(name)) if name.lower() != "auto" else 0
    except OomphError:
        return 0


def _smallest(names: Sequence[str], count: int) -> Named:
    """Of several choices the one with the least memory: what fits there fits on the others."""
    best = min(names, key=lambda name: _memory(name) * len(parse_gpus(name)))
    note = f"it may run on {', '.join(names)}: planned on {best}, the smallest" if len(names) > 1 else ""
    single = len(parse_gpus(best)) == 1 and count > 1
    return Named(f"{count}x {best}" if single else best, 0, note)


def _counted(name: str) -> str:
    card, _, number = name.rpartition(":")
    return f"{number}x {card}" if card and number.isdigit() and len(number) < 4 else name


def _modal(card: str, arguments: str) -> str:
    count = re.search(r"\bcount\s*=\s*(\d{1,2})", arguments)
    size = re.search(r"\bsize\s*=\s*[\"'](\d{2,3})GB", arguments)
    return f"{count[1] if count else 1}x {card}{f' {size[1]}GB' if size else ''}"
