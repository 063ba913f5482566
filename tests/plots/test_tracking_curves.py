"""Curves of a tracking run: readable from one line of log or from many."""

import json

import numpy as np
import pytest

from spectral_skills.plots import ink, tracking_curves
from spectral_skills.plots.tracking_curves import draw_curves


def _row(number: int, probed: bool) -> dict:
    done = 1 - float(np.exp(-number / 40))
    row = {"frames": 400_000 * number, "seconds": 1.1 * number, "frames_per_s": 3.6e5}
    row |= {"reward/link_position": done, "reward/action_rate": done - 1}
    row |= {"cause/foot_position": 1 - done, "cause/broken": 0.0}
    row |= {"failures_per_s": 1 - done, "episode_s": 5 * done, "kl": 0.02}
    row |= {"actor_lr": 1e-3, "critic_lr": 1e-3 - 9e-6 * number, "std": 0.4}
    row |= {"sampler_entropy": 0.9, "contacts": 0}
    if probed:
        row |= {"success_rate": done}
        row |= {"mpjpe_local_mm": 40.0, "mpjpe_global_mm": 90.0} if number > 1 else {}
    return row


@pytest.fixture
def figures(monkeypatch) -> list:
    """Figures instead of files."""
    kept = []
    monkeypatch.setattr(ink, "save", lambda figure, path: kept.append(figure))
    return kept


def _draw(folder, rows: list[dict]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "log.jsonl").write_text(text)
    draw_curves(folder)


@pytest.mark.parametrize("count", [1, 2, 100])
def test_every_panel_has_its_curve(tmp_path, figures, count):
    """From the first line on; a single point is a mark, not an invisible line."""
    _draw(tmp_path, [_row(i, i % 2 == 0 or count == 1) for i in range(1, count + 1)])
    panels = [axes for axes in figures[0].axes if axes.get_title("left")]
    # The first probe had no success, so there was no error to measure.
    assert len(panels) == (8 if count == 1 else 9)
    assert all(axes.lines for axes in panels)
    for axes in panels:
        single = [x for x in axes.lines if len(x.get_xdata()) == 1]
        assert all(line.get_marker() == "o" for line in single)


def test_success_is_drawn_where_it_was_probed(tmp_path, figures):
    """In percent, at the frames of the rows that have it."""
    _draw(tmp_path, [_row(i, i in (2, 4)) for i in range(1, 6)])
    (line,) = figures[0].axes[0].lines
    assert line.get_xdata().tolist() == [800_000, 1_600_000]
    wanted = [100 * _row(i, True)["success_rate"] for i in (2, 4)]
    assert line.get_ydata() == pytest.approx(wanted)


def test_each_learner_has_its_panels(tmp_path, figures):
    """PPO's log tells of divergences, the off-policy learner's of values."""
    rows = [_row(i, False) for i in range(1, 4)]
    _draw(tmp_path, rows)
    rows = [row | {"value": 1.0, "end_atoms": 0.0} for row in rows]
    _draw(tmp_path, [{k: v for k, v in row.items() if k != "kl"} for row in rows])
    ppo, sac = ({axes.get_title("left") for axes in f.axes} for f in figures)
    assert ppo - sac == {"KL of an update"}
    assert sac - ppo == {"what actions are believed to be worth"}


def test_times_of_compiling_are_not_written_over_each_other(tmp_path, figures):
    """No frames pass in the first 90 seconds, in which two times would be told."""
    rows = [_row(i, False) for i in range(1, 81)]
    _draw(tmp_path, [row | {"seconds": row["seconds"] + 90} for row in rows])
    times = [axes for axes in figures[0].axes if not axes.get_title("left")]
    told = [[label.get_text() for label in axes.get_xticklabels()] for axes in times]
    assert told and all(labels == ["0 s", "150 s"] for labels in told)


def test_causes_that_never_happened_are_left_away(tmp_path, figures):
    """And those that did have their name at the end of the curve."""
    _draw(tmp_path, [_row(i, False) for i in range(1, 4)])
    (panel,) = [a for a in figures[0].axes if "by cause" in a.get_title("left")]
    names = " ".join(text.get_text() for text in panel.texts)
    assert "foot position" in names and "broken" not in names


def test_labels_keep_apart_and_in_order():
    """By hand: 0, 1, 2 need room; 100 has it."""
    placed = ink.apart([0.0, 1.0, 2.0, 100.0], 0.0, 200.0, 13)
    assert placed == [0.0, 13.0, 26.0, 100.0]
    placed = ink.apart([95.0, 98.0, 99.0], 0.0, 100.0, 13)
    assert placed == [74.0, 87.0, 100.0]


def test_smoothing_keeps_constants_and_lines_inside():
    """A mean of neighbours changes neither."""
    line = np.arange(200.0)
    smooth = tracking_curves._smooth(line)
    assert smooth[2:-2] == pytest.approx(line[2:-2])
    assert tracking_curves._smooth(np.full(200, 3.0)) == pytest.approx(3.0)


def test_without_a_log_there_is_no_picture(tmp_path):
    """And nothing fails."""
    draw_curves(tmp_path)
    assert not (tmp_path / "curves.png").exists()
