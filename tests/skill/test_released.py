"""The skill space that comes with the package: whole, small, and good for something."""

import numpy as np
import pytest
import torch

from spectral_skills.artifact import PRETRAINED
from spectral_skills.control.bundle import SkillSupport
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.motion_sets import kind
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.motion.windows import WindowSampler
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import SkillBank, encode_rows
from spectral_skills.skill.model import SkillModel
from spectral_skills.spectral.direction_file import Directions


@pytest.fixture(scope="module")
def model() -> SkillModel:
    return SkillModel.load(PRETRAINED / "skill")


@pytest.fixture(scope="module")
def directions() -> Directions:
    return Directions.load(PRETRAINED / "directions.safetensors")


@pytest.fixture(scope="module")
def bank(model) -> tuple[Corpus, SkillBank]:
    corpus = Corpus.open(embedded_corpus())
    return corpus, SkillBank.build(model.encoder, corpus, every=20)


def test_it_is_small_and_belongs_together(model, directions):
    """Under 12 MB without its predictor and played motions, 80 MB with all models; the
    directions are of this encoder."""
    files = {*PRETRAINED.glob("*.safetensors"), *(PRETRAINED / "skill").glob("w*")}
    motions = PRETRAINED / "motions.safetensors"
    assert sum(path.stat().st_size for path in files - {motions}) < 12e6
    assert motions.stat().st_size < 4e6
    files = [path for path in PRETRAINED.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 80e6
    directions.check(model.encoder.fingerprint())
    assert model.encoder.width == 64 and model.head is None


def test_it_names_no_place_on_a_disk():
    """Provenance speaks of data by its hash, not by somebody's folders."""
    for path in PRETRAINED.rglob("*.json"):
        text = path.read_text()
        assert "/root" not in text and "/home" not in text, path


def test_the_released_response_is_exact(model, bank):
    """Proposition 1 on the release itself: at a fixed query a step of the skill changes
    the estimate by J times it, whatever the skill; no Taylor remainder."""
    predictor = SkillModel.load(PRETRAINED / "skill").predictor.double()
    sampler = WindowSampler(bank[0].select([0, 40]).to("cpu"), model.config.windows)
    generator = torch.Generator().manual_seed(0)
    context, future, scale = (
        part.double() for part in model.queries(sampler.sample(8, generator))
    )
    z, step = torch.randn((2, 8, 64), generator=generator, dtype=torch.float64)
    for level in (0, 3, 7):
        levels = torch.full((8,), level)
        y = predictor.schedule.add_noise(future, levels, torch.zeros_like(future))
        alpha, sigma = predictor.schedule.alpha[level], predictor.schedule.sigma[level]

        def estimate(z, y=y, levels=levels, alpha=alpha, sigma=sigma):
            return scale / alpha * (y - sigma * predictor(context, z, y, levels))

        F_A, _ = predictor.features.response(context)  # noqa: N806
        M = predictor.target_matrix(y, levels)  # noqa: N806
        J = -sigma / alpha * torch.einsum("ndr,nrm->nmd", F_A, M)  # noqa: N806
        promised = torch.einsum("m,nmd,nd->nm", scale, J, step)
        for size in (1.0, 30.0):
            moved = estimate(size * z + step) - estimate(size * z)
            torch.testing.assert_close(moved, promised, rtol=1e-9, atol=1e-9)


def test_skills_spread_as_trained(model):
    """Over the motions of all corpora, as far as the paper's; none has collapsed."""
    support = SkillSupport.load(PRETRAINED / "support.safetensors")
    assert support.encoder == model.encoder.fingerprint()
    deviation = support.bank.std(axis=0)
    assert deviation.mean() == pytest.approx(0.8, abs=0.02)
    assert deviation.min() > 0.6


def test_like_motions_have_like_skills(bank):
    """The nearest other clip, by mean skill, is mostly of the same kind."""
    corpus, skills = bank
    clips, means = skills.clip_means()
    distance = torch.cdist(means, means).fill_diagonal_(torch.inf)
    kinds = np.array([kind(corpus.names[i]) for i in clips.tolist()])
    same = kinds[distance.argmin(1).numpy()] == kinds
    chance = np.mean([np.mean(kinds == k) for k in kinds])
    assert same.mean() > 0.6 > 2 * chance


def test_directions_are_unit_steps(directions):
    """Every vector has length one; spectral ones are orthogonal."""
    assert np.allclose(np.linalg.norm(directions.vectors, axis=1), 1, atol=1e-5)
    spectral = directions.vectors[directions.family("spectral")]
    assert np.allclose(spectral @ spectral.T, np.eye(64), atol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_arm_directions_move_one_arm(directions, side):
    """The shoulder goes up, and nearly all that moves is that arm."""
    index = directions.index(f"{side}_arm")
    shares = dict(zip(directions.groups, directions.group_shares[index], strict=True))
    assert shares[f"{side}_arm"] > 0.9
    shoulder = directions.attributes.index(f"{side}_shoulder_pitch")
    assert directions.effect_mean[index, shoulder] < -0.05


def test_part_directions_move_their_limb(directions):
    """Every limb has one, and the limb has most of the energy."""
    part = directions.family("part")
    limbs = directions.single_limb[part]
    assert set(limbs) == {"left_leg", "right_leg", "left_arm", "right_arm"}
    for k, limb in zip(part, limbs, strict=True):
        assert directions.names[k].startswith(f"{limb}_")


def test_hand_maps_send_hands_where_they_are_asked_to(directions):
    """By mean effects, which the 64 orthogonal directions tell in full; the maps are
    of standing contexts, these effects of all."""
    assert directions.hand_standing
    spectral = directions.family("spectral")
    effects = directions.effect_mean[spectral].T @ directions.vectors[spectral]
    for side, hand_map in zip(("left", "right"), directions.hand_maps, strict=True):
        rows = [directions.attributes.index(f"{side}_hand_{axis}") for axis in "xyz"]
        np.testing.assert_allclose(effects[rows] @ hand_map, np.eye(3), atol=0.2)


def test_a_clip_is_encoded_and_steered(model, directions, bank):
    """From a corpus clip to a steered stream, with NumPy at the end."""
    from spectral_skills.control.steering import Knob, schedule

    corpus = bank[0]
    skills = encode_rows(model.encoder, corpus.qpos(0)).numpy()
    assert len(skills) == corpus.lengths[0] - 9
    knob = Knob("right_arm", amplitude=2.0, start=40)
    eta = schedule([knob], len(skills), directions.names)
    steered = skills + eta @ directions.vectors
    assert np.array_equal(steered[:40], skills[:40])
    moved = np.linalg.norm(steered - skills, axis=1)
    assert moved[-1] == pytest.approx(2.0, rel=1e-5)


def test_pictures_of_directions_stand_on_the_floor(directions):
    """The pose in the middle is the default one; all are within limits."""
    from spectral_skills.plots.skills import PANELS, pose_amplitude, predicted_poses

    index = directions.index("stance_height")
    far = pose_amplitude(directions, index)
    assert far is not None
    qpos = predicted_poses(directions, index, far)
    middle = qpos[PANELS // 2, 7:]
    assert np.allclose(middle, g1.DEFAULT_JOINTS)
    assert (qpos[:, 7:] >= g1.JOINT_LIMITS[:, 0]).all()
    assert (qpos[:, 7:] <= g1.JOINT_LIMITS[:, 1]).all()
    assert np.ptp(qpos[:, 2]) > 0.05


def test_weak_directions_are_not_drawn(directions, tmp_path):
    """Who hardly moves a joint, or not always the same way, has no picture."""
    from dataclasses import replace

    from spectral_skills.plots.skills import draw_poses, pose_amplitude

    index = directions.index("right_arm")
    assert pose_amplitude(directions, index) == pytest.approx(3.02, abs=0.1)
    weak = replace(directions, effect_mean=directions.effect_mean / 100)
    varied = replace(directions, effect_std=directions.effect_std * 100)
    for other in (weak, varied):
        assert pose_amplitude(other, index) is None
        with pytest.raises(ValueError, match="train longer"):
            draw_poses(other, tmp_path / "poses.png")
    assert not (tmp_path / "poses.png").exists()
