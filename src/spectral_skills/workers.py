"""Work on many items in several processes, results in order."""

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_FEW_CLIPS = 32
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def few_or_all(clips: int) -> int | None:
    """Number of workers to measure clips with: starting several takes seconds."""
    return 1 if clips <= _FEW_CLIPS else None


def in_order(
    job: Callable[[Item], Answer], items: Iterable[Item], workers: int | None
) -> Iterator[Answer]:
    """`map` by several processes, all cores by default, each with one thread."""
    workers = (os.cpu_count() or 1) if workers is None else workers
    if workers < 1:
        raise ValueError(f"--workers {workers}: at least 1")
    if workers == 1:
        yield from map(job, items)
        return
    context = multiprocessing.get_context("forkserver")
    with _interrupts_later():
        _start_server(context)
    with ProcessPoolExecutor(workers, context, initializer=_begin) as pool:
        pending: deque[Future[Answer]] = deque()
        try:
            for item in items:
                with _without_script(), _interrupts_later():
                    pending.append(pool.submit(job, item))
                if len(pending) >= 8 * workers:  # no more of it in memory
                    yield _result(pending.popleft())
            while pending:
                yield _result(pending.popleft())
        except BaseException:
            for worker in list((pool._processes or {}).values()):
                worker.terminate()  # nobody wants the rest
            pool.shutdown(cancel_futures=True)
            raise


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Put Ctrl-C off until a process has started; one that starts ignores it forever.

    It is for the caller, who ends the workers: theirs would end in tracebacks.
    """
    resource_tracker.ensure_running()  # it would unblock the signal
    waiting: list[int] = []
    # Only the main thread has handlers, and it runs those of other threads' signals.
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT)
    if main and handler is not None:
        signal.signal(signal.SIGINT, lambda number, _: waiting.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if main and handler is not None:
            signal.signal(signal.SIGINT, handler)
        if waiting:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def _without_script() -> Iterator[None]:
    """Keep workers, which start meanwhile, from running the caller's script again.

    They would import it for the functions in it; ours are all in the package.
    """
    main = vars(sys.modules["__main__"])
    before = {name: main[name] for name in ("__spec__", "__file__") if name in main}
    main.update(dict.fromkeys(before))
    try:
        yield
    finally:
        main.update(before)


def _start_server(context: ForkServerContext) -> None:
    """Start the process that all workers are copies of.

    It has imported torch once, so they start in no time, and unlike plain forking it
    is safe whatever threads the caller runs. Its libraries use one thread: sixteen
    processes with sixteen threads each would be slower than one.
    """
    context.set_forkserver_preload([__name__, "torch", "mujoco"])
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        forkserver.ensure_running()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Sums of floats depend on how many threads share them; one is always the same."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _begin() -> None:
    """What a worker does first."""
    import torch

    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that is killed cannot say so: its workers would wait forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _result(future: Future[Answer]) -> Answer:
    try:
        return future.result()
    except BrokenProcessPool:
        raise ValueError(
            "a worker process was killed, perhaps because memory ran out; the same "
            "command continues from here, and a single worker needs the least"
        ) from None
