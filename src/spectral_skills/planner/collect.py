"""`spectral collect`: robots that execute described motions, and what they sense.

A planner sees a fifth of a second. If two frames of a clip look alike and continue
differently, it cannot know which one it is in: how long a robot still stands, when a
raised arm comes down. So the longest part of a clip is used in which similar frames
continue alike and something happens. At its end it continues from an earlier frame that
looks like the end: a walk walks on, a raised arm stays raised.

Every robot begins on the first frame of its motion, as in the paper. At the end of a
motion, and sometimes earlier, it continues or another one begins from where the robot
is, so that a planner learns to pass from any motion into any other. Some robots are
disturbed in their commands; the undisturbed commands, which lead them back, are kept.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.control.run import Tracker, check_match, run
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.motion.windows import MotionTensors
from spectral_skills.physics.base import simulate
from spectral_skills.planner import phrases
from spectral_skills.planner.data import CHUNK, About, Motion, Rows
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.randomization import RandomizationConfig
from spectral_skills.tracking.references import CommandSource, References

STEPS = 500
"""Largest number of frames of a motion, as in the paper."""
LOST_M, LOST_RAD = 0.25, 1.0
"""Distances of a robot's root from its reference, in height and in angle, from which it
has failed, as in the paper."""
ALIKE_RAD, ALIKE_RAD_S = 0.1, 1.0
"""Root mean square differences of joints and of their speeds below which two frames
look alike."""
APART_M = 0.125
"""Difference in height of pelvis, hands or feet within a chunk from which two frames
continue differently: half of what the success criterion allows."""
APART_RAD_S = 0.3
"""The same for the root mean square speed of the joints: one stands, one walks."""
_LATER = (CHUNK // 3, 2 * CHUNK // 3, CHUNK)
_STILL = 0.2
"""Worth of a frame after which nothing moves."""
_BETTER = 1.1
"""Factor by which a later part must be worth more to be used."""


class ClipSection(NamedTuple):
    """A part of a clip."""

    first: int
    end: int
    """First frame after it."""
    loop: int
    """Frame, counted from the first, from which it continues at its end."""
    worth: float
    """Number of frames; those in which hardly anything moves count less."""


@dataclass(frozen=True)
class Motions:
    """Parts of described clips that a planner can plan."""

    names: tuple[str, ...]
    rows: tuple[np.ndarray, ...]
    """(T, 36) of each motion."""
    sentences: tuple[list[str], ...]
    """Descriptions of each motion in the corpus."""
    loops: tuple[int, ...]
    """Frames from which motions continue at their ends."""

    @classmethod
    def of(cls, corpus: Corpus, sections: Mapping[int, ClipSection]) -> "Motions":
        """Parts of some clips of a corpus, by their indices."""
        lines = [corpus.entry(i).text.splitlines() for i in sections]
        return cls(
            names=tuple(corpus.names[i] for i in sections),
            rows=tuple(corpus.qpos(i)[s.first : s.end] for i, s in sections.items()),
            sentences=tuple([s.strip() for s in own if s.strip()] for own in lines),
            loops=tuple(s.loop for s in sections.values()),
        )

    def __len__(self) -> int:
        return len(self.names)

    def select(self, names: Sequence[str]) -> "Motions":
        """Some of them in the given order; a name may be repeated."""
        missing = [name for name in names if name not in self.names]
        if missing:
            raise ValueError(f"no motion named {missing[0]!r} among {len(self)}")
        chosen = [self.names.index(name) for name in names]
        return Motions(*(tuple(v[i] for i in chosen) for v in vars(self).values()))

    def to(self, device: torch.device | str) -> MotionTensors:
        clips = [torch.from_numpy(np.array(rows)).to(device) for rows in self.rows]
        return MotionTensors.of_clips(clips)


def described(corpus: Corpus) -> Motions:
    """The motions to plan. From a generated corpus, with its mirror images, these are
    one clip for each of 28 things to say; from others, every described clip."""
    both = corpus.with_mirror()
    if found := _one_of_each(both):
        return Motions.of(both, found)
    chosen = [i for i in range(len(corpus)) if corpus.entry(i).text.strip()]
    if not chosen:
        raise ValueError("no clip of this corpus is described in words")
    return Motions.of(corpus, {i: section(corpus.qpos(i)) for i in chosen})


def _one_of_each(corpus: Corpus) -> dict[int, ClipSection]:
    """The clip with the best part for each thing to say; empty if one has no clip."""
    found: dict[int, ClipSection] = {}
    texts = [corpus.entry(i).text for i in range(len(corpus))]
    for factors, said, unsaid in phrases.WORDS["corpus"]["motions"]:
        wanted = frozenset(factors.split())
        fits = [
            i
            for i, (name, text) in enumerate(zip(corpus.names, texts, strict=True))
            if factors_of(name) == wanted
            and re.search(said, text)
            and not (unsaid and re.search(unsaid, text))
        ]
        if not fits:
            return {}
        sections = {i: section(corpus.qpos(i)) for i in fits}
        best = max(sections, key=lambda i: sections[i].worth)
        found[best] = sections[best]
    return found


def section(rows: np.ndarray, most: int = STEPS) -> ClipSection:
    """The part of rows (T, 36) to plan, with at most `most` frames."""
    state, speed = _states(rows)
    activity = _activity(speed)
    alike = (_distances(state) < ALIKE_RAD) & (_distances(speed) < ALIKE_RAD_S)
    differs = np.abs(activity[:, None] - activity) > APART_RAD_S
    worth = np.clip(activity / APART_RAD_S, _STILL, 1.0)
    first, end = _longest(alike & (_diverges(rows) | differs), worth, most)
    # It continues from the frame most like its last one that has a chunk after it.
    scaled = np.concatenate((state / ALIKE_RAD, speed / ALIKE_RAD_S), axis=1)[first:end]
    earlier = scaled[: max(1, len(scaled) - CHUNK)]
    loop = int(np.linalg.norm(earlier - scaled[-1], axis=1).argmin())
    return ClipSection(first, end, loop, float(worth[first:end].sum()))


def _states(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(T, 32) joints, height and tilt, and (T, 29) speeds of the joints."""
    quaternion = torch.from_numpy(np.ascontiguousarray(rows[:, 3:7]))
    up = rotation.rotate_inverse(quaternion, torch.tensor((0.0, 0.0, 1.0)))
    state = np.concatenate((rows[:, 7:], rows[:, 2:3], up[:, :2].numpy()), axis=1)
    speed = np.gradient(rows[:, 7:], axis=0) * FPS
    return state.astype(np.float32), speed.astype(np.float32)


def _distances(values: np.ndarray) -> np.ndarray:
    """(T, T) root mean square difference of rows."""
    tensor = torch.from_numpy(values)
    # By differences: products would lose the digits of rows that are alike.
    found = torch.cdist(tensor, tensor, compute_mode="donot_use_mm_for_euclid_dist")
    return (found / values.shape[1] ** 0.5).numpy()


def _diverges(rows: np.ndarray) -> np.ndarray:
    """(T, T) whether heights differ after two frames; the last frame is held."""
    links = _links()(torch.from_numpy(np.asarray(rows, np.float32))).position
    heights, last = links[..., 2], len(rows) - 1
    found = np.zeros((len(rows), len(rows)), bool)
    for ahead in _LATER:
        then = heights[(torch.arange(len(rows)) + ahead).clamp_max(last)]
        found |= (torch.cdist(then, then, p=torch.inf) > APART_M).numpy()
    return found


@cache
def _links() -> Kinematics:
    return Kinematics(("pelvis", *g1.END_EFFECTORS))


def _activity(speed: np.ndarray) -> np.ndarray:
    """(T,) how fast joints move in the chunk that follows each frame."""
    now = np.pad(np.square(speed).mean(axis=1), (0, CHUNK), mode="edge")
    total = np.cumsum(np.pad(now, (1, 0)))
    return np.sqrt((total[CHUNK:] - total[:-CHUNK])[: len(speed)] / CHUNK)


def _longest(conflicts: np.ndarray, worth: np.ndarray, most: int) -> tuple[int, int]:
    """First frame and end of the part of most worth without two frames in conflict.

    What follows a frame counts only inside the part, so the last chunk of a part is in
    conflict with nothing. A later part must be worth clearly more.
    """
    total = np.cumsum(np.pad(worth, (1, 0)))
    best, most_worth, first = (0, min(len(conflicts), CHUNK)), 0.0, 0
    for end in range(CHUNK + 1, len(conflicts) + 1):
        before = np.flatnonzero(conflicts[end - CHUNK - 1, : end - CHUNK - 1])
        if len(before):
            first = max(first, int(before[-1]) + 1)
        first = max(first, end - most)
        found = total[end] - total[first]
        if found > (_BETTER if first > best[0] else 1.0) * most_worth:
            best, most_worth = (first, end), found
    return best


@dataclass(frozen=True)
class CollectConfig:
    robots: int = 93
    """Number of robots for each motion."""
    steps: int = STEPS
    again: float = 0.5
    """Probability that a motion continues at its end."""
    early: float = 0.5
    """Share of the robots whose motions may be cut short."""
    least_steps: int = 50
    """Shortest motion, in control steps."""
    astray: float = 0.5
    """Share of the robots whose commands are disturbed."""
    astray_std: float = 0.3
    """Size of the disturbance in standard deviations of the commands; it is drawn again
    every `least_steps`."""
    seed: int = 0


class Placement:
    """Where on the floor each robot's reference lies: turned, then shifted."""

    def __init__(self, count: int, device: torch.device):
        self.turn = torch.zeros(count, device=device)
        self.here, self.there = torch.zeros((2, count, 2), device=device)

    def put(self, which: Tensor, robot: Tensor, first: Tensor) -> None:
        """Place the references of some robots (n,) so that they begin under them."""
        turn = rotation.yaw(robot[:, 3:7]) - rotation.yaw(first[:, 3:7])
        self.turn = torch.where(which, turn, self.turn)
        self.here = torch.where(which[:, None], robot[:, :2], self.here)
        self.there = torch.where(which[:, None], first[:, :2], self.there)

    def into(self, rows: Tensor) -> Tensor:
        """Rows (n, 36) of references, placed on the floor."""
        return _moved(rows, self.turn, self.there, self.here)

    def back(self, root: Tensor) -> Tensor:
        """Roots (n, 7) of robots in the frame of their references."""
        return _moved(root, -self.turn, self.here, self.there)


def _moved(rows: Tensor, turn: Tensor, origin: Tensor, to: Tensor) -> Tensor:
    q = rotation.from_yaw(turn)
    flat = torch.nn.functional.pad(rows[:, :2] - origin, (0, 1))
    place = rotation.rotate(q, flat)[:, :2] + to
    turned = rotation.multiply(q, rows[:, 3:7])
    return torch.cat((place, rows[:, 2:3], turned, rows[:, 7:]), dim=1)


class TeachingSource:
    """Motion after motion for every robot; keeps a frame of each step."""

    def __init__(
        self,
        references: References,
        loops: Tensor,
        motion: Tensor,
        tracker: Tracker,
        encoder: SkillEncoder | None,
        config: CollectConfig,
    ):
        """`loops` are the frames from which motions continue at their ends."""
        n, device = len(motion), motion.device
        self.references, self._loops = references, loops
        self.motion, self.config = motion.clone(), config
        self._tracker, self._places = tracker, Placement(n, device)
        self._commands = CommandSource(references, tracker.command, encoder)
        self._random = torch.Generator(device).manual_seed(config.seed)
        self._frame = torch.zeros_like(motion)
        self._ends = self._last_frames()
        self._off = torch.zeros((n, tracker.command.source_width), device=device)
        self._astray = self._draw() < config.astray
        self._upright = torch.ones(n, dtype=torch.bool, device=device)
        self.frames: dict[str, list[Tensor]] = {}

    def _draw(self) -> Tensor:
        """(n,) uniform random numbers."""
        size, device = self.motion.shape, self.motion.device
        return torch.rand(size, generator=self._random, device=device)

    def _last_frames(self) -> Tensor:
        """(n,) frames after which robots continue or get another motion."""
        whole = self.references.lengths[self.motion] - 1
        some = self._frame + self.config.least_steps + (self._draw() * whole).long()
        early = self._draw() < self.config.early
        return torch.where(early, some.minimum(whole), whole)

    @torch.no_grad()
    def source(self, step: int, qpos: Tensor) -> Tensor:
        """Commands for this step, disturbed for some robots."""
        if step:
            self._frame += 1
            self._begin(qpos)
        rows = self._places.into(self.references.at(self.motion, self._frame).rows)
        seen = self._places.back(qpos[:, :7])
        command = self._commands(self.motion, self._frame, seen[:, :3], seen[:, 3:])
        self._keep(qpos, rows, command)
        if step % self.config.least_steps == 0:
            noise = torch.empty_like(command).normal_(generator=self._random)
            scale = self.config.astray_std * command.std(dim=0, correction=0)
            self._off = torch.where(self._astray[:, None], scale * noise, 0.0)
        return command + self._off

    def _begin(self, qpos: Tensor) -> None:
        """Let robots at the end of their motion continue, or begin another one."""
        over, motions = self._frame > self._ends, self.references.count
        other = (self._draw() * motions).long().clamp_max(motions - 1)
        again = self._draw() < self.config.again
        again &= self._frame >= self.references.lengths[self.motion]
        frame = torch.where(again, self._loops[self.motion], 0)
        self.motion = torch.where(over & ~again, other, self.motion)
        self._frame = torch.where(over, frame, self._frame)
        self._ends = torch.where(over, self._last_frames(), self._ends)
        first = self.references.at(self.motion, self._frame).rows
        self._places.put(over, qpos, first)

    def _keep(self, qpos: Tensor, rows: Tensor, command: Tensor) -> None:
        high = (qpos[:, 2] - rows[:, 2]).abs()
        angle = rotation.angle_between(qpos[:, 3:7], rows[:, 3:7])
        # A broken simulation, whose numbers are not finite, counts as failed.
        self._upright &= (high < LOST_M) & (angle < LOST_RAD)
        # A held command is that of the step at which it began.
        if len(kept := self.frames.get("skill", [])) % self._tracker.command.hold:
            command = kept[-1]
        now = {
            "proprio": self._tracker.history[:, -1].half(),
            "skill": command.half(),
            "root": qpos[:, :7].clone(),
            "reference": rows,
            "motion": self.motion.to(torch.int16),
            "valid": self._upright.clone(),
        }
        for name, values in now.items():
            self.frames.setdefault(name, []).append(values)

    def track(self, steps: int) -> None:
        return None


def collect(
    config: CollectConfig,
    controller: Controller,
    encoder: SkillEncoder | None,
    corpus: Corpus,
    controller_hash: str,
    device: torch.device | str,
) -> Rows:
    """Let robots execute the described motions of a corpus, and return their rows."""
    check_match(controller, encoder)
    command = controller.config.command
    if command.kind == "joint":
        raise ValueError(
            "this controller makes skills of windows itself; a planner needs one whose "
            "commands are skills of a frozen encoder, or poses"
        )
    clips = described(corpus)
    short = min(len(rows) for rows in clips.rows)
    if config.steps <= CHUNK or short <= CHUNK:
        raise ValueError(
            f"{config.steps} steps of clips that have {short} frames or more: a row "
            f"needs {CHUNK + 1}"
        )
    where = torch.device(device)
    references = References.build(clips.to(where))
    motion = torch.arange(len(clips), device=where).repeat_interleave(config.robots)
    begin = references.at(motion, torch.zeros_like(motion))
    tracker = Tracker(controller)
    loops = torch.tensor(clips.loops, device=where)
    source = TeachingSource(references, loops, motion, tracker, encoder, config)
    with torch.random.fork_rng(devices=[where] if where.type == "cuda" else []):
        torch.manual_seed(config.seed)
        run(
            simulate(where, len(motion)),
            tracker,
            source,
            (begin.rows, begin.qvel),
            config.steps,
            noise=RandomizationConfig(),
            keep=(),
        )
    texts = zip(clips.names, clips.sentences, clips.rows, strict=True)
    motions = tuple(
        Motion(name, phrases.training(own), phrases.held_out(own), len(rows))
        for name, own, rows in texts
    )
    about = About(
        controller=controller_hash,
        encoder="" if encoder is None else encoder.fingerprint(),
        command="pose" if command.kind == "pose" else "skill",
        hold=command.hold,
        corpus=corpus.hash,
        motions=motions,
    )
    frames = {name: torch.stack(kept) for name, kept in source.frames.items()}
    return Rows(about, frames)
