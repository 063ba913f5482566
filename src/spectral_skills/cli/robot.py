"""Verbs for a robot, real or simulated: export a bundle, drive it, check the machine.

Each verb imports what it needs when it runs.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from spectral_skills.cli.arguments import check_file, check_folder, check_length
from spectral_skills.models import RELEASED, ModelPaths, Models


def export(
    *,
    models: ModelPaths = RELEASED,
    bases: tuple[str, ...] = (),
    corpus: tuple[Path, ...] = (),
    recorded: Path | None = None,
    motions: Path | None = None,
    smoothing: float | None = None,
    isaaclab: bool = False,
    sonic: bool = False,
    out: Path,
) -> None:
    """Write a bundle: everything that drives a robot or the desk, without torch.

    Models become ONNX graphs. Nothing is written unless every graph agrees with its
    model on what simulated robots observe: to 1e-5, or to that part of the largest
    number if it is above 1.

    Args:
        bases: walk, jog, squat, carry, backward, stand, turn-left, turn-right, or names
            of recorded bases or of clips; all but clips by default. A bundle always has
            stand.
        corpus: Folders of corpora that clips are taken from and distances are measured
            to; by default the embedded one, and what comes with the released models.
        recorded: File of `skills bases`: bases of recorded motions in this skill space.
        motions: File of `skills motions`: what the planner knows and is played instead.
        smoothing: Share of the last action that stays in the next one, 0 to below 1;
            by default that of the controller. Joints move more smoothly and a little
            later (docs/tutorials/robot.md).
        isaaclab: Put the joints of the controller's graph in IsaacLab's order.
        sonic: Write what SONIC's C++ runtime reads instead of a bundle: the policy,
            and bases as references and as tokens.
        out: Folder for the bundle; a bundle that is there is replaced.
    """
    from spectral_skills.control import recorded as streams
    from spectral_skills.control.mixer import REST
    from spectral_skills.motion.corpus import Corpus
    from spectral_skills.runtime import export as bundles
    from spectral_skills.runtime import sonic as runtime

    clips = [Corpus.open(folder) for folder in corpus]
    # What a robot does when nothing else is played.
    names = (*bases, REST) if bases and REST not in bases else bases
    if sonic:
        if isaaclab:
            raise ValueError("--sonic is in IsaacLab's order; give only one")
        loaded = Models.load(models.controller, models.skill, smoothing=smoothing)
        differences = runtime.export(loaded, out, names or bundles.NAMES, clips)
    else:
        bundles.refuse_foreign(out)
        loaded = Models.at(models, smoothing=smoothing)
        order = "isaaclab" if isaaclab else "mujoco"
        given = None
        if recorded is not None:
            given = streams.read(recorded, loaded.skill_encoder.fingerprint())
        differences = bundles.export(
            loaded, out, names or None, clips, order, streams=given, motions=motions
        )
    for path in sorted(out.iterdir()):
        note = ""
        if path.name in differences:
            note = f"  differs from torch by {differences[path.name]:.1e}"
        print(f"{path.name:24}{_size(path):>9}{note}")
    print(f"folder    {out}")


def _size(path: Path) -> str:
    """Return the size of a file, or of all files in a folder."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    size = sum(file.stat().st_size for file in files)
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def drive(
    bundle: Path | None = None,
    /,
    *,
    play: tuple[str, ...] = (),
    each: float = 6.0,
    switch: int = 10,
    direction: tuple[str, ...] = (),
    amplitude: tuple[float, ...] = (),
    say: str | None = None,
    seconds: float | None = None,
    noise: float = 0.0,
    fast: bool = False,
    track: bool = False,
    dds: str | None = None,
    domain: int = 0,
    out: Path | None = None,
    film: bool = True,
    json: bool = False,
) -> int:
    """Drive a robot with a bundle: in MuJoCo here, or over DDS a simulated or real G1.

    A drive begins as on a real robot: it moves to the default pose in 3 s, stands under
    control for 1 s, and then does what is asked for. The exit code is 1 if the robot
    fell or was stopped.

    Args:
        bundle: Folder of `spectral export`; by default the released models.
        play: Bases of the bundle, one after the other; `walk` by default.
        each: Length for which each of several bases is played, s.
        switch: Number of control steps of a cross-fade, 2 to 30.
        direction: Directions to add.
        amplitude: How much of each, in skill units.
        say: What to do, in words; the bundle needs a planner.
        seconds: Length of the drive with its start; by default 20 in simulation, and
            over DDS until the operator stops it. It ends with a damped stop.
        noise: Noise of the simulated sensors; 1 is usual for a G1.
        fast: Do not keep to real time.
        track: Follow each base as a reference instead, and measure how well.
        dds: Network interface of the robot; `lo` reaches `spectral robot-sim`. The
            operator starts by remote (start) and holds its dead-man key (R1).
        domain: DDS domain.
        out: Folder for the record (.npz), the log and the film.
    """
    from spectral_skills.api import bundle as base_bundle
    from spectral_skills.control.bundle import Bundle

    check_folder(out)
    check_length("--seconds", seconds)
    opened = Bundle.open(bundle or base_bundle())
    if track:
        known = (b.name for b in opened.bases.values() if b.has_motion)
        return _track(opened, play or tuple(known), json)
    program = _program(opened, play, each, switch, direction, amplitude, say)
    if dds is not None:
        from spectral_skills.control.safety import Fault
        from spectral_skills.runtime.drive import drive_robot

        runtime, _ = drive_robot(opened, program, dds, domain, seconds, out)
        return int(runtime.fault not in (Fault.OVER, Fault.OPERATOR))
    return _simulate(opened, program, seconds or 20.0, noise, fast, out, film, json)


def _program(
    bundle,
    play: Sequence[str],
    each: float,
    switch: int,
    direction: Sequence[str],
    amplitude: Sequence[float],
    say: str | None,
):
    """Return the program to play, or refuse one that the bundle cannot play."""
    from spectral_skills.control.mixer import Cue, Mixer
    from spectral_skills.control.safety import LIMITS
    from spectral_skills.control.streams import LivePlanner

    if len(direction) != len(amplitude):
        raise ValueError("give one --amplitude for each --direction")
    if say is not None:
        if play:
            raise ValueError("--say or --play, not both")
        cues = _said(bundle, say)
    else:
        names = play or ("walk",)
        seconds = each if len(names) > 1 else None
        cues = [Cue(name, seconds, switch) for name in names]

    def program(mixer: Mixer) -> None:
        mixer.loop = say is None
        mixer.play(*cues)
        for name, position in zip(direction, amplitude, strict=True):
            mixer.move(name, position)

    trial = Mixer(bundle, LivePlanner.of(bundle, inline=True) if say else None)
    trial.stopped_rad = LIMITS.tilt_rad
    program(trial)
    return program


def _said(bundle, text: str) -> list:
    """Return the cues of a text; a sentence that is known as it is needs no torch."""
    from spectral_skills.control.mixer import Cue
    from spectral_skills.control.played import lasts_s

    manifest = bundle.manifest
    if not manifest.sentences:
        raise ValueError(f"{bundle.folder}: a bundle without a planner")
    learned = {sentence: motion for motion, sentence in manifest.sentences}
    plain = " ".join(text.lower().split())
    played = bundle.played_for(plain)
    if played or plain in learned:
        base = bundle.base(played) if played else None
        takes_s = lasts_s(manifest.takes_s.get(learned.get(plain, "")), base)
        return [Cue(played or plain, takes_s, planned=not played)]
    from spectral_skills.planner.listener import Listener
    from spectral_skills.planner.text import MiniLM

    cues, messages = Listener(bundle, MiniLM()).hear(text)
    if not cues:
        raise ValueError("; ".join(messages))
    return cues


def _simulate(
    bundle,
    program,
    seconds: float,
    noise: float,
    fast: bool,
    out: Path | None,
    film: bool,
    json: bool,
) -> int:
    import numpy as np

    from spectral_skills.control.loop import ControlLoop, State
    from spectral_skills.control.simulated import SimulatedRobot
    from spectral_skills.control.streams import LivePlanner
    from spectral_skills.runtime.robot_sim import simulate

    live = LivePlanner.of(bundle, inline=fast)

    def show(event) -> None:
        if not json:
            print(f"{event.time_s:7.2f} s  {event.state:8s}{event.message}")

    loop = ControlLoop(bundle, live, begin=program, log=show)
    journey = simulate(loop, SimulatedRobot(noise), seconds, paced=not fast)
    compute = 1000 * np.array(journey.timing.compute)
    distance = journey.rollout.extra["distance"]
    distance = distance if len(distance) else np.zeros(1)
    summary = {
        "fell_at_s": journey.fell_at_s,
        "stopped": None if loop.fault is None else str(loop.fault),
        "walked_m": round(journey.walked_m, 2),
        "distance_to_corpus": round(float(np.median(distance)), 2),
        "compute_ms": round(float(np.median(compute)), 2),
        "compute_p99_ms": round(float(np.quantile(compute, 0.99)), 2),
    }
    if json:
        import json as text

        print(text.dumps(summary, indent=1))
    else:
        for name, value in summary.items():
            label = re.sub("_(m|m?s)$", r" (\1)", name).replace("_", " ")
            print(f"{label:20s}{'no' if value is None else value}")
    if out is not None:
        _keep(journey.rollout, out, film, silent=json)
    return int(journey.fell_at_s is not None or loop.state is State.STOPPED)


def _keep(record, out: Path, film: bool, silent: bool) -> None:
    from spectral_skills.plots.film import write_film

    out.mkdir(parents=True, exist_ok=True)
    record.save(out / "drive.npz")
    paths = [("record", out / "drive.npz")]
    if film:
        caption = "blue: the base, where the robot is"
        made = write_film(record, out / "drive", most_s=20.0, caption=caption)
        paths += [("film", path) for path in made]
    for what, path in [] if silent else paths:
        print(f"{what:20s}{path}")


def _track(bundle, names: Sequence[str], json: bool) -> int:
    """Follow bases as references, and print how well."""
    import json as text

    from spectral_skills.control.metrics import episodes
    from spectral_skills.control.session import follow

    found = {}
    for name in names:
        done = episodes(follow(bundle, name))
        found[name] = {
            "success": bool(done.success[0]),
            "local_mm": float(done.local_mm[0]),
            "global_mm": float(done.global_mm[0]),
        }
    if json:
        print(text.dumps(found, indent=1))
    else:
        print(f"{'base':14s}{'success':>8s}{'MPJPE-L mm':>12s}{'MPJPE-G mm':>12s}")
        for name, one in found.items():
            done = "yes" if one["success"] else "no"
            print(
                f"{name:14s}{done:>8s}{one['local_mm']:12.1f}{one['global_mm']:12.1f}"
            )
    return int(not all(one["success"] for one in found.values()))


def robot_sim(
    *,
    dds: str = "lo",
    domain: int = 0,
    operator: Literal["auto", "none"] = "auto",
    seconds: float | None = None,
    stop_after: float | None = None,
    noise: float = 1.0,
    seed: int = 0,
    reach: float = 4.0,
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
        noise: Noise of the sensors; 1 is usual for a G1.
        seed: Seed of the noise.
        reach: Commands beyond this reach of a controller are not obeyed; the largest is
            what the motors can do.
        out: File (.npz) for the record: time_s, qpos, kind of command, keys.
    """
    import json
    from dataclasses import asdict

    from spectral_skills.runtime.dds import RobotLink
    from spectral_skills.runtime.guard import raise_priority
    from spectral_skills.runtime.robot_sim import RobotSim, run

    if out is not None:
        check_file(out, ".npz")
    check_length("--seconds", seconds)
    link = RobotLink(dds, domain)
    sim = RobotSim(
        link,
        noise=noise,
        operator=operator,
        stop_after_s=stop_after,
        record=out is not None,
        seed=seed,
        reach=reach,
    )
    command = f"spectral drive --dds {dds}" + (f" --domain {domain}" if domain else "")
    print(f"a G1 hangs in its gantry; drive it with `{command}`", flush=True)
    raise_priority(60)  # a robot does not wait for programs
    run(sim, seconds)
    if out is not None and sim.recorded:
        sim.save(out)
    print(json.dumps(asdict(sim.tally)))


def doctor() -> int:
    """Check the installation: versions, devices, rendering, missing parts."""
    from spectral_skills.doctor import examine

    return examine()
