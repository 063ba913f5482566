"""`spectral collect`: robots that execute described motions, and what they sense.

A robot begins on the first frame of its motion, as in the paper, or standing, as one
does that is spoken to. At the end of a motion, and sometimes earlier, it continues or
another one begins, so that a planner learns to pass from any motion into any other.
Some robots are disturbed in their commands, at random or along directions as by a
second instruction; the undisturbed commands are kept.

A planner does not know where its robot is. So every command is the one that a robot in
its place and heading would get: what would lead back a robot that has left them is
nothing that a planner could learn.

Before that, one robot tries each candidate for a motion, so that only motions are taken
which this controller follows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.control import metrics
from spectral_skills.control.run import ReferenceSource, Tracker, check_match, run
from spectral_skills.motion.corpus import Corpus
from spectral_skills.physics.base import simulate
from spectral_skills.planner.data import CHUNK, About, Rows
from spectral_skills.planner.motions import CANDIDATES, Motions, candidates
from spectral_skills.planner.sections import STEPS
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.spectral.direction_file import Directions
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.randomization import RandomizationConfig
from spectral_skills.tracking.references import CommandSource, References

LOST_M, LOST_RAD = 0.25, 1.0
"""Distances of a robot's root from its reference, in height and in tilt, from which it
has failed; in the paper the second is an angle of any kind."""
SECOND_AMPLITUDE = 2.0
"""Largest amplitude of a second instruction, that of the paper's tests."""
REACHED_STEPS = 50
"""Number of control steps within which a robot must reach a motion that begins further
away from it than that."""


@dataclass(frozen=True)
class CollectConfig:
    robots: int = 93
    """Number of robots for each motion."""
    steps: int = STEPS
    standing: float = 0.3
    """Share of the robots that begin standing."""
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
    along: float = 0.0
    """Share of the robots whose commands are moved along directions, as a second
    instruction moves them."""
    along_steps: int = 200
    """Number of control steps for which they are moved; then others are drawn."""
    held_out: float = 0.0
    """Share of the clips of each corpus that are left out, by a hash of names."""
    whole: bool = False
    """Whether clips are not cut to what can be planned."""
    candidates: int = CANDIDATES
    """Number of clips that are tried for each motion."""
    follow: bool = True
    """Whether motions that the controller does not follow are left out."""
    most: int | None = None
    """Largest number of motions, at regular distances of all; all by default."""
    seed: int = 0


class Placement:
    """Where on the floor each robot's reference lies: turned, then shifted."""

    def __init__(self, count: int, device: torch.device):
        self.turn = torch.zeros(count, device=device)
        self.here, self.there = torch.zeros((2, count, 2), device=device)

    def put(self, which: Tensor, last: Tensor, first: Tensor) -> None:
        """Place references of some robots (n,) so that they begin where others end."""
        turn = rotation.yaw(last[:, 3:7]) - rotation.yaw(first[:, 3:7])
        self.turn = torch.where(which, turn, self.turn)
        self.here = torch.where(which[:, None], last[:, :2], self.here)
        self.there = torch.where(which[:, None], first[:, :2], self.there)

    def into(self, rows: Tensor) -> Tensor:
        """Rows (n, 36) or roots (n, 7) of references, placed on the floor."""
        q = rotation.from_yaw(self.turn)
        flat = torch.nn.functional.pad(rows[:, :2] - self.there, (0, 1))
        place = rotation.rotate(q, flat)[:, :2] + self.here
        turned = rotation.multiply(q, rows[:, 3:7])
        return torch.cat((place, rows[:, 2:3], turned, rows[:, 7:]), dim=1)


def in_place(robot: Tensor, reference: Tensor) -> Tensor:
    """Roots (n, 7) of robots, brought to their references' places and headings."""
    turn = rotation.yaw(reference[:, 3:7]) - rotation.yaw(robot[:, 3:7])
    turned = rotation.multiply(rotation.from_yaw(turn), robot[:, 3:7])
    return torch.cat((reference[:, :2], robot[:, 2:3], turned), dim=1)


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
        moves: Tensor | None = None,
    ):
        """`loops` are the frames from which motions continue at their ends; `moves`
        (m, d) are what second instructions add to commands."""
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
        self._moves, self._along = moves, torch.zeros_like(self._off)
        if moves is not None:
            self._moved = self._draw() < config.along
        self._upright = torch.ones(n, dtype=torch.bool, device=device)
        self._begun = torch.ones_like(self._upright)
        self._away = torch.zeros_like(motion)
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
            self._begin()
        own = self.references.at(self.motion, self._frame).rows
        seen = in_place(qpos, own)
        command = self._commands(self.motion, self._frame, seen[:, :3], seen[:, 3:])
        self._keep(qpos.isfinite().all(dim=1), seen, own, command)
        if step % self.config.least_steps == 0:
            noise = torch.empty_like(command).normal_(generator=self._random)
            scale = self.config.astray_std * command.std(dim=0, correction=0)
            self._off = torch.where(self._astray[:, None], scale * noise, 0.0)
        if self._moves is not None and step % self.config.along_steps == 0:
            which = (self._draw() * len(self._moves)).long()
            share = self._draw()[:, None]
            self._along = share * self._moves[which] * self._moved[:, None]
        return command + self._off + self._along

    def _begin(self) -> None:
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
        self._places.put(over, self.frames["reference"][-1], first)
        self._begun = over

    def _keep(self, sound: Tensor, seen: Tensor, own: Tensor, command: Tensor) -> None:
        high = (seen[:, 2] - own[:, 2]).abs()
        angle = rotation.angle_between(seen[:, 3:], own[:, 3:7])
        near = (high < LOST_M) & (angle < LOST_RAD)
        late = self._begun & ~near
        self._away = torch.where(late, REACHED_STEPS, self._away - 1)
        # A broken simulation, whose numbers are not finite, counts as failed.
        self._upright &= near | ((self._away > 0) & sound)
        # A held command is that of the step at which it began.
        if len(kept := self.frames.get("skill", [])) % self._tracker.command.hold:
            command = kept[-1]
        now = {
            "proprio": self._tracker.history[:, -1].half(),
            "skill": command.half(),
            "root": self._places.into(seen),
            "reference": self._places.into(own),
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
    corpora: Corpus | Sequence[Corpus],
    controller_hash: str,
    device: torch.device | str,
    directions: Directions | None = None,
) -> Rows:
    """Let robots execute the described motions of corpora, and return their rows."""
    check_match(controller, encoder)
    command = controller.config.command
    if command.kind == "joint":
        raise ValueError(
            "this controller makes skills of windows itself; a planner needs one whose "
            "commands are skills of a frozen encoder, or poses"
        )
    if config.steps <= CHUNK:
        raise ValueError(f"{config.steps} steps: a row needs {CHUNK + 1}")
    where = torch.device(device)
    moves = None
    if config.along:
        if directions is None or encoder is None:
            raise ValueError("to move commands along directions, name their file")
        directions.check(encoder.fingerprint())
        moves = second_instructions(directions).to(where)
    corpora = [corpora] if isinstance(corpora, Corpus) else corpora
    which = config.held_out, config.whole, config.candidates, config.most
    clips = candidates(corpora, *which)
    if config.follow:
        clips = followed(clips, controller, encoder, where)
    else:
        clips = clips.best(np.ones(len(clips), bool))
    references = References.build(clips.to(where))
    motion = torch.arange(len(clips), device=where).repeat_interleave(config.robots)
    begin = starts(references, motion, config)
    tracker = Tracker(controller)
    loops = torch.tensor(clips.loops, device=where)
    parts = references, loops, motion, tracker, encoder, config, moves
    source = TeachingSource(*parts)
    with torch.random.fork_rng(devices=[where] if where.type == "cuda" else []):
        torch.manual_seed(config.seed)
        run(
            simulate(where, len(motion)),
            tracker,
            source,
            begin,
            config.steps,
            noise=RandomizationConfig(),
            keep=(),
        )
    about = About(
        controller=controller_hash,
        encoder="" if encoder is None else encoder.fingerprint(),
        command="pose" if command.kind == "pose" else "skill",
        hold=command.hold,
        corpus="+".join(corpus.hash for corpus in corpora),
        motions=clips.about(),
    )
    frames = {name: torch.stack(kept) for name, kept in source.frames.items()}
    return Rows(about, frames)


def starts(
    references: References, motion: Tensor, config: CollectConfig
) -> tuple[Tensor, Tensor]:
    """(n, 36), (n, 35) first frames of motions; some robots stand there instead."""
    begin = references.at(motion, torch.zeros_like(motion))
    stand = torch.tensor(g1.DEFAULT_QPOS).to(begin.rows).repeat(len(motion), 1)
    stand[:, :2] = begin.rows[:, :2]
    stand[:, 3:7] = rotation.heading(begin.rows[:, 3:7])
    # Those of one motion are at regular distances.
    number = torch.arange(len(motion), device=motion.device) * config.standing
    stands = ((number + config.standing).floor() > number.floor())[:, None]
    return torch.where(stands, stand, begin.rows), torch.where(stands, 0, begin.qvel)


def followed(
    clips: Motions,
    controller: Controller,
    encoder: SkillEncoder | None,
    device: torch.device,
) -> Motions:
    """For each motion, the best of its candidates that the controller follows."""
    references = References.build(clips.to(device))
    each = torch.arange(len(clips), device=device)
    command = controller.config.command
    source = ReferenceSource(references, each, encoder, command=command)
    steps = max(len(rows) for rows in clips.rows) - 1
    tracker, physics = Tracker(controller), simulate(device, len(clips))
    record = run(physics, tracker, source, source.start, steps, keep=())
    found = clips.best(metrics.episodes(record).followed)
    if not len(found):
        raise ValueError(f"the controller follows none of {len(clips)} candidates")
    return found


def second_instructions(directions: Directions) -> Tensor:
    """(m, d) what is added to commands: each direction of a target, both ways."""
    kept = [family in ("target", "robot") for family in directions.families]
    if not any(kept):
        raise ValueError("these directions have no targets: see `spectral directions`")
    vectors = SECOND_AMPLITUDE * directions.vectors[kept]
    return torch.tensor(np.concatenate((vectors, -vectors)), dtype=torch.float32)
