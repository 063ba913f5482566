"""Units, axes, frame rate, broken frames and floor, found from a person's motion."""

from dataclasses import replace

import numpy as np
import persons
import pytest

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.human.axes import UPS
from spectral_skills.motion.human.conditions import HumanOptions, settle
from spectral_skills.motion.human.recording import POINTS, Raw, point
from spectral_skills.motion.human.repairs import GRAVITY, MASSES, flights, true_rate
from spectral_skills.motion.human.sources import _SMPL
from spectral_skills.quaternion import rotate_planes

FPS = 60.0
Z_IS_UP = [2, 0, 1]  # of files whose y is up


def person(seconds: float = 2.0, **fields) -> Raw:
    """In metres, z up, ahead along x."""
    joints = persons.squats(seconds, FPS)[..., Z_IS_UP].astype(float)
    points = np.full((len(joints), len(POINTS), 3), np.nan)
    for name, joint in _SMPL.items():
        if joint < joints.shape[1]:
            points[:, point(name)] = joints[:, joint]
    return replace(Raw("squat", FPS, points, skeleton="SMPL"), **fields)


def jumper(flight_s: float = 0.4, jumps: int = 3) -> Raw:
    """Somebody who stands, leaves the floor in a parabola, and stands again."""
    stand = person(0.6).points[:1]
    t = np.arange(round(flight_s * FPS)) / FPS
    air = 0.5 * GRAVITY * t * (flight_s - t)
    height = np.concatenate([np.zeros(30), np.tile([*air, *np.zeros(30)], jumps)])
    return person(points=stand + height[:, None, None] * [0.0, 0.0, 1.0])


def settled(raw: Raw, **options):
    return settle(raw, HumanOptions(**options))


def said(raw, *words: str) -> bool:
    return any(all(word in note for word in words) for note in raw.notes)


def alike(a, b, within_m: float = 1e-9) -> bool:
    """The same motion, whatever its heading and where it begins."""
    for one in (a, b):
        assert np.isfinite(one.points).all()
    ways = []
    for one in (a, b):
        left = one.at("left_hip")[0] - one.at("right_hip")[0]
        angle = np.arctan2(left[1], left[0])
        turn = np.array(
            [
                [np.cos(angle), np.sin(angle), 0],
                [-np.sin(angle), np.cos(angle), 0],
                [0, 0, 1],
            ]
        )
        start = one.at("pelvis")[0] * [1, 1, 0]
        ways.append((one.points - start) @ turn.T)
    return np.abs(ways[0] - ways[1]).max() < within_m


@pytest.mark.parametrize(
    ("unit_m", "name"),
    [(1.0, ""), (0.01, "cm"), (0.001, "mm"), (0.0254, "in"), (0.1, "dm")],
)
def test_units_by_the_length_of_legs(unit_m, name):
    file = person()
    found = settled(replace(file, points=file.points / unit_m))
    assert alike(found, settled(file))
    assert said(found, f"Units are {name} ") == bool(name)


def test_units_of_nobody_are_refused_and_can_be_stated():
    small = person()
    small = replace(small, points=small.points / 0.0564444)
    with pytest.raises(ClipError, match=r"14\.\d m long in metres.*say --units"):
        settled(small)
    whole = settled(person())
    assert alike(settled(small, units="cmu"), whole, 1e-4)
    assert alike(settled(small, units="0.0564444"), whole)
    assert alike(settled(replace(small, skeleton="CMU")), whole, 1e-4)
    with pytest.raises(ClipError, match=r"82 m long with --units m"):
        settled(person(points=100 * person().points), units="m")
    for bad in ("furlong", "0", "nan", "-1"):
        with pytest.raises(ValueError, match="--units"):
            HumanOptions(units=bad)


@pytest.mark.parametrize("up", UPS)
@pytest.mark.parametrize("stated", [False, True])
def test_any_axis_may_be_up(up, stated):
    axis = "xyz".index(up[-1])
    above = np.eye(3)[axis] * (-1.0 if up.startswith("-") else 1.0)
    ahead = np.eye(3)[axis - 1]
    axes = np.stack([ahead, np.cross(above, ahead), above], axis=1)
    file = person()
    turned = replace(file, points=file.points @ axes.T)
    found = settled(turned, up=up if stated else None)
    assert alike(found, settled(file))
    assert not said(found, "mirrored")
    assert said(found, f"{up.upper()} is up")


def lying(on: str, seconds: float = 2.0) -> Raw:
    """Somebody on the floor with the feet at the origin and the head along z; y is up,
    and in the rest pose too."""
    front_up = [-1.0, 1.0, 1.0] if on == "back" else [1.0, -1.0, 1.0]
    flat = person(seconds).points[..., [1, 0, 2]] * front_up
    flat[..., 1] -= np.nanmin(flat[..., 1])
    return person(points=flat, rest_up="y")


@pytest.mark.parametrize("on", ["back", "belly"])
def test_the_rest_pose_tells_that_somebody_lies(on):
    found = settled(lying(on))
    assert said(found, "Y is probably up, as it is in the rest pose", "--up")
    assert not said(found, "mirrored")
    assert np.ptp(found.points[..., 2], axis=1).max() < 0.7
    # Nothing else tells.
    assert said(settled(replace(lying(on), rest_up=None)), "Z is ")


@pytest.mark.parametrize("rest", UPS)
def test_who_goes_about_stands_whatever_the_rest_pose(rest):
    """Files are turned as a whole, by their roots."""
    found = settled(replace(walker(0.0), rest_up=rest))
    assert alike(found, settled(walker(0.0)))
    assert said(found, "Z is up") == (rest == "z")
    other = f"though {rest.upper()} is in the rest pose"
    assert said(found, "Z is probably up", other) == (rest != "z")


def test_whose_floor_is_at_zero_stands_in_spite_of_the_rest_pose():
    away = person().points + [3.0, 3.0, 0.0]
    assert said(settled(person(points=away, rest_up="y")), "Z is probably up")
    assert said(settled(person(points=away + 1.0, rest_up="y")), "Y is probably up")


def test_six_axes_of_cmu(motions_folder):
    """With rest poses that are turned with the motion, and with ones that are not."""
    from spectral_skills.motion.human import cmu_pack, sources
    from spectral_skills.motion.human.axes import _to_z_up

    path = motions_folder / "cmu" / "07_12"
    file = sources._person(cmu_pack.read(path), "07_12", HumanOptions())
    assert file.rest_up == "y"
    plain = settled(file)
    for up in UPS:
        turn = _to_z_up(up).T @ _to_z_up("y")
        points = file.points @ turn.T
        for rest in (up, "y"):
            raw = replace(file, points=points, pelvis_turn=None, rest_up=rest)
            found = settled(raw)
            assert alike(found, plain, 1e-6)
            assert said(found, f"{up.upper()} is up.") == (rest == up)
            assert said(found, f"{up.upper()} is probably up") == (rest != up)


def test_left_handed_axes_are_mirrored():
    file = person()
    found = settled(replace(file, points=file.points * [1.0, -1.0, 1.0]))
    assert said(found, "swapped")
    assert alike(found, settled(file))


def test_turns_follow_the_points(motions_folder):
    """The bone of the pelvis keeps the hips where they are in it."""
    from spectral_skills.motion.human import cmu_pack, sources

    path = motions_folder / "cmu" / "07_12"
    file = sources._person(cmu_pack.read(path), "07_12", HumanOptions())
    mirror = np.array([-1.0, 1.0, 1.0])

    def mirrored(turn):
        return turn * [1.0, 1.0, -1.0, -1.0]

    swapped = replace(
        file, points=file.points * mirror, pelvis_turn=mirrored(file.pelvis_turn)
    )
    for raw in (file, swapped):
        found = settled(raw)
        assert found.pelvis_turn is not None
        back = found.pelvis_turn.T * [[1.0], [-1.0], [-1.0], [-1.0]]
        hip = found.at("left_hip") - found.at("pelvis")
        local = np.stack(rotate_planes(back, hip.T), axis=1)
        assert np.ptp(local, axis=0).max() < 1e-6


def test_rates_that_are_too_coarse():
    with pytest.raises(ClipError, match="5 Hz is too coarse"):
        settled(person(), fps=5.0)
    assert said(settled(person(), fps=12.0), "12 Hz is coarse")
    assert said(settled(person(), fps=120.0), "120 Hz as stated")
    for fps in (0.0, np.nan, 1e6):
        with pytest.raises(ClipError, match="frame rate"):
            settled(person(fps=fps))


def test_masses_are_a_whole():
    assert MASSES.sum() == pytest.approx(1.0)
    assert (MASSES >= 0).all()


def test_gravity_in_flight_gives_the_rate():
    jumps = jumper()
    falls = [flight.fall * FPS**2 for flight in flights(settled(jumps).points)]
    assert len(falls) == 3
    assert np.allclose(falls, GRAVITY, rtol=0.05)
    assert settled(jumps).fps == FPS
    for times in (2, 3, 4):
        found = settled(replace(jumps, fps=times * FPS))
        assert found.fps == FPS
        assert said(found, "3 flights", "60 Hz", f"not {times * FPS:g}")
    # The user is believed, and so is whoever has mended the rate already.
    assert settled(jumps, fps=120.0).fps == 120.0
    faster = replace(jumps, fps=120.0)
    assert settle(faster, HumanOptions(), fps_known=True).fps == 120.0


def test_one_flight_is_enough_for_cmu_only():
    one = replace(jumper(jumps=1), fps=120.0)
    found = settled(one)
    assert found.fps == 120.0
    assert said(found, "one flight", "60 Hz", "--fps.")
    assert settled(replace(one, skeleton="CMU")).fps == 60.0


def test_slow_falls_do_not_raise_the_rate():
    slow = replace(jumper(), fps=30.0)
    assert settled(slow).fps == 30.0


@pytest.mark.parametrize(
    ("name", "fps"),
    [("143_04", 60), ("cmu_60_01", 60), ("74_08", 60), ("74_09", 120), ("90_08", 60)]
    + [("90_09", 120), ("02_01", 120), ("walk", 120), ("1143_04", 120)]
    + [("60_01_salsa", 60), ("studio_2024_60_05_take3", 120), ("60_05_2024", 120)],
)
def test_what_is_known_of_cmu(name, fps):
    points = settled(person()).points
    assert true_rate(points, 120.0, name, "CMU")[0] == fps
    assert true_rate(points, 120.0, name, "LAFAN1")[0] == 120
    assert true_rate(points, 30.0, name, "CMU")[0] == 30


def test_gravity_is_believed_before_the_table():
    points = settled(jumper()).points.repeat(2, axis=0)
    points[1:-1:2] = 0.5 * (points[:-2:2] + points[2::2])  # 120 Hz
    assert true_rate(points, 120.0, "143_04", "CMU") == (120.0, "")


def t_pose(frame: np.ndarray) -> np.ndarray:
    """The arms out, the root at the origin."""
    pose = frame - frame[point("pelvis")]
    for side, sign in (("left", 1), ("right", -1)):
        shoulder = pose[point(f"{side}_shoulder")]
        for number, part in enumerate(("elbow", "wrist"), 1):
            pose[point(f"{side}_{part}")] = shoulder + [0, sign * 0.3 * number, 0]
    return pose


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("zero", [False, True])
def test_artificial_first_frames_are_left_out(count, zero):
    file = person()
    file = replace(file, points=file.points + [2.0, 1.0, 0.0])
    first = 0 * file.points[:1] if zero else t_pose(file.points[0])[None]
    with_pose = np.concatenate([*[first] * count, file.points])
    found = settled(replace(file, points=with_pose))
    assert found.frames == len(file.points)
    assert alike(found, settled(file))
    assert said(found, "first", "left out")


def test_teleports_are_cut_off_or_refused():
    file = person(4.0)
    jump = file.points.copy()
    jump[60:] += [1.0, 0.0, 0.0]
    found = settled(replace(file, points=jump))
    assert found.frames == len(jump) - 60
    assert said(found, "first 60 frames", "jumps 1.00 m")
    wild = file.points + (np.arange(240) // 40)[:, None, None] * [1.0, 0.0, 0.0]
    with pytest.raises(ClipError, match=r"frame 39: the body jumps 1\.\d\d m"):
        settled(replace(file, points=wild))


@pytest.mark.parametrize("frames", [1, 2, 3])
def test_swapped_markers_are_bridged(frames):
    file = person()
    spoilt = file.points.copy()
    spoilt[50 : 50 + frames, point("left_wrist")] += [0.0, 0.8, 0.3]
    spoilt[80 : 80 + frames] += [0.0, 0.0, 0.6]
    found = settled(replace(file, points=spoilt))
    assert found.frames == len(spoilt)
    assert alike(found, settled(file), 0.02)
    assert said(found, "bridged", "frame 49")


def test_jumps_are_spread():
    file = person()
    spoilt = file.points.copy()
    spoilt[60:, point("right_wrist")] += [0.4, 0.0, 0.0]
    found, clean = settled(replace(file, points=spoilt)), settled(file)
    steps = np.abs(np.diff(found.at("right_wrist") - clean.at("right_wrist"), axis=0))
    assert steps.max() < 0.06
    assert said(found, "spread", "right hand, right wrist")
    assert np.allclose(found.at("left_wrist"), clean.at("left_wrist"))


def test_what_is_no_motion():
    still = person().points[:1].repeat(60, axis=0)
    with pytest.raises(ClipError, match="a pose only: nothing moves by more than 0"):
        settled(person(points=still))
    breath = 0.0125 * np.sin(np.arange(60) / 9)[:, None, None] * [1.0, 0.0, 0.0]
    assert settled(person(points=still + breath)).frames == 60  # who only stands
    with pytest.raises(ClipError, match="T-pose only"):
        settled(person(points=t_pose(still[0])[None].repeat(60, axis=0)))
    with pytest.raises(ClipError, match=r"lasts 0\.47 s \(29 frames"):
        settled(person(points=person().points[:29]))
    hole = person().points.copy()
    hole[12, point("left_knee"), 1] = np.nan
    with pytest.raises(ClipError, match="frame 12: a joint is not a number"):
        settled(person(points=hole))
    flat = person().points.copy()
    flat[:, point("left_knee")] = flat[:, point("left_hip")]
    with pytest.raises(ClipError, match="left thigh has no length"):
        settled(person(points=flat))


def test_missing_points_are_made_or_missed():
    file = person().points.copy()
    for name in ("neck", "head"):
        file[:, point(name)] = np.nan
    found = settled(person(points=file))
    for name in ("neck", "head", "left hand", "right hand"):
        assert said(found, f"no {name}")
    assert (found.at("head")[:, 2] > found.at("neck")[:, 2]).all()
    hand = found.at("left_hand") - found.at("left_wrist")
    assert np.linalg.norm(hand, axis=1) == pytest.approx(0.08, abs=0.005)
    file[:, point("left_ankle")] = np.nan
    with pytest.raises(ClipError, match="no left ankle"):
        settled(person(points=file, fps=60.0))


def test_the_floor_is_where_feet_rest():
    file = person()
    clean = settled(file)
    high = settled(replace(file, points=file.points + [0.0, 0.0, 0.345]))
    assert said(high, "The floor was at 34.5 cm")
    assert alike(high, clean)
    # A single low frame is not the floor.
    dip = file.points.copy()
    dip[70, point("left_toe"), 2] -= 0.06
    assert np.allclose(settled(person(points=dip)).at("head"), clean.at("head"))
    lame = file.points.copy()
    lame[:, point("left_toe"), 2] += 0.05
    assert said(settled(person(points=lame)), "right toe rests 5.0 cm below")
    swing = file.points + np.sin(np.arange(120) / 6)[:, None, None] * [0.5, 0.0, 0.0]
    assert said(settled(person(points=swing)), "No foot ever rests")


def test_nobody_lies_under_the_floor():
    back = settled(lying("back"), up="y")
    assert said(back, "lies lower than the feet")
    assert back.points[..., 2].min() == pytest.approx(0.05, abs=0.02)
    assert not said(settled(person()), "lies lower")


def test_legs_of_two_lengths_are_noted():
    lame = person().points.copy()
    for part in ("knee", "ankle", "toe"):
        bone = lame[:, point(f"left_{part}")] - lame[:, point("left_hip")]
        lame[:, point(f"left_{part}")] += 0.4 * bone
    assert said(settled(person(points=lame)), "left leg is 1.4 times as long")
    assert not said(settled(person()), "times as long")


def test_far_away_becomes_near():
    file = person()
    found = settled(replace(file, points=file.points + [300.0, 400.0, 0.0]))
    assert said(found, "500 m from the origin")
    assert np.abs(found.at("pelvis")[0, :2]).max() < 1e-9
    near = settled(replace(file, points=file.points + [3.0, 4.0, 0.0]))
    assert near.at("pelvis")[0, :2] == pytest.approx([3.0, 4.0], abs=0.01)


def walker(degrees: float, stairs: bool = False) -> Raw:
    """Somebody stiff who goes in steps of half a metre, ahead along x and uphill."""
    stand = person().points[:1]
    steps = np.repeat(np.arange(9), 30) * 0.5
    for start in range(0, len(steps) - 30, 30):
        steps[start + 18 : start + 30] += np.linspace(0.0, 0.5, 12)
    rise = np.tan(np.radians(degrees)) * steps
    rise = 0.17 * np.round(steps / 0.5) if stairs else rise
    move = np.stack([steps, 0 * steps, rise], axis=1)
    return person(points=stand + move[:, None])


def test_a_floor_that_rises_is_made_level():
    found = settled(walker(1.2))
    assert said(found, "1.2 degrees", "8 cm")
    toes = found.at("left_toe")[:, 2]
    assert np.ptp(toes) < 0.005
    for raw in (walker(0.0), walker(0.2), person()):
        assert not said(settled(raw), "degrees")
    for raw in (walker(10.0), walker(0.0, stairs=True)):
        steep = settled(raw, up="z")
        assert said(steep, "slope or stairs of 1", "not made level")
        assert np.ptp(steep.at("left_toe")[:, 2]) > 0.5
    lame = walker(0.0)
    lame.points[:, point("left_toe"), 2] += 0.04
    assert not said(settled(lame), "degrees")


def test_hours_of_motion_are_refused():
    """Far more would not fit into memory."""
    still = person(0.6)
    hours = replace(still, fps=10.0, points=np.repeat(still.points[:1], 36_010, axis=0))
    with pytest.raises(ClipError, match=r"1.0 h of motion; cut it into parts"):
        settled(hours)


def test_turns_are_mended_where_the_points_are():
    """Two frames that look the other way, far off, are no motion of the pelvis."""
    turns = np.tile([1.0, 0.0, 0.0, 0.0], (120, 1))
    file = person(pelvis_turn=turns)
    points, spun = file.points.copy(), turns.copy()
    points[60:62] += 3.0
    spun[60:62] = (0.0, 0.0, 0.0, 1.0)
    found = settled(replace(file, points=points, pelvis_turn=spun))
    assert said(found, "bridged", "the body")
    assert found.pelvis_turn is not None and np.allclose(found.pelvis_turn, turns)
    # A turn without a jump is left alone.
    alone = settled(replace(file, pelvis_turn=spun)).pelvis_turn
    assert alone is not None and np.allclose(np.abs(alone), spun)
