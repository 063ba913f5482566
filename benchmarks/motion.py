"""Speed of the motion library, against what the machine allows."""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from report import main

from spectral_skills.motion.corpus import COLUMNS, FPS, FRAMES, Corpus
from spectral_skills.motion.corpus_writer import write_header, write_index
from spectral_skills.motion.kinematics import (
    Kinematics,
    joint_velocities,
    link_velocities,
)
from spectral_skills.motion.synthetic.generate import SynthConfig, synthesise
from spectral_skills.motion.windows import MotionTensors, WindowConfig, WindowSampler
from spectral_skills.results import Result
from spectral_skills.robot import g1

_CLIP_FRAMES = 2000


def _seconds(work: Callable[[], object], device: str, repeat: int = 7) -> float:
    """Best time of several runs: other programs only ever make it longer."""
    cuda = torch.device(device).type == "cuda"
    times = []
    for _ in range(repeat + 2):
        if cuda:
            torch.cuda.synchronize(device)
        start = time.perf_counter()
        work()
        if cuda:
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    return min(times[2:])


def _copy_bytes_s(device: str) -> float:
    """Bytes a second that a plain copy reads and writes on the device."""
    source = torch.ones(64 << 20, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * source.numel() / _seconds(lambda: target.copy_(source), device)


def _random_rows(frames: int, device: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn((frames, g1.QPOS_SIZE), generator=generator)
    rows[:, 3:7] /= rows[:, 3:7].norm(dim=1, keepdim=True)
    return rows.to(device)


def kinematics(device: str) -> list[Result]:
    """Frames a second of forward kinematics and of the velocities."""
    cpu = device == "cpu"
    frames = (50 if cpu else 1000) * _CLIP_FRAMES
    rows = _random_rows(frames, device)
    limit = _copy_bytes_s(device)

    def result(row: str, seconds: float, count: int, goal: str = "") -> Result:
        return Result(
            "Forward kinematics",
            row,
            "speed",
            count / seconds,
            "frames/s",
            n=count,
            paper=goal,
        )

    results = []
    for name, links in (("30 links", g1.LINKS), ("14 links", g1.TRACKED_LINKS)):
        forward = Kinematics(links, device)
        seconds = _seconds(lambda f=forward: f(rows), device)
        goal = "at least 100,000" if cpu and links == g1.LINKS else ""
        results.append(result(f"poses of {name}", seconds, frames, goal))
        # Reading 36 floats and writing 7 a link is all that memory must do.
        bound = limit / (4 * (g1.QPOS_SIZE + 7 * len(links)))
        results.append(result(f"poses of {name}, memory bound", 1 / bound, 1))

    forward = Kinematics(g1.TRACKED_LINKS, device)

    # A CPU works best on what fits its cache, one clip; a GPU on many at once.
    clips = rows.view(-1, _CLIP_FRAMES, g1.QPOS_SIZE).split(1 if cpu else 100)

    def everything() -> None:
        for batch in clips:
            link_velocities(forward(batch), FPS)
            joint_velocities(batch[..., 7:], FPS)

    seconds = _seconds(everything, device, repeat=3)
    goal = "at least 100,000" if cpu else ""
    results.append(result("14 links and all velocities", seconds, frames, goal))
    if cpu:
        seconds = _seconds(_mujoco_kinematics(rows[:2000]), device)
        results.append(result("MuJoCo C, one thread, 30 links", seconds, 2000))
    return results


def _mujoco_kinematics(rows: torch.Tensor) -> Callable[[], None]:
    import mujoco

    from spectral_skills.robot.model import build_model

    model = build_model(meshes=False, floor=False)
    data, poses = mujoco.MjData(model), rows.double().numpy()

    def run() -> None:
        for pose in poses:
            data.qpos[:] = pose
            mujoco.mj_kinematics(model, data)

    return run


def random_motions(device: str) -> MotionTensors:
    """Two hundred clips of random numbers."""
    rows = _random_rows(200 * _CLIP_FRAMES, device)
    return MotionTensors.of_clips(rows.split(_CLIP_FRAMES))


def windows(device: str) -> list[Result]:
    """Windows a second that a sampler cuts, anchors and hands over."""
    count = 8192 if device == "cpu" else 1 << 18
    config = WindowConfig()
    sampler = WindowSampler(random_motions(device), config)
    seconds = _seconds(lambda: sampler.sample(count), device)
    poses = config.context + config.chunk + config.future - 1
    bound = _copy_bytes_s(device) / (4 * poses * (36 + 38))
    goal = "millions" if device != "cpu" else ""
    rows = (("sampled", count / seconds, goal), ("memory bound", bound, ""))
    results = [
        Result("Windows", row, "speed", value, "windows/s", n=count, paper=goal)
        for row, value, goal in rows
    ]
    return results


def write_large_index(folder: Path, clips: int, frames: int) -> None:
    """A corpus of any size without motions: its frames file is a hole."""
    generation = folder / f"{0:032x}"
    generation.mkdir(parents=True)
    lengths = np.diff(np.linspace(0, frames, clips + 1).astype(np.int64)).tolist()
    index = [
        {"length": length} | {column: f"{column} {i:06d}" for column in COLUMNS}
        for i, length in enumerate(lengths)
    ]
    write_index(generation, index)
    with (generation / FRAMES).open("wb") as file:
        file.truncate(frames * 4 * g1.QPOS_SIZE)
    write_header(folder, generation.name, index)


def corpus(device: str, clips: int = 130_000, frames: int = 47_000_000) -> list[Result]:
    """Time to open a corpus of the size of BONES-SEED."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_large_index(folder, clips, frames)
        times = []
        for _ in range(10):
            start = time.perf_counter()
            opened = Corpus.open(folder)
            opened.entry(clips // 2)
            times.append(time.perf_counter() - start)
    result = Result(
        "Corpus",
        f"open {clips:,} clips, {frames:,} frames, read one entry",
        "time",
        1e3 * float(np.median(times)),
        "ms",
        n=len(times),
        paper="under 50",
    )
    return [result]


def synth(device: str, clips: int = 512) -> list[Result]:
    """Time to generate the whole embedded corpus, with all cores."""
    config = SynthConfig(clips)
    with tempfile.TemporaryDirectory() as temporary:
        start = time.perf_counter()
        synthesise(Path(temporary), config)
        seconds = time.perf_counter() - start
        made = Corpus.open(Path(temporary))
        frames, hours, name = made.frames, made.hours, made.hash[:8]
    row = f"{config.clips} clips, {hours:.2f} h, {os.cpu_count()} processes"
    about = {"n": frames, "seed": config.seed, "run": name}
    results = [
        Result("Synthesis", row, "time", seconds, "s", paper="under 120", **about),
        Result("Synthesis", row, "speed", frames / seconds, "frames/s", **about),
    ]
    return results


if __name__ == "__main__":
    main(kinematics, windows, corpus, synth)
