"""The encoder: what it sees, what it divides by, and what names it."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from spectral_skills import rotation
from spectral_skills.artifact import Provenance
from spectral_skills.motion.windows import (
    MotionTensors,
    WindowConfig,
    WindowSampler,
    anchor_poses,
)
from spectral_skills.skill.encoder import EncoderConfig, SkillEncoder, moments
from spectral_skills.skill.model import SkillConfig, SkillModel
from spectral_skills.skill.predictor import PredictorConfig

SEES = ["chunk", "velocity", "full"]
TIME = 30


def _model(sees: Any = "chunk", **windows) -> SkillModel:
    torch.manual_seed(0)
    encoder = EncoderConfig(width=6, hidden=(32, 16), sees=sees)
    small = PredictorConfig(embed=8, rank=4, context_hidden=(8,), target_hidden=(8,))
    return SkillModel(SkillConfig(WindowConfig(**windows), encoder, small))


@pytest.fixture(scope="module")
def motions(corpus) -> MotionTensors:
    return corpus.to("cpu")


def _skill(model: SkillModel, motions: MotionTensors, time: int = TIME):
    sampler = WindowSampler(motions, model.config.windows)
    windows = sampler.at(torch.tensor([0]), torch.tensor([time]))
    return model.encoder.encode(model.seen(windows))


@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("sees, first", [("chunk", 0), ("velocity", 0), ("full", -5)])
def test_the_encoder_never_sees_what_follows(motions, sees, first, stride):
    """Frames t to t+H-1, with `full` five before: every other may change."""
    model = _model(sees, stride=stride)
    before = _skill(model, motions)
    seen = {TIME + stride * step for step in range(first, 10)}
    start = int(motions.starts[0])
    for frame in range(TIME - 6 * stride, TIME + 21 * stride):
        rows = motions.rows.clone()
        rows[start + frame, 7:] += 0.5
        same = torch.equal(_skill(model, replace(motions, rows=rows)), before)
        assert same == (frame not in seen), frame
    rows = motions.rows.clone()
    rows[start + TIME + 10 * stride :] = float("nan")
    assert torch.equal(_skill(model, replace(motions, rows=rows)), before)


@pytest.mark.parametrize(
    "sees, inputs", [("chunk", 380), ("velocity", 670), ("full", 570)]
)
def test_sizes_of_what_is_seen(motions, sees, inputs):
    """Ten poses; with the velocities of 29 joints; with five poses before."""
    model = _model(sees)
    encoder = model.encoder
    windows = WindowSampler(motions, model.config.windows).sample(7)
    assert encoder.vector(model.seen(windows)).shape == (7, inputs)
    assert len(encoder.mean) == len(encoder.std) == inputs
    assert encoder.last - encoder.first == (encoder.poses - 1)
    assert encoder.steps.tolist() == list(range(encoder.first, encoder.last + 1))


@pytest.mark.parametrize("stride", [1, 2])
def test_velocities_are_per_second(stride):
    """Joints that turn evenly have their rate, whatever the stride."""
    encoder = _model("velocity", stride=stride).encoder
    poses = torch.zeros(1, 10, 38)
    poses[..., :29] = 0.3 * stride / 50 * torch.arange(10)[:, None]
    velocity = encoder.vector(poses)[0, 380:]
    torch.testing.assert_close(velocity, torch.full((290,), 0.3), atol=1e-5, rtol=0)


def test_inputs_are_normalised_but_never_by_little(motions):
    """Mean zero, deviation one; what hardly moves is divided by the floor."""
    model = _model()
    windows = WindowSampler(motions, model.config.windows).sample(
        4000, torch.Generator().manual_seed(0)
    )
    model.fit(windows)
    encoder, floor = model.encoder, model.config.encoder.input_floor
    assert floor is not None
    raw = windows.chunk.flatten(1)
    values = encoder.normalize(windows.chunk)
    assert values.mean(0).abs().max() < 1e-3
    std = raw.std(0)
    wide = std > floor
    assert 0 < int(wide.sum()) < len(std)
    ones = torch.ones_like(std)
    torch.testing.assert_close(values.std(0)[wide], ones[wide], atol=1e-3, rtol=0)
    assert (encoder.std[~wide] == floor).all()
    # The first pose stands at x = y = 0: there 10 cm are one unit.
    off = windows.chunk.clone()
    off[:, 0, 29] += 0.1
    change = (encoder.normalize(off) - values)[:, 29]
    torch.testing.assert_close(change, torch.ones_like(change), atol=1e-4, rtol=0)
    assert (model.future_std >= model.config.target_floor).all()


def test_moments_of_large_numbers():
    """A small spread far from zero is not lost to rounding."""
    values = torch.randn(5000, 1, generator=torch.Generator().manual_seed(0)) + 1e3
    mean, std = moments(values, 0.01)
    assert float(mean) == pytest.approx(1e3, abs=0.1)
    assert float(std) == pytest.approx(float(values.double().std()), rel=1e-5)


def test_fingerprint_changes_with_everything():
    """Any weight, any statistic, any setting."""
    encoder = _model().encoder
    name = encoder.fingerprint()
    assert name == _model().encoder.fingerprint()
    for key, value in encoder.state_dict().items():
        kept = value.clone()
        value.view(-1)[-1] += 0.1
        assert encoder.fingerprint() != name, key
        value.copy_(kept)
    assert encoder.fingerprint() == name
    other = SkillEncoder(encoder.config, replace(encoder.windows, anchor="pose"))
    other.load_state_dict(encoder.state_dict())
    assert other.fingerprint() != name
    changed = replace(encoder.config, input_floor=0.2)
    other = SkillEncoder(changed, encoder.windows)
    other.load_state_dict(encoder.state_dict())
    assert other.fingerprint() != name


def test_fingerprint_survives_half_precision(motions, tmp_path):
    """The released model has the name of the whole one, and nearly its skills."""
    model = _model()
    windows = WindowSampler(motions, model.config.windows).sample(500)
    model.fit(windows)
    model.release(tmp_path / "small", Provenance("skill"))
    small = SkillModel.load(tmp_path / "small")
    assert small.encoder.fingerprint() == model.encoder.fingerprint()
    assert torch.equal(small.encoder.mean, model.encoder.mean)
    skills = (m.encoder.encode(windows.chunk) for m in (model, small))
    torch.testing.assert_close(*skills, atol=0.05, rtol=0)
    with pytest.raises(ValueError, match="released without its predictor"):
        _ = small.predictor


@pytest.mark.parametrize("sees", SEES)
def test_a_wrong_number_of_poses_is_named(sees):
    """What came and what is needed."""
    encoder = _model(sees).encoder
    for shape in ((3, 9, 38), (3, encoder.poses, 36), (encoder.poses + 1, 38)):
        message = rf"\({shape[-2]}, {shape[-1]}\).* sees \({encoder.poses}, 38\)"
        with pytest.raises(ValueError, match=message):
            encoder.encode(torch.zeros(shape))


def test_any_leading_shape_is_encoded():
    """One window, or a grid of them, give the same skills."""
    encoder = _model().encoder
    poses = torch.randn(4, 3, 10, 38)
    skills = encoder.encode(poses)
    assert skills.shape == (4, 3, 6) and not skills.requires_grad
    torch.testing.assert_close(encoder.encode(poses[2, 1]), skills[2, 1])


@pytest.mark.parametrize("anchor", ["heading", "pose", "reference"])
@pytest.mark.parametrize("sees", SEES)
def test_run_time_and_pretraining_agree(motions, anchor, sees):
    """A robot that is on the reference gets the skill that was trained."""
    if anchor == "reference" and sees == "full":
        pytest.skip("the reference now is not the first pose")
    model = _model(sees, anchor=anchor)
    sampler = WindowSampler(motions, model.config.windows)
    clips, times = sampler.locate(torch.arange(0, sampler.total, 17))
    trained = model.encoder.encode(model.seen(sampler.at(clips, times)))
    rows = motions.gather(clips, times[:, None] + model.encoder.steps)
    robot = motions.gather(clips, times[:, None])[:, 0]
    poses = anchor_poses(rows, robot[:, :3], robot[:, 3:7], anchor)
    torch.testing.assert_close(
        model.encoder.encode(poses), trained, atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("anchor", ["heading", "pose", "reference"])
def test_who_feels_that_the_robot_is_off(motions, anchor):
    """All but the anchor `reference`, which looks at the motion alone."""
    model = _model(anchor=anchor)
    rows = motions.rows[None, TIME : TIME + 10]
    position, quaternion = rows[:, 0, :3], rows[:, 0, 3:7]
    turned = rotation.multiply(rotation.from_yaw(torch.tensor([0.3])), quaternion)
    on, off = (
        model.encoder.encode(anchor_poses(rows, p, q, anchor))
        for p, q in ((position, quaternion), (position + 0.2, turned))
    )
    assert torch.equal(on, off) == (anchor == "reference")
