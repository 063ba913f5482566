"""From points in unknown units and axes to a person in metres, z up, floor at zero.

Units, up axis, frame rate, frames that are no motion and the floor are found from the
motion itself. Everything found or done is one sentence of the recording's notes.
"""

from dataclasses import dataclass, replace

import numpy as np

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.gait import rate
from spectral_skills.motion.human.axes import UPS, levelled, same_sides, upright
from spectral_skills.motion.human.feet import standing_height
from spectral_skills.motion.human.recording import (
    POINTS,
    SIDES,
    Raw,
    Recording,
    leg_length,
    point,
)
from spectral_skills.motion.human.repairs import (
    bridged,
    smoothed,
    true_rate,
    whole_part,
)

UNITS_M = {"m": 1.0, "cm": 0.01, "mm": 0.001, "in": 0.0254, "dm": 0.1}
CMU_UNIT_M = 2.54 / 100 / 0.45
LEG_M = (0.45, 1.05)
"""Thigh and shank together, from children to tall people."""
_WIDEST_LEG_M = (0.3, 1.5)  # what is believed of units that the user states
_USUAL_LEG_M = 0.82
TOE_HEIGHT_M = 0.02
"""Of the ball of the foot over the floor when standing."""
_SLOW_M_S, _REST_S = 0.5, 0.06
_COARSEST_HZ, _COARSE_HZ = 10.0, 20.0
_SHORTEST_S, _LONGEST_S = 0.5, 3600.0
_STILL_M, _T_POSE_STILL_M = 0.02, 0.05
_FAR_M = 20.0
_FEET = [point(f"{side}_{part}") for side in SIDES for part in ("ankle", "toe")]
_LOW, _FLESH_M = 0.02, 0.05  # share of frames; below joints of a body that lies
_SIDES_DIFFER_M, _LEGS_DIFFER = 0.03, 1.2
_BEYOND = {
    "head": ("neck", "chest", 0.1),
    **{f"{side}_hand": (f"{side}_wrist", f"{side}_elbow", 0.08) for side in SIDES},
}
"""Points that are made: beyond which, away from which, and how far, m."""
_MADE = ("neck", *_BEYOND)
_PELVIS = [point(name) for name in ("pelvis", "left_hip", "right_hip")]


@dataclass(frozen=True)
class HumanOptions:
    """What the user knows better than the file."""

    fps: float | None = None
    """Frame rate, Hz; overrides the file's."""
    units: str | None = None
    """m, cm, mm, in, dm, cmu, or metres for one unit as a number."""
    up: str | None = None
    """Axis that points up: x, y, z, -x, -y or -z."""
    mapping: dict[str, str] | None = None
    """Joints of points of the body by name, where those found are wrong."""
    body_model: str | None = None
    """File or folder of SMPL models, for AMASS archives."""

    def __post_init__(self):
        if self.fps is not None and not 1.0 <= self.fps <= 1000.0:
            raise ValueError(f"--fps {self.fps:g}: not in 1..1000 Hz")
        if self.units is not None:
            _stated_unit(self.units)
        if self.up is not None and self.up.lower() not in UPS:
            raise ValueError(f"--up {self.up}: not one of {', '.join(UPS)}")


def settle(raw: Raw, options: HumanOptions, fps_known: bool = False) -> Recording:
    """The recording, or a ClipError that says why there is none.

    A rate that is known is not doubted.
    """
    raw = replace(raw, points=np.asarray(raw.points, dtype=np.float64))
    _check(raw)
    raw = stated_rate(raw, options.fps)
    if len(raw.points) > _LONGEST_S * raw.fps:
        reason = f"{len(raw.points) / raw.fps / 3600:.1f} h of motion"
        raise ClipError("too large", f"{reason}; cut it into parts of up to an hour")
    raw = completed(in_metres(raw, options.units))
    raw = without_jumps(raw)
    raw = same_sides(upright(raw, options.up))
    if options.fps is None and not fps_known:
        fps, note = true_rate(raw.points, raw.fps, raw.name, raw.skeleton)
        raw = raw.noted(note, fps=fps)
    _check_length(raw)
    raw = near_origin(on_floor(levelled(raw)))
    return Recording(**vars(raw))


def _check(raw: Raw) -> None:
    absent = np.isnan(raw.points).all(axis=(0, 2))
    lost = [POINTS[i] for i in np.flatnonzero(absent) if POINTS[i] not in _MADE]
    if lost:
        words = ", ".join(lost).replace("_", " ")
        raise ClipError("skeleton", f"the skeleton has no {words}")
    bad = ~np.isfinite(raw.points[:, ~absent]).all(axis=(1, 2))
    if bad.any():
        raise ClipError("not finite", "a joint is not a number", int(bad.argmax()))
    if len(raw.points) < 2:
        raise ClipError("empty", f"{len(raw.points)} frames; a motion needs 2")


def _stated_unit(units: str) -> float:
    known = {**UNITS_M, "cmu": CMU_UNIT_M}
    if units.lower() in known:
        return known[units.lower()]
    try:
        value = float(units)
    except ValueError:
        value = 0.0
    if not 1e-6 < value < 1e6:
        raise ValueError(f"--units {units}: not {', '.join(known)} or metres as number")
    return value


def in_metres(raw: Raw, units: str | None) -> Raw:
    """Scaled by the units that the user states, or that give legs of a person."""
    leg = leg_length(raw.points)
    left, right = (leg_length(raw.points, (side,)) for side in SIDES)
    longer = max(left, right) / min(left, right)
    if longer > _LEGS_DIFFER:
        side = SIDES[int(right > left)]
        odd = f"The {side} leg is {longer:.1f} times as long as the other: the joints"
        raw = raw.noted(f"{odd} or the file may be wrong.")
    if units is not None:
        scale = _stated_unit(units)
        if not _WIDEST_LEG_M[0] <= leg * scale <= _WIDEST_LEG_M[1]:
            reason = f"legs are {leg * scale:.3g} m long with --units {units}"
            raise ClipError("units", reason)
        note = f"Units are {units} as stated: legs of {leg * scale:.2f} m."
        return raw.noted(note, points=raw.points * scale)
    low, high = LEG_M
    names = {name: s for name, s in UNITS_M.items() if low <= leg * s <= high}
    if "CMU" in raw.skeleton and low <= leg * CMU_UNIT_M <= high:
        names = {"CMU's": CMU_UNIT_M}
    if not names:
        reason = (
            f"legs are {leg:.3g} m long in metres, {leg / 100:.3g} m in centimetres: "
            "no person's; say --units"
        )
        raise ClipError("units", reason)
    best = min(names, key=lambda name: abs(np.log(leg * names[name] / _USUAL_LEG_M)))
    scale = names[best]
    if best == "m":
        return raw
    note = f"Units are {best} ({scale:.6g} m): legs of {leg * scale:.2f} m."
    return raw.noted(note, points=raw.points * scale)


def stated_rate(raw: Raw, fps: float | None) -> Raw:
    """With the rate of the user, or that of the file."""
    note = "" if fps is None else f"The frame rate is {fps:g} Hz as stated."
    fps = raw.fps if fps is None else float(fps)
    if not (1.0 <= fps <= 1000.0):
        raise ClipError(
            "frame rate", f"frame rate {fps:g} is not 1..1000 Hz; pass --fps"
        )
    if fps < _COARSEST_HZ:
        reason = f"{fps:g} Hz is too coarse to see steps; {_COARSEST_HZ:g} Hz at least"
        raise ClipError("frame rate", reason)
    coarse = f"{fps:g} Hz is coarse: short contacts may be missed."
    return raw.noted(note, coarse if fps < _COARSE_HZ else "", fps=fps)


def without_jumps(raw: Raw) -> Raw:
    """Without frames that are no motion."""
    frames, notes = whole_part(raw.points, raw.fps)
    raw = raw.part(frames)
    points, more = smoothed(raw.points, raw.fps)
    turns = raw.pelvis_turn
    if turns is not None:
        mended = (points != raw.points)[:, _PELVIS].any(axis=(1, 2))
        turns = bridged(turns, mended)
    return raw.noted(*notes, *more, points=points, pelvis_turn=turns)


def _check_length(raw: Raw) -> None:
    duration = (len(raw.points) - 1) / raw.fps
    if duration < _SHORTEST_S:
        frames = f"{len(raw.points)} frames at {raw.fps:g} Hz"
        reason = f"it lasts {duration:.2f} s ({frames}); {_SHORTEST_S:g} s at least"
        raise ClipError("short", reason)
    moved = np.ptp(raw.points, axis=0).max()
    t_pose = moved < _T_POSE_STILL_M and _is_t_pose(raw)
    if t_pose or moved < _STILL_M:
        what = "a T-pose only" if t_pose else "a pose only"
        reason = f"{what}: nothing moves by more than {100 * moved:.1f} cm"
        raise ClipError("static", reason)


def _is_t_pose(raw: Raw) -> bool:
    """Whether the arms are out to the sides all the time."""
    across = raw.at("left_shoulder") - raw.at("right_shoulder")
    arms = raw.at("left_wrist") - raw.at("right_wrist")
    cosine = (across * arms).sum(axis=1) / np.linalg.norm(across, axis=1)
    length = sum(
        np.linalg.norm(raw.at(f"{s}_wrist") - raw.at(f"{s}_shoulder"), axis=1)
        for s in SIDES
    )
    return bool((cosine > 0.8 * (length + np.linalg.norm(across, axis=1))).all())


def completed(raw: Raw) -> Raw:
    """Neck, head and hands made from their neighbours where a file lacks them."""
    points, size = raw.points.copy(), leg_length(raw.points) / _USUAL_LEG_M
    absent = {POINTS[i] for i in np.flatnonzero(np.isnan(points).all(axis=(0, 2)))}
    if "neck" in absent:
        shoulders = [points[:, point(f"{side}_shoulder")] for side in SIDES]
        points[:, point("neck")] = np.mean(shoulders, axis=0)
        raw = raw.noted("The file has no neck: it is put between the shoulders.")
    for name, (near, far, length) in _BEYOND.items():
        if name in absent:
            along = points[:, point(near)] - points[:, point(far)]
            along /= np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-9)
            points[:, point(name)] = points[:, point(near)] + length * size * along
            made = f"The file has no {name}: it is put beyond the {near}."
            raw = raw.noted(made.replace("_", " "))
    return replace(raw, points=points)


def on_floor(raw: Raw) -> Raw:
    """Moved up or down so that feet that rest are on the floor.

    Where the body lies deeper than the toes, as on the back, it is on the floor.
    """
    low, rests = [], False
    for side in SIDES:
        toe = raw.at(f"{side}_toe")
        speed = np.linalg.norm(rate(toe, raw.fps), axis=1)
        low.append(standing_height(toe[:, 2], speed))
        still = (speed < _SLOW_M_S) & (toe[:, 2] < low[-1] + 0.05)
        span = 1 + round(_REST_S * raw.fps)
        rests |= bool(np.convolve(still, np.ones(span)).max() > span - 0.5)
    apart = abs(low[0] - low[1])
    floor = (min(low) if apart > _SIDES_DIFFER_M else sum(low) / 2) - TOE_HEIGHT_M
    body = np.delete(raw.points[..., 2], _FEET, axis=1).min(axis=1)
    lowest, notes = float(np.quantile(body, _LOW)), []
    if lowest < floor - _FLESH_M:
        floor = lowest - _FLESH_M
        notes.append("The body lies lower than the feet: the floor is put under it.")
    elif not rests:
        notes.append("No foot ever rests: the floor is put below the lowest toes.")
    elif apart > _SIDES_DIFFER_M:
        lower = SIDES[int(np.argmin(low))]
        notes.append(f"The {lower} toe rests {100 * apart:.1f} cm below the other.")
    if abs(floor) > 0.005:
        notes.append(f"The floor was at {100 * floor:.1f} cm.")
    return raw.noted(*notes, points=raw.points - [0.0, 0.0, floor])


def near_origin(raw: Raw) -> Raw:
    """Moved to the origin if it begins far from there."""
    start = raw.at("pelvis")[0, :2]
    away = float(np.linalg.norm(start))
    if away <= _FAR_M:
        return raw
    points = raw.points - [*start, 0.0]
    return raw.noted(f"It began {away:.0f} m from the origin.", points=points)
