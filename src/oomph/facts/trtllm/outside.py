"""What only a run can tell: the memory outside of PyTorch, the buffers beside the weights, the activations.

Nothing was measured for this file. The figures are what start-ups that strangers posted print; their spread is the
interval, and the screen says that it is one. "outside torch" of a log holds the temporary KV pool too; here it is taken
off. A DGX Spark's figure holds the page cache and says nothing about this.
"""

from oomph.units import GIB, MIB

Interval = tuple[int, int, int]  # low, expected, high


def _gib(low: float, expected: float, high: float) -> Interval:
    return round(low * GIB), round(expected * GIB), round(high * GIB)


# Outside minus the temporary pool, by the number of ranks. B200 and B300: alone 1.87 to 2.03 GiB; two 4.6; four 6.8 to
# 7.9; eight 7.1 to 7.5. Alone on a card of 24 GB 1.8 were in use beside the weights before the pool.
# A card of 8 GB had 0.24 GiB less after its first warm-up.
ALONE = _gib(0.6, 1.9, 2.8)
LINKED = {2: _gib(1.5, 4.4, 5.4), 4: _gib(2.5, 7.2, 8.8), 8: _gib(4.5, 7.3, 9.0)}
# Without NVLink there are no multicast buffers; nobody has printed this one: as one card, and communicators
UNLINKED = {2: _gib(1.0, 2.3, 4.0), 4: _gib(1.0, 2.6, 5.0), 8: _gib(1.2, 3.0, 6.0)}
LINKED_CARDS = (90, 100, 103)
# expert parallelism on eight: 10.05 to 10.2 instead of 7.3; attention data parallelism with it 4.6
EXPERT_PARALLEL = _gib(0.0, 2.8, 3.5)
ATTENTION_DP = _gib(2.5, 4.6, 9.0)
# torch_compile_config with piecewise graphs (capture_num_tokens), the same commands with and without: 2.2 to 5.9 more
COMPILED = _gib(1.5, 4.2, 6.2)

# "inside torch" minus what the layers create: 0.17 (gpt-oss-120b), 0.25 (Qwen3-4B), 0.26 to 0.92 GiB (DeepSeek-R1);
# with CUTLASS experts 0.77 (gpt-oss-120b alone) and 2.76 (DeepSeek-R1 on two)
BUFFERS = _gib(0.1, 0.4, 1.0)
CUTLASS_BUFFERS = _gib(0.15, 1.2, 3.0)

# DeepGEMM with attention data parallelism: two start-ups of DeepSeek-R1 print 3.2 GiB more inside torch than its source
# gives (111.66 instead of 108.49). What holds them is not known: the upper end only.
DEEPGEMM_ATTENTION_DP = round(3.5 * GIB)

# Peak minus inside minus outside: DeepSeek-R1 2.1 to 2.8 GiB, 0.3 with some piecewise graphs, gpt-oss-120b alone 0.35
# to 0.76, where the formula of terms.py gives 2.3 to 2.9 and 1.1
LEAST_ACTIVATION = 200 * MIB
ACTIVATION_LOW, ACTIVATION_HIGH = 0.1, 1.8

# What is gone before the model is created: 0.70 GiB on an H20 of eight, 1.86 on a B300
BEFORE_LOADING = _gib(0.35, 0.6, 1.9)
