"""Commands: the reference ahead as a robot sees it, whatever the encoder sees."""

import pytest
import torch

from spectral_skills.motion.windows import WindowConfig, reference_poses
from spectral_skills.skill.encoder import EncoderConfig, SkillEncoder
from spectral_skills.tracking.references import CommandConfig, CommandSource, References

CLIPS, FRAMES = torch.tensor([0, 1, 1]), torch.tensor([12, 8, 20])
COMMAND = CommandConfig(width=4)


@pytest.fixture(scope="module")
def motions(make_clip, make_corpus, tmp_path_factory):
    clips = [make_clip(f"walk{i}", 40 + 10 * i, seed=i) for i in range(2)]
    return make_corpus(tmp_path_factory.mktemp("commands") / "walks", clips).to("cpu")


@pytest.fixture(scope="module")
def references(motions) -> References:
    return References.build(motions)


def encoder_of(**changes) -> SkillEncoder:
    torch.manual_seed(0)
    sees = changes.pop("sees", "chunk")
    config = EncoderConfig(width=4, hidden=(16,), sees=sees)
    return SkillEncoder(config, WindowConfig(**changes)).eval()


@pytest.mark.parametrize("sees", ["chunk", "velocity", "full"])
@pytest.mark.parametrize("anchor", ["heading", "pose", "reference"])
def test_a_robot_on_its_reference_sees_pretraining_windows(
    motions, references, sees, anchor
):
    """Also an encoder that sees the context, whose first row is not frame t."""
    encoder = encoder_of(sees=sees, anchor=anchor)
    commands = CommandSource(references, COMMAND, encoder)
    rows = references.at(CLIPS, FRAMES).rows
    found = commands(CLIPS, FRAMES, rows[:, :3], rows[:, 3:7])
    poses = reference_poses(motions, CLIPS, FRAMES, encoder.steps, anchor)
    torch.testing.assert_close(found, encoder.encode(poses), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("sees", ["chunk", "full"])
def test_only_the_anchor_of_the_reference_ignores_the_robot(references, sees):
    """A robot 0.3 m off its reference."""
    rows = references.at(CLIPS, FRAMES).rows
    for anchor in ("heading", "pose", "reference"):
        commands = CommandSource(
            references, COMMAND, encoder_of(sees=sees, anchor=anchor)
        )
        on, off = (
            commands(CLIPS, FRAMES, rows[:, :3] + away, rows[:, 3:7])
            for away in (0.0, 0.3)
        )
        assert torch.equal(on, off) == (anchor == "reference")


def test_half_precision_is_the_same_but_for_rounding(references):
    encoder = encoder_of()
    rows = references.at(CLIPS, FRAMES).rows
    whole, half = (
        CommandSource(references, COMMAND, encoder, half=half)(
            CLIPS, FRAMES, rows[:, :3], rows[:, 3:7]
        )
        for half in (False, True)
    )
    assert half.dtype == torch.float32 and not torch.equal(whole, half)
    torch.testing.assert_close(whole, half, atol=0.05, rtol=0.05)


def test_other_kinds_need_no_encoder(references):
    """A pose is frame t + 1, a window begins at t: row 1 of the one is the other."""
    rows = references.at(CLIPS, FRAMES).rows
    root = rows[:, :3], rows[:, 3:7]
    pose, window = (
        CommandSource(references, CommandConfig(kind=kind, poses=3), None)
        for kind in ("pose", "joint")
    )
    found = window(CLIPS, FRAMES, *root).view(3, 3, 38)
    assert torch.equal(pose(CLIPS, FRAMES, *root), found[:, 1])
    # On its reference a robot stands over the origin of frame t.
    torch.testing.assert_close(found[:, 0, 29:31], torch.zeros(3, 2))
    with pytest.raises(ValueError, match="encoder"):
        CommandSource(references, CommandConfig(), None)
