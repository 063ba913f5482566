"""Spectral directions: what their definition says, and that streaming is exact."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from spectral_skills.motion.windows import (
    POSE_SIZE,
    MotionTensors,
    WindowConfig,
    WindowSampler,
)
from spectral_skills.skill.encoder import EncoderConfig
from spectral_skills.skill.model import SkillConfig, SkillModel
from spectral_skills.skill.predictor import PredictorConfig
from spectral_skills.spectral import directions
from spectral_skills.spectral import response as gram
from spectral_skills.spectral.response import (
    ATTRIBUTES,
    GROUPS,
    NAMES,
    Attributes,
    query,
    response,
    standing,
    upright,
)

WIDTH, CONTEXTS, SEED = 8, 40, 5


@pytest.fixture(scope="module")
def sampler(make_clip):
    clips = [make_clip(frames=n, seed=i).qpos() for i, n in enumerate((60, 45, 80))]
    # The last one stands and moves its joints.
    clips[-1][:, :3] = clips[-1][0, :3]
    clips[-1][:, 3:7] = clips[-1][0, 3:7]
    motions = MotionTensors.of_clips([torch.from_numpy(clip) for clip in clips])
    return WindowSampler(motions, WindowConfig())


@pytest.fixture(scope="module")
def model(sampler):
    torch.manual_seed(1)
    config = SkillConfig(
        encoder=EncoderConfig(width=WIDTH, hidden=(16,)),
        predictor=PredictorConfig(
            embed=16, rank=12, context_hidden=(24,), target_hidden=(32, 24)
        ),
    )
    model = SkillModel(config)
    everything = torch.arange(sampler.total)
    model.fit(sampler.at(*sampler.locate(everything)))
    return model.double().eval().requires_grad_(False)


@pytest.fixture(scope="module")
def windows(sampler):
    """The contexts that `measure` draws, all at once."""
    generator = torch.Generator().manual_seed(SEED)
    numbers = torch.randint(sampler.total, (CONTEXTS,), generator=generator)
    return sampler.at(*sampler.locate(numbers))


@pytest.fixture(scope="module")
def stacked(model, windows):
    """J of every context, (contexts, 418, d)."""
    return response(model, query(model, windows))


@pytest.fixture(scope="module")
def halves(model, sampler):
    return gram.measure(model, sampler, CONTEXTS, SEED, batch=7)


@pytest.fixture(scope="module")
def both(halves):
    return halves[0] + halves[1]


@pytest.fixture(scope="module")
def found(halves):
    return directions.from_responses(halves[0], halves[1], "an encoder", SEED)


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_streamed_equals_stacked(both, stacked):
    """C and mean J are those of all responses held at once."""
    close(both.response_gram, torch.einsum("nmd,nme->de", stacked, stacked) / CONTEXTS)
    close(both.mean_response, stacked.mean(0))
    assert both.contexts == CONTEXTS


def test_streamed_effects_equal_stacked_effects(model, both, windows, stacked):
    """Mean and spread of effects along any vector, over upright contexts."""
    future = windows.future.double()
    rows = Attributes(WindowConfig(), dtype=torch.float64).rows(future) @ stacked
    v = torch.randn(5, WIDTH, dtype=torch.float64)
    for sums, chosen in (
        (both.effects, upright(future)),
        (both.standing, upright(future) & standing(future, WindowConfig())),
    ):
        assert sums.contexts == int(chosen.sum()) > 4
        effects = torch.einsum("nad,kd->nka", rows[chosen], v)
        mean, std = sums.along(v)
        close(mean, effects.mean(0))
        torch.testing.assert_close(
            std, effects.std(0, unbiased=False), atol=1e-8, rtol=0
        )


def test_halves_are_the_first_and_second_half(model, halves, windows, stacked):
    """The halves share no draw and cover all."""
    for half, part in zip(halves, stacked.split(CONTEXTS // 2), strict=True):
        close(half.response_gram, torch.einsum("nmd,nme->de", part, part) / len(part))


@pytest.mark.parametrize("batch", [11, 1000])
def test_batch_size_does_not_matter(model, sampler, both, batch):
    """Any cut into batches gives the same sums."""
    other = sum_of(gram.measure(model, sampler, CONTEXTS, SEED, batch))
    close(other.groups, both.groups)
    close(other.effects.square, both.effects.square)
    close(other.standing.total, both.standing.total)


def sum_of(halves):
    return halves[0] + halves[1]


def _output_rows(group: str) -> list[int]:
    """Numbers of a flat future of 11 poses that belong to a group."""
    return [k * POSE_SIZE + column for k in range(11) for column in GROUPS[group]]


def test_group_grams_sum_to_the_gram(both, stacked):
    """Each row of the response is in one group, so energies add up to the whole."""
    rows = sorted(row for group in GROUPS for row in _output_rows(group))
    assert rows == list(range(418))
    for group, part in zip(GROUPS, both.group_grams, strict=True):
        own = stacked[:, _output_rows(group)]
        close(part, torch.einsum("nmd,nme->de", own, own) / CONTEXTS)


def test_eigenvectors_are_right_singular_vectors(both, stacked):
    """Of the responses stacked below each other and divided by sqrt(N)."""
    lam, vectors = directions.eigenpairs(both.response_gram)
    _, singular, rows = torch.linalg.svd(
        stacked.flatten(0, 1) / CONTEXTS**0.5, full_matrices=False
    )
    torch.testing.assert_close(lam.sqrt(), singular, rtol=1e-7, atol=0)
    cosine = (vectors * rows).sum(1).abs()
    torch.testing.assert_close(cosine, torch.ones_like(cosine), rtol=0, atol=1e-6)


def test_directions_are_orthonormal_and_ordered(both):
    """Unit length, right angles, and eigenvalues that descend."""
    lam, vectors = directions.eigenpairs(both.response_gram)
    close(vectors @ vectors.T, torch.eye(WIDTH, dtype=torch.float64))
    assert (lam.diff() <= 0).all() and (lam >= 0).all()
    close(vectors.T @ lam.diag() @ vectors, both.response_gram)


def test_no_other_unit_step_does_more(both, stacked):
    """v_k has the largest mean squared response orthogonal to v_1 .. v_{k-1}."""
    lam, vectors = directions.eigenpairs(both.response_gram)
    probes = torch.randn(500, WIDTH, dtype=torch.float64)
    for k in range(WIDTH):
        v = probes - (probes @ vectors[:k].T) @ vectors[:k]
        v = v / v.norm(dim=1, keepdim=True)
        energy = torch.einsum("nmd,kd->nkm", stacked, v).square().sum(2).mean(0)
        assert energy.max() <= lam[k] * (1 + 1e-9)
        own = (stacked @ vectors[k]).square().sum(1).mean()
        close(own, lam[k])


def test_responses_of_two_directions_are_orthogonal_on_average(both, stacked):
    """Over contexts, not in each one."""
    _, vectors = directions.eigenpairs(both.response_gram)
    moved = torch.einsum("nmd,kd->nmk", stacked, vectors)
    inner = torch.einsum("nmk,nml->kl", moved, moved) / CONTEXTS
    off = inner - inner.diagonal().diag()
    assert off.abs().max() < 1e-9 * inner.max()
    assert (moved.transpose(1, 2) @ moved)[0].triu(1).abs().max() > 1e-3 * inner.max()


def test_a_degenerate_gram_has_no_determined_directions():
    """Two halves of isotropic responses agree on the energy, not on the vectors."""
    torch.manual_seed(0)
    halves = [torch.randn(4000, 16, dtype=torch.float64) for _ in range(2)]
    vectors = [directions.eigenpairs(x.T @ x / len(x))[1] for x in halves]
    assert directions.stability(*vectors).mean() < 0.5
    spread = torch.linspace(4, 1, 16, dtype=torch.float64)
    vectors = [directions.eigenpairs((x * spread).T @ (x * spread))[1] for x in halves]
    assert directions.stability(*vectors).mean() > 0.9


def test_what_is_predicted_of_each_direction(both, found, stacked):
    """Gains, shares and sameness are those of the responses themselves."""
    vectors = torch.from_numpy(found.vectors).double()
    moved = torch.einsum("nmd,kd->nkm", stacked, vectors)
    energy = moved.square().sum(2).mean(0)
    torch.testing.assert_close(
        torch.from_numpy(found.gains).double(), energy.sqrt(), rtol=1e-5, atol=0
    )
    alike = moved.mean(0).norm(dim=1) / energy.sqrt()
    np.testing.assert_allclose(found.sameness, alike.numpy(), rtol=1e-4)
    np.testing.assert_allclose(found.group_shares.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=1), 1, rtol=1e-6)
    assert (found.sameness <= 1 + 1e-6).all()


def test_families_and_names(found):
    """All eigenvectors, the targets, and of limbs those that deserve the name."""
    assert len(found.family("spectral")) == WIDTH
    assert len(found.family("target")) == 7
    for k in found.family("part"):
        assert found.names[k].startswith(f"{found.single_limb[k]}_")
    assert found.names[0].startswith("s01 ")
    assert found.names[found.index("turn")] == "turn"
    assert found.index("right_arm") in found.family("target")
    assert found.encoder == "an encoder" and found.contexts == CONTEXTS
    assert not found.hand_standing and found.hand_contexts == CONTEXTS
    assert found.eigenvalue_ratios.shape == (WIDTH - 1,)


def test_signs_follow_the_strongest_effect(found):
    """The largest mean effect in scales goes the way its action says."""
    scale = np.array([a.scale for a in ATTRIBUTES])
    for k in (*found.family("spectral"), *found.family("part")):
        best = np.abs(found.effect_mean[k] / scale).argmax()
        assert np.sign(found.effect_mean[k, best]) == ATTRIBUTES[best].sense
        consistent = abs(found.effect_mean[k, best]) > found.effect_std[k, best]
        assert (ATTRIBUTES[best].action in found.names[k]) == consistent
    assert found.attributes == NAMES


def test_without_upright_contexts_there_is_nothing_to_go_by(halves):
    """Targets would be solved for nothing, and have vectors of zeros."""
    none = gram.Effects.of(torch.zeros(0, len(NAMES), WIDTH))
    first, second = (replace(half, effects=none) for half in halves)
    with pytest.raises(ValueError, match="upright in none of 40 contexts"):
        directions.from_responses(first, second, "an encoder", SEED)
