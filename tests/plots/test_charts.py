"""Charts of findings: everything drawn, falls marked, nothing from outside."""

import re
from itertools import combinations

import numpy as np
import pytest

from spectral_skills.experiments.findings import Chart, Series
from spectral_skills.plots import charts
from spectral_skills.plots.charts import draw


def _chart(kind, *series: Series) -> Chart:
    return Chart("A title & more", kind, "amplitude", "angle (rad)", series)


LINE = Series("right arm", (-2.0, 0.0, 2.0), (-0.5, 0.0, 0.6), ("fall", "", "raised"))


@pytest.mark.parametrize("kind", ["line", "scatter", "bar", "path", "map"])
def test_every_kind_lies_in_a_page(kind):
    """Labels are text, names are there, falls explained, and nothing is loaded."""
    drawn = draw(_chart(kind, LINE, Series("turn", (0.0, 1.0), (0.0, 1.0))))
    for told in ("amplitude", "angle (rad)", "right arm", "turn", "the robot fell"):
        assert f">{told}<" in drawn
    assert ">raised<" in drawn and ">fall<" not in drawn
    assert 'aria-label="A title &amp; more' in drawn and "1 marked as falls" in drawn
    assert "http" not in drawn and drawn.count("<svg") == drawn.count("</svg>") == 1
    assert draw(_chart(kind, LINE)) == draw(_chart(kind, LINE))


def test_no_fall_no_explanation():
    """What is not in a chart is not explained."""
    assert "fell" not in draw(_chart("line", Series("a", (0.0, 1.0), (0.0, 1.0))))


@pytest.mark.parametrize("kind", ["path", "map"])
def test_a_path_has_equal_axes(kind, monkeypatch):
    """A metre is as long forward as to the side; a map has no metres."""
    kept = []
    monkeypatch.setattr(charts, "_svg", lambda figure, alt: kept.append(figure) or "")
    draw(_chart(kind, Series("base", (0.0, 8.0), (0.0, 1.0))))
    kept[0].draw_without_rendering()
    assert bool(len(kept[0].axes[0].get_xticks())) == (kind == "path")
    origin, moved = kept[0].axes[0].transData.transform(((0.0, 0.0), (1.0, 1.0)))
    across, up = moved - origin
    assert across == pytest.approx(up)


def test_many_bars_stand_side_by_side(monkeypatch):
    """64 places with two bars each: none hides another, and the chart is wide."""
    kept = []
    monkeypatch.setattr(charts, "_svg", lambda figure, alt: kept.append(figure) or "")
    places = tuple(float(i) for i in range(1, 65))
    both = [Series(name, places, (1.0,) * 64) for name in ("a=+2", "a=-2")]
    assert 'class="chart wide"' in draw(_chart("bar", *both))
    edges = sorted((p.get_x(), p.get_width()) for p in kept[0].axes[0].patches)
    ends = np.array([x + width for x, width in edges[:-1]])
    assert len(edges) == 128
    assert (ends <= np.array([x for x, _ in edges[1:]]) + 1e-9).all()
    # Those that share no place are in the middle of theirs.
    draw(_chart("bar", Series("a", (1.0,), (1.0,)), Series("b", (2.0,), (1.0,))))
    middles = [p.get_x() + p.get_width() / 2 for p in kept[1].axes[0].patches]
    assert middles == pytest.approx([1.0, 2.0])


def test_names_at_the_ends_do_not_touch(monkeypatch):
    """Ten curves that end at one point have ten lines of text."""
    kept = []
    monkeypatch.setattr(charts, "_svg", lambda figure, alt: kept.append(figure) or "")
    draw(_chart("line", *(Series(f"c{i}", (0.0, 1.0), (i, 1.0)) for i in range(10))))
    figure = kept[0]
    figure.draw_without_rendering()
    boxes = [t.get_window_extent() for t in figure.axes[0].texts]
    heights = np.sort([(box.y0 + box.y1) / 2 for box in boxes])
    assert len(boxes) == 10 and np.diff(heights).min() > 0.9 * boxes[0].height
    assert heights[0] > 0 and heights[-1] < figure.bbox.height


def test_roles_take_no_colour_from_the_others():
    """Grey behind, a trail in ink; what is empty keeps its colour, but has no key."""
    point = (0.0, 1.0), (0.0, 1.0)
    drawn = draw(
        _chart(
            "map",
            Series("others", *point, role="behind"),
            Series("squat", (), ()),
            Series("walk", *point),
            Series("ladder", *point, ("base", ""), role="trail"),
        )
    )
    keys = dict(re.findall(r'<b style="color:(.*?)">.</b>(.*?)<', drawn))
    assert list(keys.values()) == ["others", "walk", "ladder"]
    assert list(keys) == [charts._GREY, charts.ink.COLOURS[1], "var(--ink)"]
    assert ">base<" in drawn and "var(--card)" in drawn


@pytest.mark.parametrize("kind", ["line", "path", "scatter"])
def test_names_of_points_do_not_touch(kind, monkeypatch):
    """Four names at one place are around it; a fifth has no room. None is outside."""
    kept = []
    monkeypatch.setattr(charts, "_svg", lambda figure, alt: kept.append(figure) or "")
    xs = (0.0, *(5.0,) * 5, 9.99, 10.0)
    names = ("", *(f"+ knob {i}" for i in range(5)), "at the edge", "")
    draw(_chart(kind, Series("a curve with a name that is long", xs, xs, names)))
    kept[0].draw_without_rendering()
    axes = kept[0].axes[0]
    boxes = [t.get_window_extent() for t in axes.texts]
    assert len(boxes) == 5
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    assert all(axes.bbox.x0 <= b.x0 and b.x1 <= axes.bbox.x1 + 1 for b in boxes)


def test_colours_are_the_pages():
    """Ink and grid follow the page into the dark; colours of series stay."""
    drawn = draw(_chart("line", LINE)).lower()
    for colour in charts._PAGE:
        assert colour.lower() not in drawn
    assert "var(--ink)" in drawn or "var(--soft)" in drawn
    assert charts.ink.COLOURS[0].lower() in drawn


def test_many_points_are_one_picture():
    """A map of thousands of clips does not become thousands of elements."""
    many = tuple(np.linspace(0, 1, 5000).tolist())
    drawn = draw(_chart("scatter", Series("clips", many, many)))
    assert len(re.findall("<use", drawn)) < 100 and "data:image/png" in drawn


def test_what_was_not_measured():
    """Gaps are left out, an empty chart says so, a crooked one is refused."""
    nan = float("nan")
    assert (
        "nan" not in draw(_chart("line", Series("a", (0.0, 1.0), (nan, 1.0)))).lower()
    )
    for kind in ("line", "scatter", "bar", "path"):
        assert "nothing measured" in draw(_chart(kind, Series("a", (), ())))
        assert "nothing measured" in draw(_chart(kind))
    with pytest.raises(ValueError, match="arm: x, y and marks"):
        draw(_chart("bar", Series("arm", (0.0, 1.0), (1.0,))))
