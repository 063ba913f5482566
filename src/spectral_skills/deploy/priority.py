"""Loops that must not be late."""

import gc
import os


def come_first(priority: int) -> bool:
    """Come before other programs from now on; False where that is not allowed."""
    # What is here stays, and such a loop makes no cycles: nothing to pause for.
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except (OSError, AttributeError):
        return False
    return True
