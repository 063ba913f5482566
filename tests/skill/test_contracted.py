"""The released predictor: the same function in fewer numbers, exact in the skill."""

from pathlib import Path

import pytest
import torch

from spectral_skills.artifact import PREDICTOR, Provenance
from spectral_skills.motion.windows import MotionTensors, Windows, WindowSampler
from spectral_skills.skill import contracted
from spectral_skills.skill.contracted import contract, response_error
from spectral_skills.skill.encoder import EncoderConfig
from spectral_skills.skill.model import SkillConfig, SkillModel
from spectral_skills.skill.predictor import PredictorConfig
from spectral_skills.spectral.directions import find
from spectral_skills.spectral.response import query, response

RANK, WIDTH = 12, 6
ROUNDED = 0.02
"""Allowed share of the response that is lost by rounding to bf16."""


@pytest.fixture(scope="module")
def sampler(make_clip) -> WindowSampler:
    rows = torch.from_numpy(make_clip(frames=200, seed=3).qpos())
    return WindowSampler(MotionTensors.of_clips([rows]), SkillConfig().windows)


@pytest.fixture(scope="module")
def model(sampler) -> SkillModel:
    """A small skill model whose two halves meet in features of unlike strength."""
    torch.manual_seed(0)
    sizes = PredictorConfig(
        embed=20, rank=RANK, context_hidden=(24,), target_hidden=(32, 40)
    )
    encoder = EncoderConfig(width=WIDTH, hidden=(16,))
    model = SkillModel(SkillConfig(encoder=encoder, predictor=sizes))
    model.fit(sampler.sample(200, torch.Generator().manual_seed(0)))
    model = model.double().eval().requires_grad_(False)
    strength = 10.0 ** -torch.arange(RANK, dtype=torch.float64)
    model.predictor.features.weight *= strength[:, None]  # type: ignore
    model.predictor.features.bias *= strength  # type: ignore
    return model


@pytest.fixture(scope="module")
def windows(sampler, model) -> Windows:
    found = sampler.sample(64, torch.Generator().manual_seed(1))
    return Windows(*(part.to(model.future_mean) for part in vars(found).values()))


def test_with_everything_kept_it_is_the_same_function(model, windows):
    """Of skill and noise too: contraction, features and inputs are changes of basis."""
    queries = model.queries(windows)
    small = contract(model.predictor, *queries, features=RANK, inputs=40)
    assert max(response_error(model.predictor, small, *queries)) < 1e-6
    generator = torch.Generator().manual_seed(2)
    z, y = (
        torch.randn((64, size), generator=generator, dtype=torch.float64)
        for size in (WIDTH, 418)
    )
    level = torch.arange(64) % 8
    ours, theirs = (p(queries[0], z, y, level) for p in (model.predictor, small))
    torch.testing.assert_close(theirs, ours, rtol=1e-5, atol=1e-5)
    parameters = [sum(p.numel() for p in one.parameters()) for one in (small,)]
    assert parameters[0] < sum(p.numel() for p in model.predictor.parameters())


def test_strong_features_are_kept_first(model, windows):
    """Four of twelve features hold nearly all, whose strength falls tenfold each;
    every one that is dropped costs more."""
    queries = model.queries(windows)
    errors = [
        max(response_error(model.predictor, small, *queries))
        for small in (
            contract(model.predictor, *queries, features=count, inputs=40)
            for count in (4, 2, 1)
        )
    ]
    assert errors[0] < 1e-3 < errors[1] < errors[2] < 0.5


@pytest.fixture(scope="module")
def released(model, windows, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("released") / "skill"
    model.release(folder, Provenance("skill"), windows)
    return folder


def test_the_response_of_a_released_model_is_exact(released, windows):
    """Proposition 1: at a fixed query, a step changes the estimate by J times it,
    whatever the skill it starts from."""
    model = SkillModel.load(released).double()
    predictor, size = model.predictor, (len(windows.context), WIDTH)
    generator = torch.Generator().manual_seed(3)
    for level in (0, 7):
        xi = query(model, windows, level)
        alpha, sigma = (
            one[level] for one in (predictor.schedule.alpha, predictor.schedule.sigma)
        )

        def estimate(z, xi=xi, alpha=alpha, sigma=sigma):
            noise = predictor(xi.context, z, xi.noisy, xi.level)
            scaled = model.future_std / alpha * (xi.noisy - sigma * noise)
            return model.future_mean + scaled

        base = 5 * torch.randn(size, generator=generator, dtype=torch.float64)
        step = torch.randn(size, generator=generator, dtype=torch.float64)
        moved = estimate(base + step) - estimate(base)
        promised = torch.einsum("nmd,nd->nm", response(model, xi), step)
        torch.testing.assert_close(moved, promised, rtol=1e-9, atol=1e-12)


def test_directions_of_a_released_model_are_those_of_the_whole(
    model, released, sampler
):
    """Gains to the rounding of bf16, and every direction that is determined."""
    whole, small = model.float(), SkillModel.load(released)
    ours, theirs = (find(one, sampler, contexts=128) for one in (whole, small))
    model.double()
    assert theirs.names[-7:] == ours.names[-7:] and theirs.encoder == ours.encoder
    spectral = ours.family("spectral")
    strong = ours.gains[spectral] > 0.05 * ours.gains[0]
    assert strong.sum() >= 2
    gains = theirs.gains[spectral][strong] / ours.gains[spectral][strong]
    assert abs(gains - 1).max() < ROUNDED
    target = ours.family("target")
    cosine = (ours.vectors[target] * theirs.vectors[-len(target) :]).sum(1)
    assert cosine.min() > 1 - ROUNDED


def test_the_predictor_is_read_only_when_asked_for(released, model, monkeypatch):
    """A robot that executes skills does not wait for it; rounding is all it loses."""
    read = []
    monkeypatch.setattr(contracted, "read", lambda *parts: read.append(parts))
    loaded = SkillModel.load(released)
    assert loaded.encoder.fingerprint() == model.encoder.fingerprint()
    assert not read and loaded.head is None
    assert not any(name.startswith("head") for name in loaded.state_dict())


def test_a_changed_predictor_is_refused(released, tmp_path, model, windows):
    """By its hash, when it is read; the encoder still works without."""
    model.release(tmp_path / "skill", Provenance("skill"), windows)
    path = tmp_path / "skill" / f"{PREDICTOR}.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    loaded = SkillModel.load(tmp_path / "skill")
    with pytest.raises(ValueError, match="predictor are not those of provenance"):
        _ = loaded.predictor
    model.release(tmp_path / "skill", Provenance("skill"))
    with pytest.raises(ValueError, match="released without its predictor"):
        _ = SkillModel.load(tmp_path / "skill").predictor
