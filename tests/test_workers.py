"""Processes that share work."""

import os
import signal
import subprocess
import sys
import time

import pytest


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


@pytest.mark.parametrize("moment", ["starting", "working"])
def test_an_interrupt_is_quiet_and_quick(moment):
    """Ctrl-C reaches all processes of a terminal; workers printed tracebacks once."""
    code = (
        "import signal\n"
        "from spectral_skills.workers import in_order\n"
        # Programs that a shell began in the background ignore interrupts.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "print('starting', flush=True)\n"
        "jobs = [\"print('working', flush=True)\", \"__import__('time').sleep(60)\"]\n"
        "try:\n    list(in_order(eval, jobs * 9, 2))\n"
        "except KeyboardInterrupt:\n    print('stopped')"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert run.stdout is not None
    while run.stdout.readline().strip() != moment:
        pass
    time.sleep(0.1)
    os.killpg(run.pid, signal.SIGINT)
    said, errors = run.communicate(timeout=30)
    assert said.endswith("stopped\n") and errors == ""
