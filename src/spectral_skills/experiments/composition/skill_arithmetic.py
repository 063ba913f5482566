"""Raising the right arm of a walk by adding and blending skills of other motions.

A skill that shows a raised arm also carries the rest of its motion; here that rest is
measured beside steering. Every line is applied for the whole run.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from spectral_skills.control.batch import Run
from spectral_skills.experiments.composition.lab import Executed, Lab
from spectral_skills.experiments.effects import measure
from spectral_skills.experiments.findings import Chart, Series
from spectral_skills.experiments.token_directions import Described
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.results import Result

RAISED, LOWERED = -1.8, -0.2
"""rad; a shoulder pitch under the first is a raised arm, over the second none."""
STANDS, WALKS = 0.1, 0.3
"""m/s; slower than the first stands, faster than the second walks."""
METRICS = ("speed", "heading", "right_shoulder_pitch", "left_shoulder_pitch", "apex")
PLAIN, BLEND, PAIR = "unsteered", "blend", "clip pair"
STANDING, WALKING, STEERING = "standing means", "walking means", "steering"
TITLES = {
    PLAIN: "unsteered walk",
    BLEND: "blend to standing, arm raised",
    PAIR: "arm-raise clip less idle",
    STANDING: "standing, raised less not",
    WALKING: "walking, raised less not",
    STEERING: "steering, right arm",
}
PAPER: dict[str, dict[float, tuple[str, ...]]] = {
    PLAIN: {0: ("0.71", "-2", "-0.05", "-0.04", "15.6")},
    BLEND: {
        0.5: ("0.26", "-50", "-1.09", "+0.10", "8.0"),
        1.0: ("0.00", "-11", "-2.38", "+0.27", "0.0"),
    },
    PAIR: {
        0.5: ("0.71", "-42", "-0.96", "+0.17", "20.6"),
        0.75: ("0.66", "-55", "-1.64", "+0.33", "23.7"),
        1.0: ("0.63", "-41", "-2.30", "+0.42", "25.6"),
    },
    STANDING: {
        0.5: ("0.82", "-8", "-0.65", "-0.28", "18.4"),
        1.0: ("0.90", "+10", "-1.70", "-0.68", "22.9"),
        1.5: ("0.94", "+15", "-2.65", "-1.03", "26.6"),
    },
    WALKING: {
        0.5: ("0.75", "+27", "-0.59", "-0.35", "18.7"),
        1.0: ("0.44", "+77", "-1.56", "-0.91", "22.4"),
        1.5: ("0.24", "+120", "-2.34", "-1.36", "25.9"),
    },
    STEERING: {
        1.0: ("0.74", "+4", "-0.46", "-0.08", "14.8"),
        2.0: ("0.75", "+6", "-0.97", "-0.12", "14.6"),
        3.0: ("0.73", "+20", "-1.51", "-0.15", "14.0"),
        4.0: ("0.64", "+41", "-2.01", "-0.18", "12.7"),
    },
}
"""By lambda or amplitude: speed, heading, right and left shoulder, left foot apex."""


@dataclass(frozen=True)
class Skills:
    """(d,) mean skills of motions with the right arm raised, and without."""

    arm_clip: np.ndarray
    """Of one clip that stands with only its right arm raised."""
    idle_clip: np.ndarray
    """Of one clip that stands."""
    standing: tuple[np.ndarray, np.ndarray]
    """Raised and not, over all that stand."""
    walking: tuple[np.ndarray, np.ndarray]


def gather(found: Described, corpus: Corpus) -> Skills:
    """Find raised arms in a corpus whose clips are named by what they do."""
    right, left = (
        found.attribute(f"{side}_shoulder_pitch") for side in ("right", "left")
    )
    speed = found.attribute("forward_speed")
    plain = np.array(
        [factors_of(name) <= {"raise", "forward"} for name in corpus.names]
    )
    known = plain[found.clips]
    raised, lowered = known & (right < RAISED), known & (right > LOWERED)
    stands, walks = np.abs(speed) < STANDS, speed > WALKS
    alone = raised & stands & (left > LOWERED)
    idle = [i for i, name in enumerate(corpus.names) if not factors_of(name)]

    def mean(windows: np.ndarray, told: str) -> np.ndarray:
        if not windows.any():
            raise ValueError(f"the corpus has no window of {told}")
        return found.skills[windows].mean(axis=0)

    mean(alone, "standing with the right arm alone raised")
    clip = np.bincount(found.clips[alone]).argmax()
    return Skills(
        mean(alone & (found.clips == clip), "the arm clip"),
        mean(np.isin(found.clips, idle[:1]), "a clip that only stands"),
        (mean(raised & stands, "an arm raised"), mean(lowered & stands, "standing")),
        (mean(raised & walks, "a raised arm"), mean(lowered & walks, "walking")),
    )


def runs(lab: Lab, base: Base, skills: Skills) -> dict[tuple[str, float], Run]:
    """Every line of the table, by its way and lambda or amplitude."""
    own = lab.skills(base)
    changes = {
        BLEND: skills.arm_clip - own,
        PAIR: skills.arm_clip - skills.idle_clip,
        STANDING: skills.standing[0] - skills.standing[1],
        WALKING: skills.walking[0] - skills.walking[1],
        STEERING: lab.direction("right_arm_1"),
    }
    made = {(PLAIN, 0.0): lab.plain(base)}
    for way, change in changes.items():
        for size in PAPER[way]:
            # One line for every step: no ramp, as in the paper.
            moved = np.broadcast_to(size * change, own.shape)
            made[way, size] = lab.steered(base, moved, f"{TITLES[way]} {size:g}")
    return made


def measured(lab: Lab, executed: Executed) -> tuple[float, ...]:
    """What the table tells of a run: `METRICS`, the apex in cm."""
    found = measure(executed.rows, lab.hold(executed.run.base))
    values = {name: found[name] for name in METRICS if name != "apex"}
    return (*values.values(), 100.0 * found["left_apex"])


def cells(
    lab: Lab, experiment: str, executed: dict[tuple[str, float], Executed]
) -> Iterator[Result]:
    """The table's numbers; a run that fell has no others."""
    names = ("speed", "heading", "right shoulder", "left shoulder", "left foot apex")
    units = ("m/s", "deg", "rad", "rad", "cm")
    for (way, size), one in executed.items():
        row = TITLES[way] + (f", {size:g}" if size else "")
        yield lab.cell(experiment, row, "falls", not one.stands, "of 1", paper="0")
        if one.stands:
            columns = zip(
                names, measured(lab, one), units, PAPER[way][size], strict=True
            )
            for name, value, unit, paper in columns:
                yield lab.cell(experiment, row, name, value, unit, paper=paper)


def charts(lab: Lab, executed: dict[tuple[str, float], Executed]) -> tuple[Chart, ...]:
    """Speed and heading against how far the arm has risen."""
    found = {key: measured(lab, one) for key, one in executed.items()}
    plain = found[PLAIN, 0.0]
    pictures = []
    for column, title, label in (
        (0, "Speed while the arm rises", "speed, m/s"),
        (1, "Heading while the arm rises", "heading change, deg"),
    ):
        series = []
        for way in [w for w in TITLES if w != PLAIN]:
            sizes = [size for other, size in found if other == way]
            lines = [plain, *(found[way, size] for size in sizes)]
            zero = plain[column] if column else 0.0
            x = tuple(line[2] for line in lines)
            y = tuple(line[column] - zero for line in lines)
            falls = ("" if executed[way, size].stands else "fall" for size in sizes)
            series.append(Series(TITLES[way], x, y, ("", *falls)))
        axis = "right shoulder pitch, rad"
        pictures.append(Chart(title, "line", axis, label, tuple(series)))
    return tuple(pictures)
