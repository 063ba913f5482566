"""The benchmark of drift hides from blind robots where they are, and counts right."""

import drift
import pytest
import torch

from spectral_skills.control import metrics
from spectral_skills.control.metrics import Episodes
from spectral_skills.control.rollout import Rollout
from spectral_skills.control.run import ReferenceSource
from spectral_skills.motion.windows import WindowConfig
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import EncoderConfig, SkillEncoder
from spectral_skills.tracking.references import CommandConfig, References


def test_blind_robots_do_not_see_where_they_are(make_clip, make_corpus, tmp_path):
    """A live skill changes with the robot's place, a blind one never does, and on the
    reference both are the same."""
    torch.manual_seed(0)
    encoder = SkillEncoder(EncoderConfig(width=4, hidden=(8,)), WindowConfig()).eval()
    corpus = make_corpus(tmp_path / "clips", [make_clip("walk", 60)])
    references = References.build(corpus.to("cpu"))
    about = references, torch.tensor([0]), encoder, None, CommandConfig(width=4)
    live, blind = ReferenceSource(*about), drift.Blind(*about)
    there = references.at(torch.tensor([0]), torch.tensor([7])).rows
    aside = there.clone()
    aside[:, 0] += 0.2
    assert torch.equal(live.source(7, there), blind.source(7, there))
    assert torch.equal(blind.source(7, aside), blind.source(7, there))
    assert not torch.allclose(live.source(7, aside), live.source(7, there))


def stays(*offsets_m: float, falls: int | None = None) -> Episodes:
    """Robots that drift from standing references by so much a second."""
    rows = torch.tensor(g1.DEFAULT_QPOS).float()
    rows = rows.expand(metrics.CURVE_FRAMES, len(offsets_m), -1)
    robot = rows.clone()
    seconds = torch.arange(len(rows))[:, None] / 50
    robot[..., 0] += seconds * torch.tensor(offsets_m)
    if falls is not None:
        robot[100:, falls, 2] -= 0.5
    lengths = torch.full((len(offsets_m),), len(rows))
    names = tuple(f"clip{i}" for i in range(len(offsets_m)))
    return metrics.episodes(Rollout(robot, names, lengths, rows.clone()))


def test_errors_are_of_robots_that_always_succeed():
    """The second falls when it is blind: its 80 mm/s count in neither row."""
    found = {"live": stays(0.02, 0.08, 0.04), "blind": stays(0.04, 0.1, 0.06, falls=1)}
    cells = {(r.row, r.metric): r for r in drift.results(found)}
    assert cells["live", "success_rate"].value == 1
    assert cells["blind", "success_rate"].value == pytest.approx(2 / 3)
    slopes = [cells[row, "drift_slope_mm_s"] for row in found]
    assert [s.value for s in slopes] == pytest.approx([30, 50], rel=1e-3)
    assert [s.n for s in slopes] == [2, 2]
    assert cells["live", "root error after 4 s"].value == pytest.approx(120, rel=1e-3)
    # Where none always succeeds there are no errors.
    none = drift.results({"live": stays(0.02, falls=0)})
    assert [r.metric for r in none] == ["success_rate", "followed"]
