"""The verb that stands in for a robot. It imports what it needs when it runs."""

from pathlib import Path
from typing import Literal

from spectral_skills.cli.shared import check_file


def robot_sim(
    *,
    dds: str = "lo",
    domain: int = 0,
    operator: Literal["auto", "none"] = "auto",
    seconds: float | None = None,
    stop_after: float | None = None,
    noise: float = 1.0,
    seed: int = 0,
    out: Path | None = None,
) -> None:
    """Simulate a G1 that speaks the real one's protocol, for `spectral drive --dds`.

    Physics and sensors run in real time at 200 Hz; the robot hangs in a gantry until
    its operator starts the program that drives it. The last line is a summary as JSON.

    Args:
        dds: Network interface; lo is for programs on this machine.
        domain: DDS domain; 0 is the real robot's.
        operator: auto presses start once the driver has reached the default pose,
            lowers the gantry and lets go, holding the dead man's key all the time; none
            does nothing.
        seconds: When to end; by default when interrupted.
        stop_after: Seconds after the start when the operator presses stop.
        noise: Of the sensors, in units of what is usual.
        seed: Of the noise.
        out: File (.npz) for the record: time_s, qpos, kind of command, keys.
    """
    import json
    from dataclasses import asdict

    from spectral_skills.runtime.dds import RobotLink
    from spectral_skills.runtime.priority import come_first
    from spectral_skills.runtime.robot_sim import RobotSim, run

    if out is not None:
        check_file(out, ".npz")
    link = RobotLink(dds, domain)
    sim = RobotSim(
        link,
        noise=noise,
        operator=operator,
        stop_after_s=stop_after,
        record=out is not None,
        seed=seed,
    )
    command = f"spectral drive --dds {dds}" + (f" --domain {domain}" if domain else "")
    print(f"a G1 hangs in its gantry; drive it with `{command}`", flush=True)
    come_first(60)  # a robot does not wait for programs
    run(sim, seconds)
    if out is not None and sim.moments:
        _write(out, sim.arrays())
    print(json.dumps(asdict(sim.tally)))


def _write(out: Path, arrays: dict) -> None:
    import io

    import numpy as np

    from spectral_skills.atomic import write_file

    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    write_file(out, file.getvalue())
