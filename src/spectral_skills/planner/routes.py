"""A planner at work: what it plans becomes commands, until it is asked again.

Three routes, told by what is planned and by what the controller follows:

    skills      z -> z    planned skills, one a step
    re-encode   o -> z    planned poses, ten of them encoded at every step
    explicit    o -> o    planned poses, one a step

Planned poses are seen from where the robot was when they were planned. With odometry
they are laid on the floor there, and seen anew at every step from where it is.
"""

import math
from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.control.rollout import Track
from spectral_skills.control.run import Tracker
from spectral_skills.motion.windows import anchor_poses
from spectral_skills.planner.data import CHUNK
from spectral_skills.planner.model import Planner
from spectral_skills.planner.text import TextStates
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import SkillEncoder

Route = Literal["skills", "re-encode", "explicit"]
AGE_RATE = 0.01
"""Of temporal ensembling: a plan counts exp(-0.01) as much as one made before it, as
in ACT (Zhao et al., 2023)."""


def route_of(planner: Planner, tracker: Tracker) -> Route:
    """How plans become commands of this controller."""
    planned, followed = planner.config.output, tracker.command.kind
    if planned == "skill" and followed == "skill":
        return "skills"
    if planned == "pose" and followed == "skill":
        return "re-encode"
    if planned == "pose" and followed == "pose":
        return "explicit"
    raise ValueError(
        f"the planner plans {planned}s, and the controller follows {followed}s"
    )


def longest(route: Route, encoder: SkillEncoder | None) -> int:
    """Steps that one plan lasts: an encoder sees ten poses at once."""
    if route == "re-encode" and encoder is not None:
        return CHUNK - encoder.last
    return CHUNK


class PlannedSource:
    """Commands of robots that are each told a sentence."""

    def __init__(
        self,
        planner: Planner,
        tracker: Tracker,
        text: TextStates,
        every: int,
        encoder: SkillEncoder | None = None,
        ensemble: bool = False,
        odometry: bool = False,
        track: Callable[[int], Track] | None = None,
        seed: int = 0,
    ):
        """A plan is made `every` so many steps, from what `tracker` has sensed.

        `text` is of one sentence a robot, or one for all. With `ensemble` the skills of
        all plans that speak of a step are averaged. With `odometry` planned poses are
        seen from where the robot is.
        """
        self.planner, self.text, self.every = planner, text, every
        self.route = route_of(planner, tracker)
        self.ensemble, self._odometry = ensemble, odometry
        self.refused = torch.zeros((), dtype=torch.long, device=text.states.device)
        """Plans that were not finite, and so were not followed."""
        self._tracker, self._encoder, self._track = tracker, encoder, track
        self._random = torch.Generator(text.states.device).manual_seed(seed)
        self._plans: list[tuple[int, Tensor]] = []
        """Step of each plan that counts, and what was planned."""
        self._last: Tensor | None = None
        """(n, a) what of a plan was followed last."""
        self._due, self._anew = 0, False
        limit = longest(self.route, encoder)
        if not 1 <= every <= limit:
            raise ValueError(f"a plan every {every} steps, must be 1 to {limit}")
        if self.route == "re-encode" and encoder is None:
            raise ValueError("planned poses need the encoder that makes skills of them")
        if ensemble and self.route != "skills":
            raise ValueError("only planned skills are averaged over plans")

    def tell(self, text: TextStates) -> None:
        """From now on another sentence; it is planned at once."""
        self.text, self._due, self._anew = text, 0, True

    @torch.no_grad()
    def source(self, step: int, qpos: Tensor) -> Tensor:
        """(n, s) planned for this step."""
        if step >= self._due and step % self._tracker.command.hold == 0:
            self._plan(step, qpos)
        if self.route == "skills":
            self._last = self._averaged(step)
            if self._encoder is None:
                return self._last
            return self._encoder.bottleneck.snapped(self._last)
        begun, planned = self._plans[-1]
        ahead, encoder = step - begun, self._encoder
        self._last = planned[:, ahead]
        seen = 1 if self.route == "explicit" or encoder is None else encoder.poses
        poses = planned[:, ahead : ahead + seen]
        if self._odometry:
            poses = anchor_poses(poses, qpos[:, :3], qpos[:, 3:7], "heading")
        return poses[:, 0] if seen == 1 or encoder is None else encoder.encode(poses)

    def _plan(self, step: int, qpos: Tensor) -> None:
        history, width = self._tracker.history, self.planner.config.head.action
        noise = torch.empty((len(history), CHUNK, width), device=history.device)
        noise.normal_(generator=self._random)
        chunk = self.planner.plan(history, self.text, noise)
        if self.route != "skills" and self._odometry:
            chunk = on_floor(chunk, qpos)
        fine = chunk.isfinite().flatten(1).all(dim=1)
        if self._last is None:
            if not bool(fine.all()):
                raise ValueError(
                    "the first plan is not finite, so there is nothing safe to do; is "
                    "the planner's folder intact?"
                )
        else:
            # Whoever gets no sane plan goes on with the last command that was one.
            chunk = torch.where(fine[:, None, None], chunk, self._last[:, None])
            self.refused += (~fine).sum()
        kept = math.ceil(CHUNK / self.every) if self.ensemble else 1
        older = [] if self._anew else self._plans
        self._plans = [*older, (step, chunk)][-kept:]
        self._due, self._anew = step + self.every, False

    def _averaged(self, step: int) -> Tensor:
        """The skill of a step, of the last plan or of all that speak of it."""
        spoken = [plan[:, step - begun] for begun, plan in self._plans]
        weights = torch.arange(len(spoken)).mul(-AGE_RATE).exp()
        total = torch.stack(spoken, dim=-1) @ weights.to(spoken[0])
        return total / float(weights.sum())

    def track(self, steps: int) -> Track | None:
        """What robots should do, where that is known."""
        return None if self._track is None else self._track(steps)


class InstructedSource:
    """A planned source that is told other sentences on the way."""

    def __init__(self, planned: PlannedSource, sentences: Mapping[int, TextStates]):
        """`sentences` are told at their steps."""
        self.planned, self.sentences = planned, sentences

    def source(self, step: int, qpos: Tensor) -> Tensor:
        """(n, s) planned for this step, of what was told last."""
        if step in self.sentences:
            self.planned.tell(self.sentences[step])
        return self.planned.source(step, qpos)

    def track(self, steps: int) -> Track | None:
        """Nobody knows."""
        return None


def on_floor(poses: Tensor, qpos: Tensor) -> Tensor:
    """Rows (n, k, 36) of poses (n, k, 38) seen from robots at `qpos` (n, 36)."""
    joints, place, turn = poses.split((g1.NUM_JOINTS, 3, 6), dim=-1)
    frame = rotation.heading(qpos[:, 3:7])[:, None]
    origin = torch.nn.functional.pad(qpos[:, None, :2], (0, 1))
    position = rotation.rotate(frame, place) + origin
    orientation = rotation.multiply(frame, rotation.from_rot6d(turn))
    return torch.cat((position, orientation, joints), dim=-1)
