"""Linear readout: all of it for a linear map of the pose, nothing for noise."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from spectral_skills import artifact
from spectral_skills.artifact import Provenance
from spectral_skills.experiments.skills import (
    ReadoutWindows,
    explained,
    quantities,
    readout,
    tables,
)
from spectral_skills.motion.clip import Clip
from spectral_skills.motion.windows import WindowConfig
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import EncoderConfig, SkillEncoder
from spectral_skills.skill.model import SkillConfig, SkillModel
from spectral_skills.skill.predictor import PredictorConfig

SMALL = PredictorConfig(embed=4, rank=2, context_hidden=(4,), target_hidden=(4,))


@pytest.fixture(scope="module")
def corpus(make_clip, make_corpus, tmp_path_factory):
    """Forty clips, each longer than any encoder looks."""
    clips = [make_clip(f"walk{i}", 90 + i % 9, seed=i) for i in range(40)]
    return make_corpus(tmp_path_factory.mktemp("readout") / "walks", clips)


@pytest.fixture(scope="module")
def sides(corpus) -> tuple[ReadoutWindows, ReadoutWindows]:
    fit, score = corpus.select(range(30)), corpus.select(range(30, 40))
    return ReadoutWindows.draw(fit.to("cpu"), 1500, 0), ReadoutWindows.draw(
        score.to("cpu"), 1500, 1
    )


def _encoder(encode, last: int = 9) -> Any:
    """A real encoder's way to its poses, with any function in its place."""
    stand_in: Any = SimpleNamespace(
        windows=WindowConfig(), steps=torch.arange(last + 1), encode=encode
    )
    stand_in.encode_at = partial(SkillEncoder.encode_at, stand_in)
    return stand_in


def test_linear_maps_of_a_pose_are_read_whole(sides):
    """Joints now and at the end of the chunk, out of skills that mix them."""
    mix = torch.linalg.qr(torch.randn(58, 58)).Q

    def encode(poses: Tensor) -> Tensor:
        return 3 + torch.cat((poses[:, 0, :29], poses[:, 9, :29]), dim=1) @ mix

    found = readout(_encoder(encode), *sides)
    assert found["joints now"] == pytest.approx(1, abs=1e-3)
    assert found["joints chunk end"] == pytest.approx(1, abs=1e-3)
    assert found["joints future"] < 0.999


def test_the_future_is_read_from_skills_that_contain_it(sides):
    """A skill that holds the last frame's root has most of the way there."""

    def encode(poses: Tensor) -> Tensor:
        return poses[:, 20, 29:]

    found = readout(_encoder(encode, last=20), *sides)
    assert found["travel"] > 0.9
    assert found["root future"] > found["joints future"]


def test_nothing_is_read_from_noise(sides):
    """Skills that do not depend on the pose: zero, but for chance."""
    found = readout(_encoder(lambda poses: torch.randn(len(poses), 8)), *sides)
    # Held-out clips have other means, which costs more than nothing.
    assert all(value < 0.02 for value in found.values())
    fit = sides[0]
    x = torch.randn(len(fit.clips), 8)
    for y in fit.values.values():
        assert abs(explained((x, y), (x, y))) < 0.05


def test_an_encoder_that_collapsed_has_a_row(sides):
    """Skills that are all the same, as of one code: nothing, and no failure."""
    found = readout(_encoder(lambda poses: torch.ones(len(poses), 8)), *sides)
    assert all(value < 0.02 for value in found.values())


def test_explained_is_least_squares():
    """Against numpy, with a constant term, on other samples than fitted."""
    random = np.random.default_rng(0)
    x, x_new = random.normal(2, 3, (400, 5)), random.normal(2, 3, (300, 5))
    weights = random.normal(size=(5, 3))
    y, y_new = (
        a @ weights * (1, 5, 20) + 7 + random.normal(0, 4, (len(a), 3))
        for a in (x, x_new)
    )
    ones = np.c_[x, np.ones(400)]
    solution = np.linalg.lstsq(ones, y, rcond=None)[0]
    rest = y_new - np.c_[x_new, np.ones(300)] @ solution
    scale = y.std(0, ddof=1)
    wanted = 1 - ((rest / scale) ** 2).mean(0).sum() / (y_new / scale).var(0).sum()
    fit, score = (
        (torch.tensor(x), torch.tensor(y)),
        (torch.tensor(x_new), torch.tensor(y_new)),
    )
    found = explained(fit, score)
    assert found == pytest.approx(wanted, abs=1e-4)
    assert 0.1 < wanted < 0.95


def test_units_and_shifts_do_not_matter():
    """Values in other units, skills scaled and shifted: the same share."""
    torch.manual_seed(0)
    x, noise = torch.randn(500, 4), torch.randn(500, 3)
    y = x[:, :3] + noise
    wanted = explained((x, y), (x, y))
    assert wanted == pytest.approx(0.5, abs=0.08)
    other = y * torch.tensor([1.0, 30.0, 0.5]) - 4
    assert explained((x, other), (x, other)) == pytest.approx(wanted, abs=1e-5)
    assert explained((9 * x + 1, y), (9 * x + 1, y)) == pytest.approx(wanted, abs=1e-5)


def test_what_hardly_moves_does_not_count():
    """A joint that trembles by a milliradian, or not at all, is left away."""
    torch.manual_seed(0)
    x = torch.randn(300, 3)
    still = torch.cat((x, 1e-3 * torch.randn(300, 1), torch.full((300, 1), 2.0)), dim=1)
    assert explained((x, still), (x, still)) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("scale", [0.0, 1e-3])
def test_what_does_not_move_has_no_share(scale):
    """Whether nothing moves at all, or nothing that is scored on."""
    torch.manual_seed(0)
    x, still = torch.randn(300, 3), 2 + scale * torch.randn(300, 3)
    for y in (x, still):
        assert np.isnan(explained((x, y), (x, still)))


def test_quantities_by_hand():
    """Which frames, which numbers, and a turn in radians."""
    poses = torch.arange(21.0)[None, :, None] + torch.arange(38) / 100
    poses[0, 20, 32:] = torch.tensor([0.6, -0.8, 0.8, 0.6, 0, 0])
    found = quantities(poses)
    assert found["joints now"][0, 3] == pytest.approx(0.03)
    assert found["joints chunk end"][0, 0] == pytest.approx(9)
    assert found["joints future"].shape == (1, 11 * 29)
    assert found["root future"].shape == (1, 11 * 9)
    turn = np.arctan2(0.8, 0.6)
    assert found["travel"][0].tolist() == pytest.approx([20.29, 20.30, turn])


def test_a_table_has_a_row_for_every_model(corpus, tmp_path):
    """Models that see other frames are read at the same windows."""
    folders = []
    for sees in ("chunk", "velocity", "full"):
        torch.manual_seed(0)
        encoder = EncoderConfig(width=6, hidden=(16,), sees=sees)
        model = SkillModel(SkillConfig(encoder=encoder, predictor=SMALL))
        folders.append(tmp_path / sees)
        artifact.save(
            folders[-1], model.config, model.state_dict(), Provenance("skill")
        )
    results, moved = tables(folders, [corpus], 2, 0, "cpu", count=300)
    assert len(results) == 3 * 5 and len(moved) == 3 * 11
    for own in (results, moved):
        assert {r.row for r in own} == {"chunk", "velocity", "full"}
    assert all(np.isfinite(r.value) and r.value <= 1 for r in results)
    assert results[0].metric == "joints now" and results[0].n == 300


def test_clips_that_stand_still_have_no_readout(make_corpus, tmp_path):
    """Cells that would be no number are left out; the others stay."""
    rows = np.tile(g1.DEFAULT_QPOS, (90, 1))
    clips = [Clip.from_qpos(rows, name=f"stand{i}", fps=50.0) for i in range(6)]
    corpus = make_corpus(tmp_path / "still", clips)
    encoder = EncoderConfig(width=6, hidden=(16,))
    model = SkillModel(SkillConfig(encoder=encoder, predictor=SMALL))
    artifact.save(
        tmp_path / "model", model.config, model.state_dict(), Provenance("skill")
    )
    results, moved = tables([tmp_path / "model"], [corpus], 2, 0, "cpu", count=50)
    assert not results
    assert len(moved) == 11 and all(np.isfinite(r.value) for r in moved)
