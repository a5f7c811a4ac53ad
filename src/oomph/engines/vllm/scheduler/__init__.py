"""vLLM's scheduler (v1/core/sched/scheduler.py) over time, on the blocks of the planned KV cache.

build.py      a plan -> the scheduler's settings; step_time.py: what its steps cost
rules.py      where a prefill of recurrent layers stops, which blocks get a hash
scheduler.py  the scheduler: waiting and running, the token budget, the gate, preemption
loop.py       the engine over time: arrivals, steps, many steps at once; pipeline.py: with several batches in flight
pools.py      the blocks, counted; runs.py: in runs that prompts share; blocks.py: one by one, with their hashes
queue.py      the queue of free blocks; hits.py: what a request finds among them
live.py       a request inside the engine; steady.py: requests that only decode, summed; resting.py: while every block
              is followed
"""
