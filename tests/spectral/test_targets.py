"""Target directions: the minimum they promise, found another way."""

import numpy as np
import pytest
import torch

from spectral_skills.robot import g1
from spectral_skills.spectral.directions import TARGETS, hand_map, hand_maps, solve
from spectral_skills.spectral.response import ATTRIBUTES, NAMES, Effects, Responses

WIDTH, CONTEXTS = 64, 50
SCALE = np.array([a.scale for a in ATTRIBUTES])


@pytest.fixture(scope="module")
def rows() -> torch.Tensor:
    """Effects E_i of contexts that have a mean in common, (contexts, a, d)."""
    generator = torch.Generator().manual_seed(0)
    shape = (len(NAMES), WIDTH)
    common = torch.randn(shape, generator=generator, dtype=torch.float64)
    own = torch.randn((CONTEXTS, *shape), generator=generator, dtype=torch.float64)
    return (common + 0.3 * own) * torch.tensor(SCALE)[:, None] * 0.1


@pytest.fixture(scope="module")
def effects(rows) -> Effects:
    return Effects.of(rows)


def brute_force(rows, goals: dict[str, float], free, hold, ridge) -> np.ndarray:
    """The same minimum by least squares on all rows of all contexts, stacked."""
    blocks, sides, square = [], [], np.zeros((WIDTH, WIDTH))
    for a, name in enumerate(NAMES):
        if name in free and name not in goals:
            continue
        weight = (1.0 if name in goals else hold) ** 0.5 / SCALE[a] / CONTEXTS**0.5
        block = weight * rows[:, a].numpy()
        blocks.append(block)
        sides.append(np.full(CONTEXTS, weight * goals.get(name, 0.0)))
        square += block.T @ block
    blocks.append(np.sqrt(ridge * np.trace(square) / WIDTH) * np.eye(WIDTH))
    sides.append(np.zeros(WIDTH))
    matrix, side = np.concatenate(blocks), np.concatenate(sides)
    return np.linalg.lstsq(matrix, side, rcond=None)[0]


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("hold, ridge", [(0.3, 0.03), (1.0, 1e-4), (0.0, 0.5)])
def test_the_minimum_is_that_of_stacked_rows(rows, effects, target, hold, ridge):
    """Moments are enough: the direction is that of brute-force least squares."""
    expected = brute_force(rows, target.goals, target.free, hold, ridge)
    vector, _ = solve(effects, target, hold, ridge)
    expected = expected / np.linalg.norm(expected)
    np.testing.assert_allclose(vector.numpy(), expected, atol=1e-8)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_the_amplitude_reaches_the_goal(rows, effects, target):
    """On average over contexts; with two goals, as nearly as one direction can."""
    vector, amplitude = solve(effects, target)
    assert vector.norm() == pytest.approx(1) and amplitude > 0
    per_context = amplitude * (rows @ vector)
    mean, std = (amplitude * x[0] for x in effects.along(vector[None]))
    np.testing.assert_allclose(mean, per_context.mean(0), atol=1e-9)
    np.testing.assert_allclose(std, per_context.std(0, unbiased=False))
    reached = {n: float(mean[NAMES.index(n)]) for n in target.goals}
    for name, goal in target.goals.items():
        tolerance = 1e-9 if len(reached) == 1 else 0.1
        assert reached[name] == pytest.approx(goal, rel=tolerance)


def test_holding_more_leaks_less(rows, effects):
    """The rms change of held attributes, in scales, falls as they are held more."""
    target = TARGETS[0]
    held = [a for a, n in enumerate(NAMES) if n not in target.free | set(target.goals)]

    def leak(hold: float) -> float:
        vector, amplitude = solve(effects, target, hold)
        moved = (amplitude * (rows @ vector)).numpy() / SCALE
        return float(np.sqrt((moved[:, held] ** 2).mean(0).sum()))

    assert leak(10.0) < leak(1.0) < leak(0.0)


def test_targets_name_attributes_and_free_their_own_limb():
    """Goals exist; an arm's target leaves its hand free, a gait's target its legs."""
    assert len({t.name for t in TARGETS}) == len(TARGETS)
    for target in TARGETS:
        assert set(target.goals) <= set(NAMES) and target.free <= set(NAMES)
    by_name = {t.name: t for t in TARGETS}
    assert "right_hand_z" in by_name["right_arm"].free
    assert "left_elbow" not in by_name["right_arm"].free
    assert by_name["speed"].free >= {j for j in g1.JOINTS if "hip" in j or "knee" in j}
    # How far the robot is off changes only where that is the goal, and with its rate.
    assert not by_name["right_arm"].free & {"facing", "aside", "ahead"}
    assert not by_name["speed"].free & {"yaw_rate", "facing", "aside"}
    for name, off, rate in (
        ("turn", "facing", "yaw_rate"),
        ("speed", "ahead", "forward_speed"),
    ):
        assert set(by_name[name].goals) == {off} and rate in by_name[name].free
    # Free feet let the whole robot sink instead of bending its knees.
    assert not by_name["stance_height"].free & {"left_foot_height", "right_foot_height"}


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_hand_map_keeps_its_word_on_average(effects, side):
    """With ridge and holds as they are, a metre asked for is a metre predicted."""
    hand = [NAMES.index(f"{side}_hand_{axis}") for axis in "xyz"]
    moved = effects.mean[hand] @ hand_map(effects, side)
    np.testing.assert_allclose(moved, np.eye(3), atol=1e-8)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_hand_map_inverts_feasible_rows(rows, side):
    """One context, no ridge: the hand goes where it is told and nothing held moves."""
    effects = Effects.of(rows[:1])
    found = hand_map(effects, side, hold=1.0, ridge=1e-12)
    moved = rows[0] @ found  # (a, 3)
    hand = [NAMES.index(f"{side}_hand_{axis}") for axis in "xyz"]
    np.testing.assert_allclose(moved[hand], np.eye(3), atol=1e-6)
    other = "right" if side == "left" else "left"
    for name in ("left_knee", "waist_yaw", "root_height", f"{other}_elbow"):
        np.testing.assert_allclose(moved[NAMES.index(name)], 0, atol=1e-6)
    assert moved[NAMES.index(f"{side}_elbow")].abs().max() > 0.01


def responses_of(effects: Effects, **kinds: Effects) -> Responses:
    """Responses of upright contexts, and of none of the other kinds unless given."""
    zeros = torch.zeros(1, WIDTH, WIDTH, dtype=torch.float64)
    none = Effects.of(torch.zeros(0, len(NAMES), WIDTH, dtype=torch.float64))
    others = ("standing", "walking", "left_swing", "right_swing")
    kinds = dict.fromkeys(others, none) | kinds
    return Responses(CONTEXTS, zeros, zeros[0], effects, **kinds)


def test_hand_maps_use_standing_contexts_if_there_are_enough(effects, rows):
    """And say which they used."""
    few, enough = Effects.of(rows[:31]), Effects.of(rows[:32])
    for standing, expected, count in ((few, False, CONTEXTS), (enough, True, 32)):
        maps, contexts, stands = hand_maps(responses_of(effects, standing=standing))
        assert (contexts, stands) == (count, expected)
        used = standing if expected else effects
        torch.testing.assert_close(maps[1], hand_map(used, "right"))
        assert maps.shape == (2, WIDTH, 3)


def test_targets_are_solved_where_they_are_used(effects, rows):
    """A turn in walks; a foot's height in swings of that foot, the rest in walks."""
    walking, left, right = (Effects.of(rows[i : i + 32]) for i in (0, 9, 18))
    swings = {"left_swing": left, "right_swing": right}
    responses = responses_of(effects, walking=walking, **swings)
    by_name = {t.name: t for t in TARGETS}
    assert by_name["turn"].effects(responses) is walking
    assert by_name["right_arm"].effects(responses) is effects
    found = by_name["foot_clearance"].effects(responses)
    for name, expected in (
        ("left_foot_height", left),
        ("right_foot_height", right),
        ("left_knee", walking),
        ("root_height", walking),
    ):
        row = NAMES.index(name)
        torch.testing.assert_close(found.mean[row], expected.mean[row])
        torch.testing.assert_close(found.mean_square[row], expected.mean_square[row])
    # Without enough walks, all contexts serve.
    assert by_name["turn"].effects(responses_of(effects)) is effects
