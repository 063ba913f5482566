"""Loops that must not be late."""

import gc
import os


def come_first(priority: int, thread: int = 0) -> bool:
    """Come before other programs from now on; False where that is not allowed.

    `thread`: another than the one that calls, by its native number.
    """
    # What is here stays, and such a loop makes no cycles: nothing to pause for.
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(priority))
    except (OSError, AttributeError):
        return False
    return True
