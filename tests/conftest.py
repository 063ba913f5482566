"""What several tests share: plausible random motions and corpora made of them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings

from spectral_skills.motion.clip import Clip
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.corpus_writer import CorpusWriter
from spectral_skills.motion.windows import WindowConfig
from spectral_skills.robot import g1, render, software
from spectral_skills.skill.encoder import EncoderConfig, SkillEncoder
from spectral_skills.tracking.policy import Controller, ControllerConfig
from spectral_skills.tracking.references import CommandConfig

SKILL_WIDTH = 5
"""Of the small encoder."""
# Graphs compiled before are kept with no word of the processor they were made for, and
# give nonsense on one with narrower vectors.
os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "0")
settings.register_profile("tests", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("tests")


def _smooth_motion(frames: int, seed: int, fps: float) -> np.ndarray:
    """(T, 36) rows: swaying joints, a root that walks along a curve."""
    random = np.random.default_rng(seed)
    t = np.arange(frames)[:, None] / fps
    wave = np.sin(
        2 * np.pi * random.uniform(0.2, 1.5, 29) * t + random.uniform(0, 6, 29)
    )
    joints = g1.DEFAULT_JOINTS + random.uniform(0.05, 0.3, 29) * wave
    joints = joints.clip(*g1.SOFT_LIMITS.T)
    yaw = random.uniform(-3, 3) + random.uniform(-1, 1) * t[:, 0]
    roll, pitch = 0.1 * np.sin(3 * t[:, 0]), 0.1 * np.cos(2 * t[:, 0])
    ahead = np.stack((np.cos(yaw), np.sin(yaw)), axis=1)
    walk = np.cumsum(random.uniform(0.2, 1.2) / fps * ahead, axis=0)
    height = g1.DEFAULT_HEIGHT + 0.02 * np.sin(5 * t)
    position = np.concatenate((random.uniform(-2, 2, 2) + walk, height), axis=1)
    return np.concatenate((position, _quaternion(roll, pitch, yaw), joints), axis=1)


def _quaternion(roll: np.ndarray, pitch: np.ndarray, yaw: np.ndarray) -> np.ndarray:
    """Yaw, then pitch, then roll, about body axes; wxyz."""
    cr, sr = np.cos(roll / 2), np.sin(roll / 2)
    cp, sp = np.cos(pitch / 2), np.sin(pitch / 2)
    cy, sy = np.cos(yaw / 2), np.sin(yaw / 2)
    return np.stack(
        (
            cr * cp * cy + sr * sp * sy,
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
        ),
        axis=1,
    )


# Tensors are small here, and threads of several workers wait for each other.
torch.set_num_threads(1)

LONGEST = ("test_demo", "test_track_cli", "test_fuzz", "test_walks_over_dds")
"""Files with few tests that take long: begun first, so that no worker ends late."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, all else as it was."""
    items.sort(key=lambda item: item.path.stem not in LONGEST)


@pytest.fixture(scope="session")
def make_clip():
    """Factory of smooth walking clips: `make_clip(name, frames, seed, **fields)`."""

    def make(name="walk", frames=80, seed=0, fps=50.0, **fields) -> Clip:
        rows = _smooth_motion(frames, seed, fps)
        return Clip.from_qpos(rows, name=name, fps=fps, **fields)

    return make


@pytest.fixture(scope="session")
def make_corpus():
    """Factory of corpora: `make_corpus(folder, clips)`, one input per clip."""

    def make(folder: Path, clips: list[Clip]) -> Corpus:
        keys = [f"input {i}" for i in range(len(clips))]
        writer = CorpusWriter(folder, {}, keys)
        for key, clip in zip(keys, clips, strict=True):
            writer.add(key, f"{clip.name}.csv", [clip], [])
        writer.finish()
        return Corpus.open(folder)

    return make


@pytest.fixture(scope="session")
def motions_folder() -> Path:
    """Folder of real motions: SPECTRAL_MOTIONS, or shared/motions beside the repo."""
    beside = Path(__file__).parents[2] / "shared" / "motions"
    folder = Path(os.environ.get("SPECTRAL_MOTIONS", beside))
    if not folder.is_dir():
        pytest.skip(f"no motions at {folder}; set SPECTRAL_MOTIONS to a folder of them")
    return folder


@pytest.fixture(scope="session")
def encoder() -> SkillEncoder:
    """A small one."""
    torch.manual_seed(0)
    return SkillEncoder(
        EncoderConfig(width=SKILL_WIDTH, hidden=(16,)), WindowConfig()
    ).eval()


@pytest.fixture(scope="session")
def make_controller():
    """Small controllers: `make_controller({"history": 1}, hold=5)`."""

    def make(settings: dict | None = None, **command) -> Controller:
        torch.manual_seed(1)
        commands = CommandConfig(**{"width": SKILL_WIDTH, **command})
        config = ControllerConfig(hidden=(8,), command=commands, **(settings or {}))
        return Controller(config).eval()

    return make


@pytest.fixture
def coarse_pictures(monkeypatch):
    """Robots are drawn by our own rasteriser, with hard edges: soonest."""
    monkeypatch.setenv("SPECTRAL_GL", "software")
    monkeypatch.setattr(software, "_SUPERSAMPLE", 1)
    render.backend.cache_clear()
    yield
    render.backend.cache_clear()  # other tests draw as this machine can


@pytest.fixture(scope="session")
def kill_run():
    """Start a verb, kill it soon after its first checkpoint; gives the exit code."""

    def kill(arguments: list[str], out: Path, how: signal.Signals) -> int:
        code = "from spectral_skills.cli.main import main; main()"
        run = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        try:
            until = time.monotonic() + 60
            while not (out / "checkpoint" / "state.json").exists():
                assert run.poll() is None and time.monotonic() < until
                time.sleep(0.01)
            run.send_signal(how)
            return run.wait(60)
        finally:
            run.kill()

    return kill


@pytest.fixture(scope="session")
def bundle_folder() -> Path:
    """The bundle of the released models, made once by whichever worker needs it."""
    from spectral_skills.api import bundle as base_bundle

    return base_bundle()


@pytest.fixture(scope="session")
def bundle(bundle_folder):
    """The same bundle, opened."""
    from spectral_skills.control.bundle import Bundle

    return Bundle.open(bundle_folder)
