"""What is planned of a clip: parts in which what looks alike goes on alike."""

import numpy as np
import pytest
import torch

from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.planner.data import CHUNK
from spectral_skills.planner.sections import ClipSection, _distances, _longest, section
from spectral_skills.robot import g1

ARMS = [
    7 + g1.joint_index(f"{side}_{joint}")
    for side in ("left", "right")
    for joint in ("shoulder_pitch", "wrist_roll", "wrist_pitch", "wrist_yaw")
]
UP, MOVE, PERIOD = -1.5, 80, 40
"""How far arms are raised, in how many frames; frames of a stride."""
WHOLE = 10_000


def still(frames: int) -> np.ndarray:
    return np.tile(g1.DEFAULT_QPOS, (frames, 1)).astype(np.float32)


def armed(*held: tuple[float, int]) -> np.ndarray:
    """Arms held at shares of their height for so many frames, and moved between."""
    angles: list[float] = []
    for share, frames in held:
        if angles:
            way = 0.5 - 0.5 * np.cos(np.pi * np.arange(1, MOVE + 1) / (MOVE + 1))
            angles += (angles[-1] + (share * UP - angles[-1]) * way).tolist()
        angles += [share * UP] * frames
    rows = still(len(angles))
    rows[:, ARMS] += np.array(angles, np.float32)[:, None]
    return rows


def gait(frames: int) -> np.ndarray:
    """Every joint swings, each with its own phase, all with one period."""
    rows = still(frames)
    phase = 2 * np.pi * (np.arange(frames)[:, None] / PERIOD + np.arange(29) / 29)
    rows[:, 7:] += (0.3 * np.sin(phase)).astype(np.float32)
    rows[:, 0] += np.arange(frames, dtype=np.float32) / FPS
    return rows


STAND_RAISE = armed((0, 60), (1, 80))
HOLD_LOWER = armed((1, 60), (0, 80))
TWO_RAISES = armed((0, 30), (1, 40), (0, 50), (1, 40))


def in_conflict(rows: np.ndarray, found: ClipSection) -> list[tuple[int, int]]:
    """Pairs of frames of a part that look alike and go on differently.

    Frames whose chunk leaves the part are not asked how they go on.
    """
    links = Kinematics(("pelvis", *g1.END_EFFECTORS))(torch.from_numpy(rows))
    heights = links.position[..., 2].numpy()
    speed = np.gradient(rows[:, 7:], axis=0) * FPS
    last, pairs = found.end - CHUNK, []

    def rms(values: np.ndarray) -> float:
        return float(np.sqrt(np.square(values).mean()))

    for i in range(found.first, last):
        for j in range(i + 1, last):
            # Only joints move in these clips: 3 of 32 numbers never differ.
            near = rms(rows[i, 7:] - rows[j, 7:]) * (29 / 32) ** 0.5 < 0.1
            if not near or rms(speed[i] - speed[j]) >= 1.0:
                continue
            later = (heights[i + k] - heights[j + k] for k in (10, 20, 30))
            apart = max(np.abs(change).max() for change in later) > 0.125
            pace, other = (rms(speed[at : at + CHUNK]) for at in (i, j))
            if apart or abs(pace - other) > 0.3:
                pairs.append((i, j))
    return pairs


@pytest.mark.parametrize("rows", [STAND_RAISE, HOLD_LOWER, TWO_RAISES, gait(160)])
def test_what_looks_alike_in_a_part_goes_on_alike(rows):
    found = section(rows, WHOLE)
    assert not in_conflict(rows, found)


@pytest.mark.parametrize("rows", [STAND_RAISE, HOLD_LOWER, TWO_RAISES])
def test_of_clips_in_which_it_does_not_a_part_is_taken(rows):
    """And one in which something happens."""
    whole = ClipSection(0, len(rows), 0, 0.0)
    assert in_conflict(rows, whole)
    found = section(rows, WHOLE)
    assert CHUNK < found.end - found.first < len(rows)
    assert np.ptp(rows[found.first : found.end - CHUNK, ARMS[0]]) > 1.0


@pytest.mark.parametrize(("rows", "held"), [(STAND_RAISE, 1), (HOLD_LOWER, 0)])
def test_arms_stay_where_they_were_moved(rows, held):
    """Of the wait, less than a chunk is left; what goes on is that they are held."""
    found = section(rows, WHOLE)
    assert 60 - CHUNK < found.first < 70 and found.end == len(rows)
    again = rows[found.first + found.loop]
    assert again[ARMS] == pytest.approx(g1.DEFAULT_QPOS[ARMS] + held * UP, abs=1e-4)


def test_a_gait_is_taken_whole_and_goes_on_in_step():
    found = section(gait(230), WHOLE)
    assert (found.first, found.end) == (0, 230)
    assert 0 <= found.loop < 230 - CHUNK
    assert (229 - found.loop) % PERIOD == 0


def test_standing_is_taken_whole():
    found = section(still(120), WHOLE)
    assert (found.first, found.end, found.loop) == (0, 120, 0)


@pytest.mark.parametrize("rows", [STAND_RAISE, HOLD_LOWER, TWO_RAISES, gait(230)])
def test_it_goes_on_from_the_frame_most_like_its_last(rows):
    found = section(rows, WHOLE)
    part = rows[found.first : found.end, 7:].astype(np.float64)
    speed = np.gradient(rows[:, 7:], axis=0)[found.first : found.end] * FPS
    assert found.loop < len(part) - CHUNK, "a chunk follows it"

    def off(frame: int) -> float:
        pose, pace = part[frame] - part[-1], speed[frame] - speed[-1]
        return float(np.hypot(np.linalg.norm(pose) / 0.1, np.linalg.norm(pace)))

    least = min(off(frame) for frame in range(len(part) - CHUNK))
    assert off(found.loop) == pytest.approx(least, abs=1e-3)


def test_still_frames_are_worth_a_fifth():
    assert section(still(100), WHOLE).worth == pytest.approx(20.0)
    assert section(gait(100), WHOLE).worth == pytest.approx(100.0)
    slow = still(100)
    slow[:, 7:] += (np.arange(100)[:, None] * 0.15 / FPS).astype(np.float32)
    assert section(slow, WHOLE).worth == pytest.approx(50.0, rel=3e-3)


@pytest.mark.parametrize("most", [40, 150, 229])
def test_a_part_has_a_longest_length(most):
    found = section(gait(230), most)
    # A stride has 40 frames, and its largest step must not be at its end.
    assert found.first <= 1 and found.end == found.first + most
    assert found.worth == pytest.approx(most, rel=1e-3)


def _two_halves(second: int) -> np.ndarray:
    """Frames of which the first 50 are in conflict with all later ones."""
    early = np.arange(50 + second) < 50
    return early[:, None] != early[None]


def test_a_later_part_must_be_clearly_better():
    """The first one has 80 frames: a chunk of it may lie beyond the conflict."""
    for second, expected in ((85, (0, 80)), (88, (0, 80)), (89, (50, 139))):
        conflicts = _two_halves(second)
        found = _longest(
            conflicts, np.ones(len(conflicts)), WHOLE, np.ones(len(conflicts))
        )
        assert found == expected
    # What counts is what frames are worth.
    conflicts = _two_halves(85)
    worth = np.where(np.arange(135) < 50, 0.2, 1.0)
    assert _longest(conflicts, worth, WHOLE, np.ones(len(worth))) == (50, 135)


def test_frames_are_apart_by_their_difference():
    """Not by products of large numbers, of whose difference rounding is left."""
    rows = np.random.default_rng(0).normal(size=(60, 32)).astype(np.float32)
    rows[1] = rows[0]
    exact = np.sqrt(np.square(rows[:, None].astype(np.float64) - rows).mean(axis=-1))
    np.testing.assert_allclose(_distances(rows), exact, atol=1e-6)


@pytest.mark.parametrize("frames", [2, 20, 30, 31])
def test_short_clips_are_taken_whole(frames):
    found = section(gait(frames), WHOLE)
    assert (found.first, found.end, found.loop) == (0, frames, 0)


def test_a_part_shows_what_its_clip_shows():
    """A kick between long steps, even if it cannot be foreseen."""
    hip = 7 + g1.joint_index("right_hip_pitch")
    steps, wait = gait(200), still(60)
    kick = still(40)
    kick[:, hip] -= (1.5 * np.sin(np.linspace(0, np.pi, 40))).astype(np.float32)
    clip = np.concatenate((steps, wait, kick, wait, steps))
    found = section(clip, WHOLE)
    part = clip[found.first : found.end, hip]
    assert part.min() < -1.6 and part.argmin() < len(part) - 10
    without = np.concatenate((steps, wait, wait, steps))
    assert section(without, WHOLE).worth > 150
