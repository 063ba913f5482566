"""Names of points in a chart, written where there is room for them."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.transforms import ScaledTranslation

from spectral_skills.plots import ink

_LETTER, _LINE = 5.6, 11.0
"""Width of a letter and height of a line, points."""
_SIZE = 9.5
Point = tuple[float, float, str, str]
"""Place, name and colour."""
Box = tuple[float, float, float]
"""Left, right and foot of a name, points."""


def write(axes: Axes, points: Sequence[Point], under: str = "") -> None:
    """Write names beside points: over a colour `under` where other points may be, else
    with a dot that shows the place on a line.

    Each stands where no other is and within the chart; without room, it is left out.
    """
    if not points:
        return
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # only now are places known
    left, right = (edge * 72 / ink.DPI for edge in (axes.bbox.x0, axes.bbox.x1))
    style: dict = {"size": _SIZE, "zorder": 4}
    if under:
        style["bbox"] = {"facecolor": under, "alpha": 0.75, "pad": 0.6, "linewidth": 0}
    taken: list[Box] = []
    for x, y, name, colour in points:
        if not under:
            axes.plot(x, y, "o", color=colour, markersize=4.5)
        at, foot = axes.transData.transform((x, y)) * 72 / ink.DPI
        wide = _LETTER * len(name)
        for across, up in ((5, 4), (5, -_LINE), (-5 - wide, 4), (-5 - wide, -_LINE)):
            box = at + across, at + across + wide, foot + up
            inside = left <= box[0] and box[1] <= right
            if inside and not any(_touch(box, other) for other in taken):
                shift = ScaledTranslation(across / 72, up / 72, figure.dpi_scale_trans)
                where = axes.transData + shift
                axes.text(x, y, name, color=colour, transform=where, **style)
                taken.append(box)
                break


def _touch(one: Box, other: Box) -> bool:
    return one[0] < other[1] and other[0] < one[1] and abs(one[2] - other[2]) < _LINE
