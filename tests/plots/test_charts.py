"""Charts of findings: everything drawn, falls marked, nothing from outside."""

import re
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_hex

from spectral_skills.experiments.findings import Chart, Series
from spectral_skills.plots import charts
from spectral_skills.plots.charts import draw


def _chart(kind, *series: Series) -> Chart:
    return Chart("A title & more", kind, "amplitude", "angle (rad)", series)


LINE = Series("right arm", (-2.0, 0.0, 2.0), (-0.5, 0.0, 0.6), ("fall", "", "raised"))


@pytest.fixture
def axes_of():
    """Draws a chart without writing it; gives its axes with their final places."""

    def drawn(kind, *series: Series):
        figure = charts.figure_of(_chart(kind, *series))
        figure.draw_without_rendering()
        return figure.axes[0]

    return drawn


@pytest.mark.parametrize("kind", ["line", "scatter", "bar", "path", "map"])
def test_every_kind_lies_in_a_page(kind):
    """Labels are text, series are named, falls explained, and nothing is loaded."""
    drawn = draw(_chart(kind, LINE, Series("turn", (0.0, 1.0), (0.0, 1.0))))
    for words in ("amplitude", "angle (rad)", "right arm", "turn", "the robot fell"):
        assert f">{words}<" in drawn
    assert ">raised<" in drawn and ">fall<" not in drawn
    assert 'aria-label="A title &amp; more' in drawn and "1 marked as falls" in drawn
    assert not re.search(r'(?:href|src)="(?!#|data:)', drawn)
    assert drawn.count("<svg") == drawn.count("</svg>") == 1
    assert draw(_chart(kind, LINE)) == draw(_chart(kind, LINE))


def test_without_a_fall_there_is_no_explanation():
    assert "fell" not in draw(_chart("line", Series("a", (0.0, 1.0), (0.0, 1.0))))


@pytest.mark.parametrize("kind", ["path", "map"])
def test_a_path_has_equal_axes(kind, axes_of):
    """A metre is as long forward as to the side; a map has no metres."""
    axes = axes_of(kind, Series("base", (0.0, 8.0), (0.0, 1.0)))
    assert bool(len(axes.get_xticks())) == (kind == "path")
    origin, moved = axes.transData.transform(((0.0, 0.0), (1.0, 1.0)))
    across, up = moved - origin
    assert across == pytest.approx(up)


def test_many_bars_are_side_by_side(axes_of):
    """64 places with two bars each: none hides another, and the chart is wide."""
    places = tuple(float(i) for i in range(1, 65))
    both = [Series(name, places, (1.0,) * 64) for name in ("a=+2", "a=-2")]
    assert charts.is_wide(_chart("bar", *both))
    patches = axes_of("bar", *both).patches
    edges = sorted((p.get_x(), p.get_width()) for p in patches)
    ends = np.array([x + width for x, width in edges[:-1]])
    assert len(edges) == 128
    assert (ends <= np.array([x for x, _ in edges[1:]]) + 1e-9).all()
    # Those that share no place are in the middle of theirs.
    apart = Series("a", (1.0,), (1.0,)), Series("b", (2.0,), (1.0,))
    middles = [p.get_x() + p.get_width() / 2 for p in axes_of("bar", *apart).patches]
    assert middles == pytest.approx([1.0, 2.0])


def test_roles_take_no_colour_from_the_others(axes_of):
    """Grey behind, a trail in ink; what is empty keeps its colour, but has no key."""
    point = (0.0, 1.0), (0.0, 1.0)
    axes = axes_of(
        "map",
        Series("others", *point, role="behind"),
        Series("squat", (), ()),
        Series("walk", *point),
        Series("ladder", *point, ("base", ""), role="trail"),
    )
    handles, labels = axes.get_legend_handles_labels()
    assert labels == ["others", "walk", "ladder"]
    colours = [to_hex(h.get_facecolor()[0]) for h in handles[:2]]
    assert colours == [charts.GREY, charts.COLOURS[1].lower()]
    assert handles[2].get_color() == charts.INK
    assert [text.get_text() for text in axes.texts] == ["base"]


@pytest.mark.parametrize("kind", ["line", "path", "scatter"])
def test_names_of_points_do_not_touch(kind, axes_of):
    """Four names at one place are around it; a fifth has no room. None is outside."""
    xs = (0.0, *(5.0,) * 5, 9.99, 10.0)
    names = ("", *(f"+ knob {i}" for i in range(5)), "at the edge", "")
    axes = axes_of(kind, Series("a curve with a name that is long", xs, xs, names))
    boxes = [t.get_window_extent() for t in axes.texts]
    assert len(boxes) == 5
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def test_many_points_are_one_picture():
    """A map of thousands of clips does not become thousands of elements."""
    many = tuple(np.linspace(0, 1, 5000).tolist())
    drawn = draw(_chart("scatter", Series("clips", many, many)))
    assert len(re.findall("<use", drawn)) < 100 and "data:image/png" in drawn


def test_what_was_not_measured():
    """Gaps are omitted, an empty chart says so, a wrong one is refused."""
    nan = float("nan")
    assert (
        "nan" not in draw(_chart("line", Series("a", (0.0, 1.0), (nan, 1.0)))).lower()
    )
    for kind in ("line", "scatter", "bar", "path"):
        assert "nothing measured" in draw(_chart(kind, Series("a", (), ())))
        assert "nothing measured" in draw(_chart(kind))
    with pytest.raises(ValueError, match="arm: x, y and marks"):
        draw(_chart("bar", Series("arm", (0.0, 1.0), (1.0,))))


def test_letters_that_the_font_lacks_are_boxes(tmp_path, recwarn):
    """A picture of a clip with a Japanese name came with a warning for each letter."""
    charts.save(charts.sheet(200, "歩く"), tmp_path / "sheet.png")
    assert not [w for w in recwarn if "Glyph" in str(w.message)]
