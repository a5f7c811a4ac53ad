"""Host memory that a container may have, as Kubernetes and docker write it."""

from collections.abc import Mapping
from typing import Any

from oomph.text.late import late_pattern

_SIZE = late_pattern(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([kKmMgGtT]?)(i?)[bB]?\s*")
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def kubernetes_bytes(value: object) -> int:
    """64Gi is binary, 64G decimal (Kubernetes' resource quantities); 0 where it is neither."""
    match = _SIZE.fullmatch(str(value))
    if match is None:
        return 0
    unit: int = (1024 if match[3] else 1000) ** _POWERS[match[2].lower()]
    return round(float(match[1]) * unit)


def docker_bytes(value: object) -> int:
    """docker and compose count in powers of two: 64g, 64gb, 65536m; 0 where it is no size."""
    match = _SIZE.fullmatch(str(value))
    return round(float(match[1]) * 1024 ** _POWERS[match[2].lower()]) if match is not None else 0


def of_container(container: Mapping[str, Any]) -> int:
    """resources.limits.memory of a Kubernetes container; 0 = none."""
    resources = container.get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    return kubernetes_bytes(limits["memory"]) if isinstance(limits, dict) and limits.get("memory") else 0


# Resources of GPU sharing and the unit of each, from the README of HAMi (nvidia.com/gpumem), of Volcano's vGPU and of
# Alibaba's gpushare.
_OF_CARDS = {
    "nvidia.com/gpumem": "{}MiB", "nvidia.com/gpumem-percentage": "{}%", "volcano.sh/vgpu-memory": "{}MiB",
    "volcano.sh/vgpu-memory-percentage": "{}%", "aliyun.com/gpu-mem": "{}GiB", "amd.com/gpumem": "{}MiB",
}  # fmt: skip


def of_cards(container: Mapping[str, Any]) -> str:
    """What the container may use of each card: "20000MiB", "50%"; "" = all of it."""
    resources = container.get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    amounts: Mapping[str, Any] = limits if isinstance(limits, dict) else {}
    for name, form in _OF_CARDS.items():
        amount = str(amounts.get(name, ""))
        if amount.isascii() and amount.isdigit() and len(amount) < 8 and int(amount):
            return form.format(int(amount))
    return ""


def of_service(service: Mapping[str, Any]) -> int:
    """mem_limit or deploy.resources.limits.memory of a compose service; 0 = none."""
    value: Any = service.get("mem_limit")
    if value is None:
        value = service
        for key in ("deploy", "resources", "limits", "memory"):
            value = value.get(key) if isinstance(value, dict) else None
    return docker_bytes(value) if value is not None else 0
