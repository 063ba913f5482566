"""Curves of a run: a readable picture from one line of log or from many."""

import json

import numpy as np
import pytest

from spectral_skills.plots import curves
from spectral_skills.plots.curves import draw_curves, spread


def pretraining(count: int, levels: int = 8, start: float = 1.0) -> list[dict]:
    rows = []
    for update in range(250, 250 * count + 1, 250):
        error = start * (0.2 + 0.8 * float(np.exp(-update / 2000)))
        row = {"update": update, "prediction": 0.9 * error, "gradient_norm": 0.4}
        row |= {"held_out": error, "shuffled": 1.05 * start, "seconds": 0.03 * update}
        row["held_out_levels"] = [error * (1.3 - i / 10) for i in range(levels)]
        rows.append(row | {"skill_std": 0.8, "sigreg": 0.02})
    return rows


def planning(count: int, paraphrased: bool = True) -> list[dict]:
    keys = ("loss", "gradient_norm", "held_out", *["paraphrased"][:paraphrased])
    return [
        dict.fromkeys(keys, 1 / (i + 1)) | {"update": 2 * (i + 1), "seconds": i}
        for i in range(count)
    ]


def tracking(number: int, probed: bool) -> dict:
    done = 1 - float(np.exp(-number / 40))
    row = {"frames": 400_000 * number, "seconds": 1.1 * number, "frames_per_s": 3.6e5}
    row |= {"reward/link_position": done, "reward/action_rate": done - 1}
    row |= {"cause/foot_position": 1 - done, "cause/broken": 0.0}
    row |= {"failures_per_s": 1 - done, "episode_s": 5 * done, "kl": 0.02}
    row |= {"actor_lr": 1e-3, "critic_lr": 1e-3 - 9e-6 * number, "std": 0.4}
    row |= {"sampler_entropy": 0.9, "contacts": 0, "value": 0.3, "value_loss": 0.3}
    if probed:
        row |= {"success_rate": done}
        row |= {"mpjpe_local_mm": 40.0, "mpjpe_global_mm": 90.0} if number > 1 else {}
    return row


@pytest.fixture
def draw(monkeypatch, tmp_path):
    """Draws a log; gives the panels by their titles."""
    kept = []
    monkeypatch.setattr(curves, "save", lambda figure, path: kept.append(figure))

    def drawn(rows: list[dict]) -> dict:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "log.jsonl").write_text(text)
        draw_curves(tmp_path)
        return {axes.get_title("left"): axes for axes in kept[-1].axes}

    return drawn


@pytest.mark.parametrize("count", [1, 2, 100])
@pytest.mark.parametrize(
    ("log", "panels"),
    [
        (lambda n: pretraining(n, levels=1), 5),
        (lambda n: pretraining(n, levels=8), 5),
        (planning, 2),
        (lambda n: [tracking(i, i % 2 == 0 or n == 1) for i in range(1, n + 1)], 9),
    ],
)
def test_every_panel_has_its_curves(draw, log, panels, count):
    """A single point is a mark, not an invisible line; every curve has its label."""
    found = draw(log(count))
    # The first probe of a tracking run had no success, so no error was measured.
    assert len(found) == panels - (panels == 9 and count == 1)
    for axes in found.values():
        assert axes.lines
        points = [line for line in axes.lines if len(line.get_xdata()) == 1]
        assert all(line.get_marker() == "o" for line in points)
    assert all(axes.texts for axes in found.values())


def test_a_planner_without_paraphrases_has_a_curve_less(draw):
    counts = [
        len(draw(planning(3, paraphrased))["mean squared error"].lines)
        for paraphrased in (True, False)
    ]
    assert counts == [3, 2]


def test_success_is_drawn_where_it_was_probed(draw):
    """In percent, at the frames of the rows that have it."""
    found = draw([tracking(i, i in (2, 4)) for i in range(1, 6)])
    (line,) = found["probe clips tracked to the end (%)"].lines
    assert line.get_xdata().tolist() == [800_000, 1_600_000]
    wanted = [100 * tracking(i, True)["success_rate"] for i in (2, 4)]
    assert line.get_ydata() == pytest.approx(wanted)


def test_each_learner_has_its_panels(draw):
    """PPO's log has divergences, the off-policy learner's has estimated values."""
    rows = [tracking(i, False) for i in range(1, 4)]
    ppo = set(draw(rows))
    rows = [row | {"value": 1.0, "end_atoms": 0.0} for row in rows]
    sac = set(draw([{k: v for k, v in row.items() if k != "kl"} for row in rows]))
    assert ppo - sac == {"KL divergence of an update"}
    assert sac - ppo == {"estimated value of actions"}


def test_times_of_compiling_do_not_cover_each_other(draw):
    """No frames pass in the first 90 seconds, in which two times would be written."""
    rows = [tracking(i, False) for i in range(1, 81)]
    found = draw([row | {"seconds": row["seconds"] + 90} for row in rows])
    (top,) = found["failures per robot and second, by cause"].child_axes
    labels = [label.get_text() for label in top.get_xticklabels()]
    assert labels == ["0 s", "150 s"]


def test_causes_that_never_happened_are_omitted(draw):
    """Those that did have their name at the end of the curve."""
    found = draw([tracking(i, False) for i in range(1, 4)])
    panel = found["failures per robot and second, by cause"]
    names = " ".join(text.get_text() for text in panel.texts)
    assert "foot position" in names and "broken" not in names


def test_a_run_that_goes_wrong_is_drawn(draw):
    rows = [pretraining(i + 1, start=10.0 ** (i - 3))[-1] for i in range(8)]
    rows = [row | {"skill_std": 2.0**i} for i, row in enumerate(rows)]
    low, high = draw(rows)["standard deviation of a skill dimension, mean"].get_ylim()
    assert low == 0 and high > 128


def test_labels_are_spread_and_keep_their_order():
    """By hand: 0, 1, 2 need room; 100 has it."""
    placed = spread(np.array([0.0, 1.0, 2.0, 100.0]), 0.0, 200.0, 13)
    assert placed.tolist() == [0.0, 13.0, 26.0, 100.0]
    placed = spread(np.array([95.0, 98.0, 99.0]), 0.0, 100.0, 13)
    assert placed.tolist() == [74.0, 87.0, 100.0]


def test_without_a_log_there_is_no_picture(tmp_path):
    """Nothing fails; a line that was cut off does not count."""
    draw_curves(tmp_path)
    (tmp_path / "log.jsonl").write_text('{"update": 2')
    draw_curves(tmp_path)
    assert not (tmp_path / "curves.png").exists()


def test_a_new_picture_replaces_the_old(tmp_path):
    """The folder holds the picture and the log, nothing temporary."""
    pictures = []
    for count in (1, 2):
        text = "".join(json.dumps(row) + "\n" for row in pretraining(count))
        (tmp_path / "log.jsonl").write_text(text)
        draw_curves(tmp_path)
        pictures.append((tmp_path / "curves.png").read_bytes())
    assert pictures[0] != pictures[1]
    assert {path.name for path in tmp_path.iterdir()} == {"curves.png", "log.jsonl"}
