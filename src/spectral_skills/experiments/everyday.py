"""Nine lists of sixty everyday requests, and whether a robot does what was asked.

`everyday.toml` says for each request which measures must lie in which ranges. Measures
are read from the robot's own motion, never from what it was commanded, so it does not
matter how a request was understood. A request that nothing can fulfil has no ranges: it
should be refused, and doing anything else in its place is wrong.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
import torch
from scipy.ndimage import gaussian_filter1d
from tqdm import tqdm

from spectral_skills import rotation
from spectral_skills.config import read_table
from spectral_skills.control.bundle import Bundle
from spectral_skills.experiments.effects import headings
from spectral_skills.experiments.findings import Draft, Findings, MeasuredWith
from spectral_skills.models import Models
from spectral_skills.motion.corpus import FPS
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.planner.listener import Spoken, speak
from spectral_skills.planner.text import MiniLM, TextEncoder
from spectral_skills.robot import g1

Answer = Literal["done", "not done", "refused"]
_SIDES = ("left", "right")
_FACE = (0.05, 0.0, 0.42)
"""Where a face would be, seen from the torso, m."""
_OFF_FLOOR_M = 0.03
"""Height of a sole above the floor from which a foot is lifted."""
_SWING_M, _CLAP_M, _THRUST_M = 0.05, 0.1, 0.15
"""How far a hand goes to and fro in a swing, two hands come together in a clap, and a
hand goes forward in a punch."""
_TOGETHER_M = 0.25
"""Distance of the wrists at which hands that clap are together."""
_LINKS = (
    *("left_shoulder_pitch_link", "right_shoulder_pitch_link"),
    *g1.WRISTS,
    *g1.FEET,
    "torso_link",
)


class EverydayRequest(NamedTuple):
    text: str
    must: Mapping[str, tuple[float, float]]
    """Least and largest value of each measure; empty for what cannot be done."""


LISTS: Mapping[str, tuple[EverydayRequest, ...]] = {
    name: tuple(
        EverydayRequest(
            one["text"], {k: (v[0], v[1]) for k, v in one.get("must", {}).items()}
        )
        for one in requests
    )
    for name, requests in read_table(__file__).items()
}
REQUESTS = LISTS["requests"]


@dataclass(frozen=True)
class RequestVerdict:
    request: EverydayRequest
    answer: Answer
    missed: Mapping[str, float]
    """Measures that were out of their ranges."""
    fell: bool = False
    understood: str = ""
    """Known sentences by which it was understood."""

    @property
    def right(self) -> bool:
        """Whether what can be done was done, and the rest refused."""
        return self.answer == ("done" if self.request.must else "refused")


def judge(request: EverydayRequest, spoken: Spoken) -> RequestVerdict:
    """Judge one run; nothing is done unless every part of a request was understood."""
    fell = spoken.fell_at_s is not None
    known = "; ".join(step.nearest for step in spoken.steps if step.understood)
    if not all(step.understood for step in spoken.steps):
        return RequestVerdict(request, "refused", {}, fell, known)
    missed = {} if fell else misses(request, np.asarray(spoken.rollout.robot[:, 0]))
    done = bool(request.must) and not missed and not fell
    return RequestVerdict(request, "done" if done else "not done", missed, fell, known)


def misses(request: EverydayRequest, rows: np.ndarray) -> dict[str, float]:
    """Measures of rows (T, 36) that are out of the ranges of a request."""
    found = measure(rows)
    return {
        name: found[name]
        for name, (least, most) in request.must.items()
        if not least <= found[name] <= most
    }


def ask(
    bundle: Bundle,
    encoder: TextEncoder,
    requests: Iterable[EverydayRequest] = REQUESTS,
    seed: int = 0,
) -> list[RequestVerdict]:
    """Say each request to a standing robot, and judge what it does."""
    found = []
    for request in tqdm(list(requests), desc="requests", disable=None):
        found.append(judge(request, speak(bundle, encoder, request.text, seed=seed)))
    return found


def everyday(
    models: Models, bundle: Bundle, seed: int = 0, planned: bool = False
) -> Findings:
    """Table of the requests: what can be done is done, and the rest is refused.

    With `planned`, all is planned but what a base shows.
    """
    title = "Planning: everyday"
    if planned:
        bundle, title = replace(bundle, motions={}), f"{title}, planned"
    measured = MeasuredWith.of(models, "cpu", "planner")
    corpus = models.skill_planner.config.about.corpus
    draft = Draft("everyday", measured, corpus, title, seed)
    for name, requests in LISTS.items():
        about = "" if requests is REQUESTS else f"{name} list: "
        _add(draft, ask(bundle, MiniLM(), requests, seed), about)
    return draft.findings()


def _add(draft: Draft, found: Sequence[RequestVerdict], about: str) -> None:
    """Add the rows of one list."""
    can = [one for one in found if one.request.must]
    cannot = [one for one in found if not one.request.must]
    for row, some in (("can be done", can), ("cannot be done", cannot)):
        counts = Counter(one.answer for one in some)
        values = {answer: counts[answer] for answer in ("done", "not done", "refused")}
        values["falls"] = sum(one.fell for one in some)
        draft.add(about + row, values, len(some))
    right = 100 * float(np.mean([one.right for one in found]))
    draft.add(f"{about}all requests", {"right": right}, len(found))
    for one in found:
        refused = one.answer == "refused"
        values = {"success": one.right, "refused": refused, **one.missed}
        draft.add(one.request.text, values)


def measure(rows: np.ndarray) -> dict[str, float]:
    """What people see in rows (T, 36) of a robot on a level floor.

    Places of hands, feet and trunk are extremes that last for a twentieth of the time,
    so that a single frame does not count; those of a jump or a kick are shorter.
    """
    rows = np.asarray(rows, np.float64)
    body = _Seen(rows)
    sides = {name: value for side in range(2) for name, value in body.side(side)}
    either = {
        "hand_m": "hand_m",
        "swings": "swings",
        "thrusts": "thrusts",
        "reach_m": "reach_m",
        "hand_mps": "hand_mps",
        "foot_m": "foot_m",
        "one_foot_s": "foot_up_s",
    }
    found = {
        name: max(sides[f"{side}_{own}"] for side in _SIDES)
        for name, own in either.items()
    }
    found["lowest_hand_m"] = min(sides[f"{side}_lowest_m"] for side in _SIDES)
    found["face_m"] = min(sides[f"{side}_face_m"] for side in _SIDES)
    return sides | found | body.travel() | body.trunk() | body.both()


class _Seen:
    """The parts of a body, frame by frame."""

    def __init__(self, rows: np.ndarray):
        whole = torch.as_tensor(rows, dtype=torch.float32)
        self.rows, self.heading = rows, rotation.heading(whole[:, 3:7])
        links = _links()(whole)
        place = links.position.numpy().astype(np.float64)
        self.shoulders, self.hands = place[:, :2], place[:, 2:4]
        self.feet = place[:, 4:6]
        self.torso = links.quaternion[:, 6]
        face = rotation.rotate(self.torso, torch.tensor(_FACE)).numpy()
        self.face = place[:, 6] + face
        from_pelvis = (links.position - whole[:, None, :3])[:, 2:4]
        seen = rotation.rotate_inverse(self.heading[:, None], from_pelvis)
        self.seen_hands = seen.numpy().astype(np.float64)
        """(T, 2, 3) from the pelvis, forward, left and up."""
        self.soles = self.feet[..., 2] - self.feet[..., 2].min()

    def side(self, i: int) -> Iterable[tuple[str, float]]:
        """Measures of the left (0) or the right arm and leg."""
        above = self.hands[:, i, 2] - self.shoulders[:, i, 2]
        hand = self.seen_hands[:, i]
        smooth = gaussian_filter1d(hand, 2.0, axis=0)
        speed = np.linalg.norm(np.diff(smooth, axis=0), axis=1) * FPS
        lifted = self.soles[:, i] > _OFF_FLOOR_M
        found = {
            "hand_m": _most(above),
            "lowest_m": _least(self.hands[:, i, 2]),
            "reach_m": _most(hand[:, 0]),
            "hand_mps": float(speed.max()),
            "face_m": _least(np.linalg.norm(self.hands[:, i] - self.face, axis=1)),
            "swings": max(_turns(smooth[:, k], _SWING_M) for k in range(3)) / 2,
            "thrusts": _turns(smooth[:, 0], _THRUST_M) / 2,
            "foot_m": float(self.soles[:, i].max()),
            "foot_up_s": _longest(lifted) / FPS,
        }
        return ((f"{_SIDES[i]}_{name}", value) for name, value in found.items())

    def travel(self) -> dict[str, float]:
        """Where a robot has gone, seen from where it began."""
        rows, yaw = self.rows, headings(self.rows)
        smooth = gaussian_filter1d(rows[:, :2], FPS / 4, axis=0, mode="nearest")
        steps = np.linalg.norm(np.diff(smooth, axis=0), axis=1)
        gone = rows[-1, :2] - rows[0, :2]
        forward = gone @ (np.cos(yaw[0]), np.sin(yaw[0]))
        left = gone @ (-np.sin(yaw[0]), np.cos(yaw[0]))
        turn = float(np.degrees(yaw[-1] - yaw[0]))
        return {
            "forward_m": float(forward),
            "left_m": float(left),
            "sideways_m": abs(float(left)),
            "path_m": float(steps.sum()),
            "speed_mps": float(steps.mean()) * FPS,
            "last_mps": float(steps[-FPS:].mean()) * FPS,
            "turn_deg": turn,
            "turned_deg": abs(turn),
        }

    def trunk(self) -> dict[str, float]:
        """Heights and leans, and how fast joints move."""
        up = rotation.rotate(self.torso, torch.tensor((0.0, 0.0, 1.0)))
        ahead = rotation.rotate_inverse(self.heading, up).numpy()
        lean = np.degrees(np.arctan2(ahead[:, 0], ahead[:, 2]))
        waist = self.rows[:, 7 + g1.joint_index("waist_yaw")]
        speed = np.diff(self.rows[:, 7:], axis=0) * FPS
        return {
            "lowest_m": _least(self.rows[:, 2]),
            "last_height_m": float(self.rows[-1, 2]),
            "lean_deg": _most(lean),
            "twist_deg": float(np.degrees(np.ptp(waist))),
            "joints_rad_s": float(np.sqrt(np.square(speed).mean())),
        }

    def both(self) -> dict[str, float]:
        """What both hands or both feet do together."""
        hands = np.linalg.norm(self.hands[:, 0] - self.hands[:, 1], axis=1)
        feet = np.linalg.norm((self.feet[:, 0] - self.feet[:, 1])[:, :2], axis=1)
        near = gaussian_filter1d(hands, 1.0)
        lifted = self.soles > _OFF_FLOOR_M
        swing_s = lifted.sum(axis=0) / FPS
        return {
            "hands_apart_m": _most(hands),
            "feet_apart_m": _most(feet),
            "claps": _dips(near, _TOGETHER_M, _CLAP_M),
            "air_m": float(self.soles.min(axis=1).max()),
            "steps": float((lifted[1:] & ~lifted[:-1]).sum()),
            "uneven": float(abs(swing_s[0] - swing_s[1]) / max(swing_s.max(), 0.1)),
        }


@cache
def _links() -> Kinematics:
    return Kinematics(_LINKS)


def _most(values: np.ndarray) -> float:
    return float(np.percentile(values, 95))


def _least(values: np.ndarray) -> float:
    return float(np.percentile(values, 5))


def _longest(which: np.ndarray) -> int:
    """Length of the longest run of True."""
    edges = np.flatnonzero(np.diff(np.pad(which.astype(int), 1)))
    return int(np.max(edges[1::2] - edges[::2], initial=0))


def _turns(values: np.ndarray, least: float) -> int:
    """How often a signal turns back after it has gone at least so far."""
    turns, low, high, rising = 0, values[0], values[0], None
    for value in values:
        low, high = min(low, value), max(high, value)
        if rising is not False and value < high - least:
            turns, rising, low = turns + (rising is True), False, value
            high = value
        elif rising is not True and value > low + least:
            turns, rising, high = turns + (rising is False), True, value
            low = value
    return turns


def _dips(values: np.ndarray, limit: float, least: float) -> float:
    """How often a signal falls below a limit, having been `least` above it between."""
    count, away = 0, True
    for value in values:
        if away and value < limit:
            count, away = count + 1, False
        away = away or value > limit + least
    return float(count)
