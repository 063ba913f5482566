"""Runs are made once, kept, and depend on nothing but what they are made of."""

from dataclasses import replace

import numpy as np
import pytest
from untrained import explicit, tokens

from spectral_skills.control.batch import Executed, Runner
from spectral_skills.experiments.findings import Draft
from spectral_skills.motion.synthetic.bases import Base, generate
from spectral_skills.results import set_command

STEPS = 40


@pytest.fixture(scope="module")
def base() -> Base:
    return generate("stand", STEPS)


def test_a_change_of_nothing_changes_nothing(models, base):
    """But for rounding: a product may treat the rows of two robots unlike."""
    lab = Runner(*models)
    nothing = lab.steered(base, np.zeros((STEPS, 64), np.float32), "nothing")
    plain, steered = lab.execute([lab.plain(base), nothing])
    np.testing.assert_allclose(plain.rows, steered.rows, atol=1e-5)
    assert plain.stands and plain.rows.shape == (STEPS + 1, 36)


def test_steering_moves_the_arm(models, base):
    lab = Runner(*models)
    change = np.tile(lab.direction("right_arm", 3.0), (STEPS, 1))
    plain, steered = lab.execute([lab.plain(base), lab.steered(base, change, "arm")])
    shoulder = steered.rows[-1, 7 + 22] - plain.rows[-1, 7 + 22]
    assert shoulder < -0.2


def test_runs_are_read_again_and_damaged_ones_made_again(
    models, base, tmp_path, monkeypatch
):
    lab = Runner(*models, records=tmp_path)
    plain = lab.plain(base)
    (first,) = lab.execute([plain])
    path = lab.record(plain)
    assert path is not None and path.is_file()

    def never(*args):
        raise AssertionError("made again")

    with monkeypatch.context() as patch:
        patch.setattr(lab, "run_together", never)
        (second,) = lab.execute([plain])
        np.testing.assert_array_equal(first.rows, second.rows)
        with pytest.raises(AssertionError):
            lab.execute([replace(plain, seed=3)])
    path.write_bytes(b"nothing")
    (third,) = lab.execute([plain])
    np.testing.assert_array_equal(first.rows, third.rows)


def test_lengths_and_company_do_not_matter(models, base):
    """A run is the same alone, beside longer ones, and in another batch."""
    lab = Runner(*models, robots=2)
    short = Base("short", base.rows[:21], base.fall_m)
    runs = [lab.plain(base), lab.plain(short), lab.plain(base, seed=1)]
    made = lab.execute(runs)
    assert [len(one.rows) for one in made] == [41, 21, 41]
    np.testing.assert_allclose(made[1].rows[:10], made[0].rows[:10], atol=1e-5)
    assert np.abs(made[2].rows - made[0].rows).max() > 1e-3
    (alone,) = lab.execute([lab.plain(base, seed=1)])
    np.testing.assert_allclose(alone.rows, made[2].rows, atol=1e-5)


def test_a_push_moves_the_root(models, base):
    lab = Runner(*models)
    pushed = replace(lab.plain(base), push=(10, np.array([0.4, 0, 0, 0, 0, 0.0])))
    plain, moved = lab.execute([lab.plain(base), pushed])
    np.testing.assert_allclose(plain.rows[:11], moved.rows[:11], atol=1e-5)
    assert np.abs(moved.rows[15, 0] - plain.rows[15, 0]) > 0.005


def test_a_broken_run_has_fallen(models, base):
    rows = base.rows.copy()
    rows[30:] = np.nan
    run = Executed(Runner(*models).plain(base), rows)
    assert run.fell_at == 30 and not run.stands


def test_directions_of_another_encoder_are_refused(models):
    controller, encoder, directions = models
    with pytest.raises(ValueError, match="belong to the encoder"):
        Runner(controller, encoder, replace(directions, encoder="other"))


def test_tokens_have_no_directions_and_can_be_steered(base):
    """A tracker that holds each token for ten steps heeds every tenth."""
    lab = Runner(*tokens())
    assert set(np.round((lab.skills(base) + 1) * 31 / 2, 4).ravel() % 1) == {0.0}
    change = np.zeros((STEPS, 8), np.float32)
    change[1:10] = 5.0
    unheeded = lab.steered(base, change, "between")
    heeded = lab.steered(base, np.ones(8), "all", np.ones(STEPS))
    plain, same, other = lab.execute([lab.plain(base), unheeded, heeded])
    np.testing.assert_allclose(plain.rows, same.rows, atol=1e-5)
    assert np.abs(plain.rows - other.rows).max() > 1e-4
    with pytest.raises(ValueError, match="no directions"):
        lab.direction("right_arm")


def test_a_controller_of_poses_cannot_be_steered(models):
    with pytest.raises(ValueError, match="of skill commands, not of 'pose'"):
        Runner(explicit(), *models[1:])


def test_results_name_the_models_and_the_command(models):
    """Hashes of controller, skill and directions; the options but not the folders."""
    set_command(["spectral", "evaluate", "x", "--out", "here", "--seeds", "1", "2"])
    try:
        report = Draft("dose", Runner(*models), "3268f5c4aa")
        report.add("row", {"metric": 1.0})
    finally:
        set_command([])
    (result,) = report.results
    assert result.command == "spectral evaluate x --seeds 1 2"
    names = [part.split()[0] for part in result.models.split(", ")]
    assert names == ["controller", "skill", "directions", "corpus"]
    assert result.models.endswith("corpus 3268f5c4")
