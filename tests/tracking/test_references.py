"""References hold what forward kinematics and differences of one clip give."""

import pytest
import torch

from spectral_skills import rotation
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.kinematics import LinkPoses, link_velocities, smooth
from spectral_skills.motion.windows import MotionTensors
from spectral_skills.tracking.references import References


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, make_clip, make_corpus):
    clips = [make_clip("one", 60, 1), make_clip("two", 31, 2), make_clip("tiny", 2, 3)]
    return make_corpus(tmp_path_factory.mktemp("references"), clips)


@pytest.fixture(scope="module")
def references(corpus):
    return References.build(MotionTensors.load(corpus.with_mirror(), "cpu"))


def test_velocities_are_those_of_the_clip_alone(corpus, references):
    """Clip borders do not leak into velocities, mirror images included."""
    both = corpus.with_mirror()
    for clip in range(len(both)):
        rows = torch.tensor(both.qpos(clip))
        pelvis = LinkPoses(rows[:, None, :3], rows[:, None, 3:7])
        linear = link_velocities(pelvis, FPS).linear[:, 0]
        joints = smooth(torch.gradient(rows[:, 7:], spacing=1 / FPS, dim=0)[0][:, None])
        frames = torch.arange(len(rows))
        found = references.at(torch.full_like(frames, clip), frames)
        torch.testing.assert_close(found.rows, rows)
        torch.testing.assert_close(found.qvel[:, :3], linear, atol=2e-4, rtol=1e-4)
        torch.testing.assert_close(
            found.qvel[:, 6:], joints[:, 0], atol=2e-4, rtol=1e-4
        )


def test_angular_velocity_is_counted_in_the_pelvis():
    """A pelvis lying on its side that turns about the vertical."""
    frames, rate = 40, 0.8
    turn = rotation.from_yaw(rate * torch.arange(frames) / FPS)
    side = torch.tensor([2**-0.5, 2**-0.5, 0.0, 0.0]).expand(frames, 4)
    rows = torch.zeros(frames, 36)
    rows[:, 3:7] = rotation.multiply(turn, side)
    one = torch.tensor([0])
    motions = MotionTensors(rows, one, one + frames, one.bool(), False)
    spin = References.build(motions).at(one, one + 20).qvel[0, 3:6]
    torch.testing.assert_close(spin, torch.tensor([0.0, rate, 0.0]), atol=1e-4, rtol=0)


def test_frames_stay_inside_their_clip(references):
    clips = torch.tensor([1, 1])
    ends = references.at(clips, torch.tensor([-5, 99]))
    exact = references.at(clips, torch.tensor([0, 30]))
    assert torch.equal(ends.rows, exact.rows)
    rows = references.rows_at(clips[:1], torch.tensor([[-1, 0, 30, 31]]))[0]
    assert torch.equal(rows[0], rows[1]) and torch.equal(rows[2], rows[3])


def test_no_usable_clip_is_refused(tmp_path, make_clip, make_corpus):
    corpus = make_corpus(tmp_path / "c", [make_clip("one", 2, 1)])
    motions = MotionTensors.load(corpus, "cpu")
    short = MotionTensors(
        motions.rows[:1], motions.starts, motions.lengths - 1, motions.mirrored, False
    )
    with pytest.raises(ValueError, match="two frames"):
        References.build(short)
