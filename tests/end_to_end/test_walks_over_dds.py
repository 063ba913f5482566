"""The program that would drive a robot drives a simulated one, over its protocol.

Two commands, three processes, real time, loopback without multicast.
"""

import json
import os
import subprocess
import sys

import pytest

from spectral_skills.api import bundle as base_bundle

pytest.importorskip("cyclonedds", reason="speaks to robots; `pip install cyclonedds`")

TRIES = 3
"""A machine that stands still for 60 ms stops the robot, as it must."""


def spectral(*words: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "spectral_skills.cli", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def attempt(domain: int, out) -> tuple[dict, str]:
    """A drive of five seconds under control, which the operator ends."""
    robot = spectral(
        *("robot-sim", "--domain", str(domain), "--stop-after", "5", "--seconds", "30")
    )
    driver = spectral(
        *("drive", "--dds", "lo", "--domain", str(domain), "--play", "walk"),
        *("--out", str(out)),
    )
    try:
        report, _ = driver.communicate(timeout=60)
        robot.terminate()
        seen, _ = robot.communicate(timeout=30)
    finally:
        for process in (driver, robot):
            process.kill()
    return json.loads(seen.splitlines()[-1]), report


def test_a_robot_walks_and_stops(tmp_path):
    """From the gantry to a walk, to a damped stop when the operator presses stop."""
    base_bundle()  # not while the robot hangs there
    tally, report, number = {}, "", 0
    for number in range(TRIES):
        domain = 100 + (os.getpid() + number) % 100
        tally, report = attempt(domain, tmp_path / str(number))
        if "stopped by the operator" in report and tally["walked_m"] > 0.9:
            break
    else:
        pytest.fail(f"no walk in {TRIES} tries: {tally}\n{report}")
    states = [word for word in ("wait", "control", "stopped") if word in report]
    assert states == ["wait", "control", "stopped"]
    lines = (tmp_path / str(number) / "drive.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["message"]
