"""Processes that share work."""

import os
import subprocess
import sys
import time


def test_workers_end_with_a_parent_that_is_killed():
    """They waited forever once, half a gigabyte each."""
    code = (
        "import os, signal; from spectral_skills.workers import in_order; "
        "ids = in_order(eval, [\"__import__('os').getpid()\"] * 40, 2); "
        "print(next(ids), flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as done:
        assert done.stdout is not None
        worker, patience = int(done.stdout.readline()), time.monotonic() + 20
    while time.monotonic() < patience and os.path.exists(f"/proc/{worker}"):
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{worker}")
