"""Cloud instances by name: which card, and how many. Only whole cards; a new instance is one row.

From the providers' own tables: AWS EC2 accelerated instances, Google Cloud GPU machine types, Azure NC/ND/NV sizes,
Oracle Cloud GPU shapes, Lambda's on-demand instances.
"""

import re

_ONE = "xlarge 2xlarge 4xlarge 8xlarge 16xlarge"

# card, then instance:how many, or names with one each
_ROWS: tuple[tuple[str, str], ...] = (
    ("T4", " ".join(f"g4dn.{size}" for size in _ONE.split()) + " g4dn.12xlarge:4 g4dn.metal:8"),
    ("A10G", " ".join(f"g5.{size}" for size in _ONE.split()) + " g5.12xlarge:4 g5.24xlarge:4 g5.48xlarge:8"),
    ("L4", " ".join(f"g6.{size}" for size in _ONE.split()) + " g6.12xlarge:4 g6.24xlarge:4 g6.48xlarge:8"),
    ("L4", "gr6.4xlarge gr6.8xlarge"),
    ("L40S", " ".join(f"g6e.{size}" for size in _ONE.split()) + " g6e.12xlarge:4 g6e.24xlarge:4 g6e.48xlarge:8"),
    ("V100 SXM2 16GB", "p3.2xlarge p3.8xlarge:4 p3.16xlarge:8"),
    ("V100 SXM2 32GB", "p3dn.24xlarge:8"),
    ("A100 SXM 40GB", "p4d.24xlarge:8"),
    ("A100 SXM 80GB", "p4de.24xlarge:8"),
    ("H100 SXM", "p5.4xlarge p5.48xlarge:8"),
    ("H200", "p5e.48xlarge:8 p5en.48xlarge:8"),
    ("B200", "p6-b200.48xlarge:8"),
    ("B300", "p6-b300.48xlarge:8"),
    ("A100 SXM 40GB", "a2-highgpu-1g a2-highgpu-2g:2 a2-highgpu-4g:4 a2-highgpu-8g:8 a2-megagpu-16g:16"),
    ("A100 SXM 80GB", "a2-ultragpu-1g a2-ultragpu-2g:2 a2-ultragpu-4g:4 a2-ultragpu-8g:8"),
    ("H100 SXM", "a3-highgpu-1g a3-highgpu-2g:2 a3-highgpu-4g:4 a3-highgpu-8g:8 a3-megagpu-8g:8 a3-edgegpu-8g:8"),
    ("H200", "a3-ultragpu-8g:8"),
    ("B200", "a4-highgpu-8g:8"),
    ("L4", "g2-standard-4 g2-standard-8 g2-standard-12 g2-standard-16 g2-standard-32"),
    ("L4", "g2-standard-24:2 g2-standard-48:4 g2-standard-96:8"),
    ("T4", "nc4as_t4_v3 nc8as_t4_v3 nc16as_t4_v3 nc64as_t4_v3:4"),
    ("V100 PCIe 16GB", "nc6s_v3 nc12s_v3:2 nc24s_v3:4 nc24rs_v3:4"),
    ("V100 SXM2 32GB", "nd40rs_v2:8"),
    ("A10", "nv36ads_a10_v5 nv36adms_a10_v5 nv72ads_a10_v5:2"),
    ("A100 PCIe 80GB", "nc24ads_a100_v4 nc48ads_a100_v4:2 nc96ads_a100_v4:4"),
    ("A100 SXM 40GB", "nd96asr_v4:8"),
    ("A100 SXM 80GB", "nd96amsr_a100_v4:8"),
    ("H100 NVL", "nc40ads_h100_v5 nc80adis_h100_v5:2"),
    ("H100 SXM", "nd96isr_h100_v5:8"),
    ("H200", "nd96isr_h200_v5:8"),
    ("MI300X", "nd96isr_mi300x_v5:8"),
    ("A10", "vm.gpu.a10.1 vm.gpu.a10.2:2 bm.gpu.a10.4:4"),
    ("A100 SXM 40GB", "bm.gpu4.8:8"),
    ("A100 SXM 80GB", "bm.gpu.a100-v2.8:8"),
    ("H100 SXM", "bm.gpu.h100.8:8"),
    ("H200", "bm.gpu.h200.8:8"),
    ("MI300X", "bm.gpu.mi300x.8:8"),
    ("A10", "gpu_1x_a10"),
    ("RTX A6000", "gpu_1x_a6000 gpu_2x_a6000:2 gpu_4x_a6000:4"),
    ("A100 SXM 40GB", "gpu_1x_a100_sxm4 gpu_8x_a100:8"),
    ("A100 SXM 80GB", "gpu_8x_a100_80gb_sxm4:8"),
    ("H100 PCIe", "gpu_1x_h100_pcie"),
    ("H100 SXM", "gpu_1x_h100_sxm5 gpu_2x_h100_sxm5:2 gpu_4x_h100_sxm5:4 gpu_8x_h100_sxm5:8"),
    ("B200", "gpu_1x_b200_sxm6 gpu_2x_b200_sxm6:2 gpu_4x_b200_sxm6:4 gpu_8x_b200_sxm6:8"),
)

INSTANCES: dict[str, tuple[str, int]] = {
    name: (card, int(count or 1))
    for card, words in _ROWS
    for name, _, count in (word.partition(":") for word in words.split())
}
_FAMILY = r"(?:g\d\w*|gr\d|p\d\w*|p6-\w+|trn\d\w*|inf\d)\.\w+|standard_n[cdv]\w+|[agc]\d\w*-\w+-\d+g?|[bv]m\.gpu.*"


# what clouds call a card, where the table of cards would not know which one it is: GKE's `gke-accelerator` labels
# (cloud.google.com/kubernetes-engine/docs/concepts/gpus), CoreWeave's `gpu.nvidia.com/class`
CARDS: dict[str, str] = {
    "nvidia-tesla-a100": "A100 SXM 40GB",
    "nvidia-h100-mega-80gb": "H100 SXM",
    "nvidia-tesla-v100": "V100 SXM2 16GB",
    "h100_nvlink_80gb": "H100 SXM",
    "h200_nvlink_141gb": "H200",
    "a100_nvlink_80gb": "A100 SXM 80GB",
    "a100_nvlink": "A100 SXM 40GB",
}


def find(text: str) -> tuple[str, int] | None:
    """('A10G', 4) for g5.12xlarge, with a cloud's prefix or without: ml., Standard_, .../machineTypes/."""
    name = text.strip().lower().rpartition("/machinetypes/")[2]
    if card := CARDS.get(name):
        return card, 1
    return INSTANCES.get(re.sub(r"^(?:ml\.|standard_)", "", name))


def looks_like(text: str) -> bool:
    """Whether it is written as an instance that is not in the table."""
    return re.fullmatch(rf"(?:ml\.)?(?:{_FAMILY})", text.strip().lower()) is not None


def nearest(card: str, count: int) -> tuple[str, ...]:
    """The smallest instances with at least so many of a card, one of each kind of name, at most three."""
    sizes = sorted(
        (have, len(name), name) for name, (kind, have) in INSTANCES.items() if kind == card and have >= count
    )
    least = [name for have, _, name in sizes if have == sizes[0][0]]
    kinds = {re.split(r"[.\d_-]", name)[0]: name for name in reversed(least)}
    return tuple(sorted(kinds.values()))[:3]
