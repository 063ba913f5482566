"""Plans become commands, until the planner is asked again."""

import pytest
import torch

from spectral_skills.control.run import Tracker
from spectral_skills.motion.windows import anchor_poses
from spectral_skills.planner.data import CHUNK
from spectral_skills.planner.routes import PlannedSource, longest, on_floor
from spectral_skills.planner.text import TextStates

WIDTH = 5


def _upright(n: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    qpos = torch.randn((n, 36), generator=generator)
    qpos[:, 3:7] /= qpos[:, 3:7].norm(dim=-1, keepdim=True)
    return qpos


@pytest.fixture
def tracker(make_controller):
    def make(n: int = 2, **command) -> Tracker:
        made = Tracker(make_controller(**command))
        made.reset(_upright(n), torch.zeros(n, 35))
        made.sense(_upright(n), torch.zeros(n, 35))
        return made

    return make


def _numbered(start: float, n: int = 2, width: int = WIDTH) -> torch.Tensor:
    """A chunk whose numbers are start, start + 1, ..."""
    steps = start + torch.arange(float(CHUNK))
    return steps[None, :, None].expand(n, CHUNK, width)


def test_the_first_skills_of_a_plan_are_followed_then_it_is_made_anew(
    tracker, scripted, words
):
    planner = scripted([_numbered(0), _numbered(100), _numbered(200)])
    source = PlannedSource(planner, tracker(), words, every=3)
    found = [source.source(step, _upright(2))[0, 0].item() for step in range(8)]
    assert found == [0, 1, 2, 100, 101, 102, 200, 201]
    assert len(planner.asked) == 3


def test_a_plan_is_made_of_what_the_robot_has_sensed(tracker, scripted, words):
    planner, robots = scripted([_numbered(0)]), tracker()
    source = PlannedSource(planner, robots, words, every=30)
    source.source(0, _upright(2))
    assert torch.equal(planner.asked[0][0], robots.history)


def test_plans_begin_with_noise_that_a_seed_decides(tracker, scripted, words):
    noises = []
    for seed in (0, 0, 1):
        planner = scripted([_numbered(0)])
        source = PlannedSource(planner, tracker(), words, every=1, seed=seed)
        source.source(0, _upright(2))
        noises.append(planner.asked[0][2])
    assert torch.equal(noises[0], noises[1])
    assert not torch.equal(noises[0], noises[2])


def test_ensembling_averages_all_plans_that_speak_of_a_step(tracker, scripted, words):
    plans = [_numbered(100 * i) for i in range(5)]
    source = PlannedSource(scripted(plans), tracker(), words, 10, ensemble=True)
    found = [source.source(step, _upright(2))[0, 0].item() for step in range(41)]
    assert found[5] == 5
    newer = torch.tensor([1.0, torch.tensor(-0.01).exp()])
    expected = (newer * torch.tensor([15.0, 105.0])).sum() / newer.sum()
    assert found[15] == pytest.approx(expected.item(), rel=1e-5)
    # Three plans speak of a step at most: the first one is over after thirty.
    assert found[30] == pytest.approx((20 + 100 + 210 + 300 - 20 - 100 + 120) / 3, 0.01)


def test_a_plan_that_is_not_finite_is_not_followed(tracker, scripted, words):
    bad = _numbered(100).clone()
    bad[1, 17] = torch.nan
    source = PlannedSource(
        scripted([_numbered(0), bad, _numbered(200)]), tracker(), words, every=4
    )
    found = torch.stack([source.source(t, _upright(2))[:, 0] for t in range(9)])
    assert found[:, 0].tolist() == [0, 1, 2, 3, 100, 101, 102, 103, 200]
    assert found[:, 1].tolist() == [0, 1, 2, 3, 3, 3, 3, 3, 200]
    assert int(source.refused) == 1


def test_without_a_first_plan_nothing_is_done(tracker, scripted, words):
    source = PlannedSource(
        scripted([torch.full((2, CHUNK, WIDTH), torch.inf)]), tracker(), words, 10
    )
    with pytest.raises(ValueError, match="first plan is not finite"):
        source.source(0, _upright(2))


def test_other_words_are_planned_at_once(tracker, scripted, words):
    planner = scripted([_numbered(0), _numbered(100)])
    other = TextStates(words.states + 1, words.mask)
    source = PlannedSource(planner, tracker(), words, every=30, later={4: other})
    found = [source.source(step, _upright(2))[0, 0].item() for step in range(6)]
    assert found == [0, 1, 2, 3, 100, 101]
    assert planner.asked[0][1] is words and planner.asked[1][1] is other
    assert source.track(5) is None


def test_held_commands_are_planned_at_the_next_that_is_due(tracker, scripted, words):
    planner = scripted([_numbered(0), _numbered(100)])
    later = {14: words}
    source = PlannedSource(planner, tracker(hold=10), words, every=10, later=later)
    for step in range(15):
        source.source(step, _upright(2))
    found = [source.source(step, _upright(2))[0, 0].item() for step in range(20, 22)]
    assert len(planner.asked) == 3 and found == [100, 101]


def test_poses_laid_on_the_floor_are_seen_as_they_were_planned():
    rows = torch.stack([_upright(3, seed) for seed in range(4)], dim=1)
    qpos = _upright(3, 9)
    poses = anchor_poses(rows, qpos[:, :3], qpos[:, 3:7], "heading")
    again = on_floor(poses, qpos)
    seen = anchor_poses(again, qpos[:, :3], qpos[:, 3:7], "heading")
    torch.testing.assert_close(seen, poses, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(again[..., :3], rows[..., :3], atol=1e-5, rtol=1e-5)


def test_planned_poses_are_encoded_from_where_the_robot_is(
    tracker, scripted, words, encoder
):
    rows = torch.stack([_upright(2, seed) for seed in range(CHUNK)], dim=1)
    then, now = _upright(2, 50), _upright(2, 51)
    planned = anchor_poses(rows, then[:, :3], then[:, 3:7], "heading")
    source = PlannedSource(
        *(scripted([planned], output="pose", action=38), tracker(), words, 21),
        encoder=encoder,
        odometry=True,
    )
    assert source.route == "re-encode" and longest(source.route, encoder) == 21
    source.source(0, then)
    window = anchor_poses(rows[:, 4:14], now[:, :3], now[:, 3:7], "heading")
    expected = encoder.encode(window)
    torch.testing.assert_close(source.source(4, now), expected, atol=1e-4, rtol=1e-4)


def test_explicit_poses_are_followed_one_by_one(tracker, scripted, words):
    rows = torch.stack([_upright(2, seed) for seed in range(CHUNK)], dim=1)
    then, now = _upright(2, 50), _upright(2, 51)
    planned = anchor_poses(rows, then[:, :3], then[:, 3:7], "heading")
    source = PlannedSource(
        *(scripted([planned], output="pose", action=38), tracker(kind="pose"), words),
        every=30,
        odometry=True,
    )
    assert source.route == "explicit"
    source.source(0, then)
    expected = anchor_poses(rows[:, 3:4], now[:, :3], now[:, 3:7], "heading")[:, 0]
    torch.testing.assert_close(source.source(3, now), expected, atol=1e-4, rtol=1e-4)


def test_without_odometry_poses_are_taken_as_they_were_planned(
    tracker, scripted, words, encoder
):
    rows = torch.stack([_upright(2, seed) for seed in range(CHUNK)], dim=1)
    then, now = _upright(2, 50), _upright(2, 51)
    planned = anchor_poses(rows, then[:, :3], then[:, 3:7], "heading")
    poses = scripted([planned], output="pose", action=38)
    source = PlannedSource(poses, tracker(), words, 21, encoder)
    source.source(0, then)
    torch.testing.assert_close(
        source.source(4, now), encoder.encode(planned[:, 4:14]), atol=1e-5, rtol=1e-5
    )
    source = PlannedSource(poses, tracker(kind="pose"), words, 30)
    source.source(0, then)
    assert torch.equal(source.source(4, now), planned[:, 4])


def test_words_may_change_while_a_command_is_held(tracker, scripted, words):
    planner = scripted([_numbered(0), _numbered(100)])
    later = {4: words}
    source = PlannedSource(planner, tracker(hold=10), words, every=20, later=later)
    found = [source.source(step, _upright(2))[0, 0].item() for step in range(12)]
    assert found == [*range(10), 100, 101]


def test_what_does_not_fit_is_refused(tracker, scripted, words, encoder):
    poses = scripted([_numbered(0)], output="pose", action=38)
    with pytest.raises(ValueError, match="every 22 steps, must be 1 to 21"):
        PlannedSource(poses, tracker(), words, 22, encoder)
    with pytest.raises(ValueError, match="every 0 steps, must be 1 to 30"):
        PlannedSource(scripted([_numbered(0)]), tracker(), words, 0)
    with pytest.raises(ValueError, match="need the encoder"):
        PlannedSource(poses, tracker(), words, 10)
    with pytest.raises(ValueError, match="plans skills, and the controller follows"):
        PlannedSource(scripted([_numbered(0)]), tracker(kind="pose"), words, 10)
    with pytest.raises(ValueError, match="only planned skills are averaged"):
        PlannedSource(poses, tracker(), words, 10, encoder, ensemble=True)
