"""Proposition 1: the response of the predicted future to the skill is exact."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from spectral_skills.motion.windows import MotionTensors, WindowConfig, WindowSampler
from spectral_skills.skill.encoder import EncoderConfig
from spectral_skills.skill.model import SkillConfig, SkillModel
from spectral_skills.skill.predictor import PredictorConfig
from spectral_skills.spectral.response import Query, query, response

WIDTH, LEVELS, COUNT = 6, 8, 3
EXACT = {torch.float64: 1e-9, torch.float32: 1e-4}


def small(**changes) -> SkillConfig:
    """A skill model of the paper's shape and tiny widths."""
    options = {
        "encoder": EncoderConfig(width=WIDTH, hidden=(16,)),
        "predictor": PredictorConfig(
            embed=12, rank=7, context_hidden=(24,), target_hidden=(24, 16)
        ),
    }
    return SkillConfig(**(options | changes))


@pytest.fixture(scope="module")
def sampler(make_clip):
    rows = torch.from_numpy(make_clip(frames=80, seed=3).qpos())
    motions = MotionTensors.of_clips([rows])
    return WindowSampler(motions, WindowConfig())


@pytest.fixture(scope="module", params=[torch.float64, torch.float32], ids=str)
def case(request, sampler):
    """A model with weights of usual size, its windows, and the error allowed."""
    torch.manual_seed(0)
    model = SkillModel(small())
    model.fit(sampler.at(torch.zeros(54, dtype=torch.long), torch.arange(5, 59)))
    model = model.to(request.param).eval().requires_grad_(False)
    windows = sampler.at(
        torch.zeros(COUNT, dtype=torch.long), torch.tensor([7, 20, 44])
    )
    return model, windows, EXACT[request.param]


def skills(seed: int, like: Tensor, size: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(COUNT, WIDTH, generator=generator, dtype=torch.float64)
    return (size * z).to(like)


def noisy_query(model: SkillModel, windows, level: int) -> Query:
    noise = torch.randn(
        COUNT, 418, generator=torch.Generator().manual_seed(level), dtype=torch.float64
    )
    return query(model, windows, level, noise.to(model.future_mean))


def estimate(model: SkillModel, query: Query, skill: Tensor) -> Tensor:
    """The future (n, m) that one denoising step predicts for skills (n, d)."""
    predictor, level = model.predictor, query.level
    D = predictor(query.context, skill, query.noisy, level)  # noqa: N806
    schedule = predictor.schedule
    alpha, sigma = schedule.alpha[level, None], schedule.sigma[level, None]
    return model.future_mean + model.future_std / alpha * (query.noisy - sigma * D)


def error(found: Tensor, expected: Tensor) -> float:
    """Largest difference in units of the largest value."""
    return float((found - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("level", range(LEVELS))
def test_response_is_the_jacobian(case, level):
    """The closed form is what automatic differentiation finds, at any noise level."""
    model, windows, allowed = case
    xi = noisy_query(model, windows, level)
    z = skills(level, xi.noisy)
    jacobian = torch.func.jacrev(lambda z: estimate(model, xi, z).sum(0))(z)
    found = response(model, xi)
    assert found.shape == (COUNT, 418, WIDTH)
    assert error(found, jacobian.transpose(0, 1)) < allowed


@pytest.mark.parametrize("level", [0, LEVELS - 1])
def test_response_is_the_finite_difference(case, level):
    """No Taylor remainder: steps of any size give the same quotient."""
    model, windows, allowed = case
    xi = noisy_query(model, windows, level)
    z, found = skills(1, xi.noisy), response(model, xi)
    for k in range(WIDTH):
        for step in (0.5, 8.0):
            move = torch.zeros_like(z)
            move[:, k] = step
            change = estimate(model, xi, z + move) - estimate(model, xi, z - move)
            assert error(change / (2 * step), found[:, :, k]) < allowed


@settings(max_examples=20)
@given(seed=st.integers(0, 2**31), size=st.floats(0.01, 30), level=st.integers(0, 7))
def test_response_does_not_depend_on_the_skill(case, seed, size, level):
    """Whatever the base skill, the same step changes the prediction by J dz."""
    model, windows, allowed = case
    xi = noisy_query(model, windows, level)
    base, step = skills(seed, xi.noisy, size), skills(seed + 1, xi.noisy)
    before, after = estimate(model, xi, base), estimate(model, xi, base + step)
    predicted = torch.einsum("nmd,nd->nm", response(model, xi), step)
    assert float((after - before - predicted).abs().max()) < allowed * float(
        predicted.abs().max() + after.abs().max()
    )


@settings(max_examples=20)
@given(seed=st.integers(0, 2**31), weight=st.floats(-2, 3))
def test_noise_is_affine_in_the_skill(case, seed, weight):
    """D of a point on the line through two skills is the point between their Ds."""
    model, windows, allowed = case
    xi = query(model, windows)
    a, b = skills(seed, xi.noisy), skills(seed + 1, xi.noisy)

    def noise(z: Tensor) -> Tensor:
        return model.predictor(xi.context, z, xi.noisy, xi.level)

    mixed = noise(weight * a + (1 - weight) * b)
    assert error(weight * noise(a) + (1 - weight) * noise(b), mixed) < 10 * allowed


def test_effects_add(case):
    """Several steps together change the prediction by the sum of their changes."""
    model, windows, allowed = case
    xi = query(model, windows)
    base = skills(0, xi.noisy)
    steps = [skills(seed, xi.noisy) for seed in (1, 2, 3)]
    start = estimate(model, xi, base)
    together = estimate(model, xi, base + sum(steps)) - start
    alone = torch.stack([estimate(model, xi, base + step) - start for step in steps])
    assert error(alone.sum(0), together) < 10 * allowed


def test_the_query_of_recorded_windows_has_no_noise(case):
    """y = alpha_tau times the normalised future, at the lowest level by default."""
    model, windows, _ = case
    xi = query(model, windows)
    future = model.normalize_future(windows.future.to(model.future_mean))
    torch.testing.assert_close(xi.noisy, model.predictor.schedule.alpha[0] * future)
    assert (xi.level == 0).all()


def test_a_perfect_noise_estimate_gives_back_the_future(case):
    """Yhat inverts the noising: with D = 0 and no noise it is the future itself."""
    model, windows, _ = case
    xi = query(model, windows)
    recorded = windows.future.flatten(1).to(model.future_mean)
    last = model.predictor.target_net[-1]
    kept = {k: v.clone() for k, v in last.state_dict().items()}
    try:
        for value in last.state_dict().values():
            value.zero_()
        found = estimate(model, xi, skills(0, xi.noisy))
    finally:
        last.load_state_dict(kept)
    torch.testing.assert_close(found, recorded, atol=1e-5, rtol=1e-5)


def test_models_without_a_response_say_so(case):
    """Another kind of predictor, another target, a released model."""
    windows = case[1]
    concat = PredictorConfig(
        "concat", 12, 7, (8,), target_hidden=(8,), concat_hidden=(8,)
    )
    for changes, reason in (
        ({"predictor": concat}, "not affine"),
        ({"target": "endpoint"}, "38 of the 418"),
        ({"target": "reconstruction"}, "no noise predictor"),
        ({"released": True}, "without its predictor"),
    ):
        with pytest.raises(ValueError, match=reason):
            query(SkillModel(small(**changes)), windows)
