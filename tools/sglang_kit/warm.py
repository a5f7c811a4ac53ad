"""warm.py: does FA3 run on this card, and build FlashInfer's sampling kernels before the first server wants them."""

import time
from collections.abc import Callable
from importlib import import_module

torch, flashinfer = import_module("torch"), import_module("flashinfer")


def attend() -> object:
    q = torch.randn(256, 8, 128, device="cuda", dtype=torch.bfloat16)
    ends = torch.tensor([0, 256], device="cuda", dtype=torch.int32)
    lengths = {"cu_seqlens_q": ends, "cu_seqlens_k": ends, "max_seqlen_q": 256, "max_seqlen_k": 256}
    attention = import_module("sgl_kernel.flash_attn").flash_attn_varlen_func
    return type(attention(q, q, q, **lengths, causal=True))


def sample() -> object:
    probabilities = torch.rand(4, 32000, device="cuda").softmax(-1)
    shape: object = flashinfer.sampling.top_k_top_p_sampling_from_probs(probabilities, 50, 0.9).shape
    return shape


def tried(name: str, call: Callable[[], object]) -> None:
    began = time.time()
    try:
        answer = call()
        torch.cuda.synchronize()
        print("ok  ", name, answer, round(time.time() - began, 1), flush=True)
    except Exception as trouble:
        print("FAIL", name, repr(trouble)[:600], flush=True)


if __name__ == "__main__":
    tried("FA3", attend)
    tried("sampling", sample)
