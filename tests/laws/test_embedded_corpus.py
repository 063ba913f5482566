"""What the embedded corpus promises, measured on every clip with MuJoCo.

The generator is built on this package's own kinematics; nothing here uses them.
"""

from collections import defaultdict

import mujoco
import numpy as np
import pytest

from spectral_skills.motion.checks import measure, measure_corpus
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic import factors
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.robot import g1
from spectral_skills.robot.model import build_model

SECOND = 50
CONTACT_M = 0.005


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus.open(embedded_corpus())


@pytest.fixture(scope="module")
def measured(corpus):
    """These soles are exact: what is 5 mm above the floor carries nothing."""
    found = measure_corpus(corpus, contact_height_m=CONTACT_M)
    return dict(zip(corpus.names, found, strict=True))


def worst(measured, field, keep=lambda name: True, least=False):
    """The clip with the worst value, and the value."""
    values = {n: getattr(m, field) for n, m in measured.items() if keep(n)}
    name = (min if least else max)(values, key=values.__getitem__)
    return f"{name}: {values[name]:.4f}", values[name]


def walks(name):
    return "jog" not in factors.factors_of(name)


def test_soles_stay_on_the_floor(measured):
    message, depth = worst(measured, "sole_depth_mm")
    assert depth < 5.0, message


def test_clips_do_not_hover(measured):
    """Otherwise contacts, and with them sliding, could not be seen."""
    message, gap = worst(measured, "sole_gap_mm", walks)
    assert gap < 0.1, message


def test_stance_feet_do_not_slide(measured):
    message, slide = worst(measured, "slide_max")
    assert slide < 0.02, message


def test_joints_keep_to_soft_limits_and_speeds(measured):
    message, excess = worst(measured, "limit_excess")
    assert excess < 1e-6, message
    message, ratio = worst(measured, "speed_ratio")
    assert ratio < 0.75, message


def test_accelerations_are_bounded(measured):
    message, pelvis = worst(measured, "pelvis_acceleration", walks)
    assert pelvis < 10.0, message
    message, pelvis = worst(measured, "pelvis_acceleration")
    assert pelvis < 50.0, message
    message, foot = worst(measured, "foot_acceleration")
    assert foot < 50.0, message


def test_the_zero_moment_point_is_inside_the_soles(measured):
    """All but the jogs; two centimetres are allowed."""
    message, outside = worst(measured, "balance_max", walks)
    assert outside < 0.02, message


def test_only_jogs_leave_the_floor(measured):
    message, share = worst(measured, "airborne_share", walks)
    assert share == 0.0, message
    message, share = worst(
        measured, "airborne_share", lambda n: factors.factors_of(n) == {"jog"}, True
    )
    assert share > 0.0, message


def test_motors_can_do_it(measured):
    """In 99 % of the frames of every kind all torques are within motor limits."""
    able, frames = defaultdict(float), defaultdict(int)
    for name, m in measured.items():
        for kind in factors.factors_of(name) or {"stand"}:
            able[kind] += m.torque_share * m.frames
            frames[kind] += m.frames
    shares = {kind: able[kind] / frames[kind] for kind in frames}
    assert len(shares) == len(factors.FACTORS) + 1
    assert min(shares.values()) >= 0.99, shares


def test_the_floor_explains_the_motion(measured):
    """Root forces and moments that no contact gives are small."""
    message, force = worst(measured, "residual_force_95", walks)
    assert force < 0.03, message
    message, moment = worst(measured, "residual_moment_95", walks)
    assert moment < 4.0, message
    # In a jog the foot strikes with its edge; LAFAN1's runs have 0.83 and 37 Nm.
    message, force = worst(measured, "residual_force_95")
    assert force < 0.1, message
    message, moment = worst(measured, "residual_moment_95")
    assert moment < 60.0, message


def hovering(rows):
    """Lifted by 4.5 mm for two seconds, and carried off meanwhile."""
    rows[100:200, 2] += 0.0045
    rows[:, 0] += 0.1 * np.clip(np.arange(len(rows)) / SECOND - 2.0, 0.0, 2.0)
    return rows


def sunk(rows):
    rows[:, 2] -= 0.006
    return rows


def sliding(rows):
    rows[:, 1] += 0.03 * np.arange(len(rows)) / SECOND
    return rows


def swaying(rows):
    """Twice a second from the waist, faster than the soles could hold."""
    t = np.arange(len(rows)) / SECOND
    rows[:, 7 + g1.joint_index("waist_pitch")] += 0.4 * np.sin(4 * np.pi * t)
    return rows


@pytest.mark.parametrize(
    ("spoil", "field", "limit"),
    [
        (hovering, "sole_gap_mm", 0.1),
        (sunk, "sole_depth_mm", 5.0),
        (sliding, "slide_max", 0.02),
        (swaying, "balance_max", 0.02),
    ],
)
def test_a_spoiled_clip_breaks_its_law(corpus, spoil, field, limit):
    """The laws can fail: each on a standing clip made a little wrong."""
    index = next(i for i, name in enumerate(corpus.names) if name.startswith("stand_"))
    rows = np.array(corpus.qpos(index), dtype=np.float64)
    assert len(rows) > 220
    assert getattr(measure(rows, contact_height_m=CONTACT_M), field) < limit
    spoiled = spoil(rows.copy())
    assert getattr(measure(spoiled, contact_height_m=CONTACT_M), field) > limit


def test_it_is_an_hour_with_words(corpus):
    assert len(corpus) == 512 and 0.9 < corpus.hours < 1.25
    texts = [corpus.entry(i).text for i in range(len(corpus))]
    assert all(2 <= len(text.split("\n")) <= 3 for text in texts)
    assert len({line for text in texts for line in text.split("\n")}) > 400
    licences = {corpus.entry(i).licence for i in range(len(corpus))}
    assert licences == {"Apache-2.0"}


@pytest.fixture(scope="module")
def acts(corpus):
    """Per clip and frame what the body does, seen from outside by MuJoCo."""
    model = build_model(meshes=False, floor=False)
    data = mujoco.MjData(model)
    links = {n: model.body(n).id for n in g1.WRISTS}
    shoulders = [model.body(f"{s}_shoulder_roll_link").id for s in ("left", "right")]
    found = {}
    for index, name in enumerate(corpus.names):
        qpos = np.array(corpus.qpos(index), dtype=np.float64)
        places = np.empty((len(qpos), model.nbody, 3))
        for frame, row in enumerate(qpos):
            data.qpos[:] = row
            mujoco.mj_kinematics(model, data)
            places[frame] = data.xpos
        w, x, y, z = qpos[:, 3:7].T
        yaw = np.unwrap(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))
        # Over a second, so that the sway of single steps does not count.
        turned, moved = (v[SECOND:] - v[:-SECOND] for v in (yaw, qpos[:, :2]))
        middle = yaw[SECOND // 2 : len(turned) + SECOND // 2]
        ahead = moved[:, 0] * np.cos(middle) + moved[:, 1] * np.sin(middle)
        hands = places[:, [links[n] for n in g1.WRISTS], 2]
        found[name] = {
            "turning": np.abs(turned) > 0.2,
            "backward": ahead < -0.2,
            "jogging": ahead > 1.36,
            "arm up": (hands > places[:, shoulders, 2] + 0.1).any(axis=1),
        }
    return found


@pytest.mark.parametrize(
    "pair", [("arm up", "turning"), ("arm up", "backward"), ("arm up", "jogging")]
)
def test_left_out_pairs_are_not_in_the_motion_either(acts, pair):
    """Not only the names: no clip ever shows both, not even at different times."""
    first, second = pair
    seen = [sum(a[act].any() for a in acts.values()) for act in pair]
    assert min(seen) >= 15, seen
    both = [n for n, a in acts.items() if a[first].any() and a[second].any()]
    assert not both
