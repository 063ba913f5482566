"""Work on many items in several processes, results in order."""

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def in_order(
    job: Callable[[Item], Answer], items: Iterable[Item], workers: int | None
) -> Iterator[Answer]:
    """`map` by several processes, all cores by default, each with one thread."""
    workers = workers or os.cpu_count() or 1
    if workers < 1:
        raise ValueError(f"--workers {workers}: at least 1")
    if workers == 1:
        yield from _alone(job, items)
        return
    # A fork server that has imported torch once starts workers in no time, and
    # unlike plain forking is safe whatever threads the caller runs.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "torch", "mujoco"])
    with ProcessPoolExecutor(workers, context, initializer=one_thread) as pool:
        pending: deque[Future[Answer]] = deque()
        for item in items:
            pending.append(pool.submit(job, item))
            if len(pending) >= 8 * workers:  # no more of it in memory
                yield _result(pending.popleft())
        while pending:
            yield _result(pending.popleft())


def _alone(job: Callable[[Item], Answer], items: Iterable[Item]) -> Iterator[Answer]:
    """In this process, as a worker would: many small products gain no threads."""
    import torch

    threads = torch.get_num_threads()
    for item in items:
        torch.set_num_threads(1)
        try:
            answer = job(item)
        finally:
            torch.set_num_threads(threads)
        yield answer


def one_thread() -> None:
    """Let torch use one thread: the other cores have processes of their own."""
    import torch

    torch.set_num_threads(1)


def _result(future: Future[Answer]) -> Answer:
    try:
        return future.result()
    except BrokenProcessPool:
        raise ValueError(
            "a working process was killed, perhaps for want of memory; the same "
            "command goes on from here, and --workers 1 needs the least"
        ) from None
