"""many_elsewhere.py dask|ray [COUNT]: plans on a local cluster of two workers, for who outgrows one machine.

`oomph.plan_many` takes any executor of concurrent.futures. Dask has one (`client.get_executor()`); for Ray the
adapter below is enough. Answers come in the order of the questions, and no more questions are under way than the
workers need. Prints plans per second and this process's memory; not part of CI (pip install distributed, or ray).
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any

import psutil  # type: ignore[import-untyped]

import oomph

WORKERS = 2
MODELS = ("Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "openai/gpt-oss-20b", "meta-llama/Llama-3.1-8B-Instruct")
CARDS = ("RTX 4090", "H100", "L40S", "A100 80GB")
CONTEXTS = (2048, 4096, 8192, 16384)


class RayExecutor(Executor):
    """Ray's tasks as futures. `ray.init()` has been called."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        import ray

        future: Future[Any] = ray.remote(function).remote(*args, **kwargs).future()
        return future


@contextmanager
def dask() -> Iterator[Executor]:
    from distributed import Client

    with Client(n_workers=WORKERS, threads_per_worker=1) as client:
        yield client.get_executor()


@contextmanager
def ray() -> Iterator[Executor]:
    import ray

    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
    try:
        yield RayExecutor()
    finally:
        ray.shutdown()


def questions(count: int) -> Iterator[dict[str, Any]]:
    product = itertools.cycle(itertools.product(MODELS, CARDS, CONTEXTS))
    for number, (model, card, context) in enumerate(itertools.islice(product, count)):
        yield {"id": number, "gpu": card, "args": ["vllm", "serve", model, "--max-model-len", str(context)]}


def main(argv: list[str]) -> int:
    cluster = {"dask": dask, "ray": ray}[argv[0]]
    count = int(argv[1]) if len(argv) > 1 else 1_000_000
    with cluster() as executor:
        begin, process = time.monotonic(), psutil.Process()
        for number, answer in enumerate(oomph.plan_many(questions(count), executor=executor, workers=WORKERS)):
            assert answer["id"] == number and "error" not in answer, answer
            if number % 100_000 == 10_000 or number == count - 1:
                rate, memory = (number + 1) / (time.monotonic() - begin), process.memory_info().rss >> 20
                print(f"{number + 1:,} plans, {rate:,.0f} per second, {memory} MiB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
