"""A planner as a source of commands, for many robots at once.

There are three routes, depending on what is planned and on what is followed:

    skills      z -> z    planned skills, one per step
    re-encode   o -> z    planned poses, ten of them encoded at every step
    explicit    o -> o    planned poses, one per step

Planned poses are relative to where the robot was when they were planned. With odometry
they are placed on the floor there, and at every step seen from where the robot is.
"""

import math
from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.control.run import Track, Tracker
from spectral_skills.motion.windows import anchor_poses
from spectral_skills.planner.data import CHUNK
from spectral_skills.planner.model import Planner
from spectral_skills.planner.text import TextStates
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import SkillEncoder

Route = Literal["skills", "re-encode", "explicit"]
_ROUTES: dict[tuple[str, str], Route] = {
    ("skill", "skill"): "skills",
    ("pose", "skill"): "re-encode",
    ("pose", "pose"): "explicit",
}
AGE_RATE = 0.01
"""Rate of temporal ensembling: a plan counts exp(-0.01) times as much as the one before
it, as in ACT (Zhao et al., 2023)."""


def longest(route: Route, encoder: SkillEncoder | None) -> int:
    """Number of steps that one plan lasts: an encoder reads ten poses at once."""
    if route == "re-encode" and encoder is not None:
        return CHUNK - encoder.last
    return CHUNK


class PlannedSource:
    """Commands planned for robots that each follow a sentence."""

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
        later: Mapping[int, TextStates] | None = None,
    ):
        """A plan is made after every `every` steps, from what `tracker` has sensed.

        `text` has one sentence for each robot, or one for all; `later` has other
        sentences by the steps at which they begin. With `ensemble` the skills of all
        plans for a step are averaged. With `odometry` planned poses are seen from where
        the robot is.
        """
        planned, followed = planner.config.output, tracker.command.kind
        if (planned, followed) not in _ROUTES:
            raise ValueError(
                f"the planner plans {planned}s, and the controller follows {followed}s"
            )
        self.route = _ROUTES[planned, followed]
        self.planner, self.text, self.every = planner, text, every
        self.ensemble, self._odometry, self._later = ensemble, odometry, later or {}
        self.refused = torch.zeros((), dtype=torch.long, device=text.states.device)
        """Number of plans that were not finite and so were not followed."""
        self._tracker, self._encoder, self._track = tracker, encoder, track
        self._random = torch.Generator(text.states.device).manual_seed(seed)
        self._plans: list[tuple[int, Tensor]] = []
        """First step and contents of each plan in use."""
        self._last: Tensor | None = None
        """(n, a) part of a plan that was followed last."""
        self._due, self._anew = 0, False
        limit = longest(self.route, encoder)
        if not 1 <= every <= limit:
            raise ValueError(f"a plan every {every} steps, must be 1 to {limit}")
        if self.route == "re-encode" and encoder is None:
            raise ValueError("planned poses need the encoder that makes skills of them")
        if ensemble and self.route != "skills":
            raise ValueError("only planned skills are averaged over plans")

    @torch.no_grad()
    def source(self, step: int, qpos: Tensor) -> Tensor:
        """(n, s) planned for this step."""
        if step in self._later:
            self.text, self._due, self._anew = self._later[step], 0, True
        if step >= self._due and step % self._tracker.command.hold == 0:
            self._plan(step, qpos)
        if self.route == "skills":
            self._last = self._averaged(step)
            if self._encoder is None:
                return self._last
            return self._encoder.bottleneck.snapped(self._last)
        begin, planned = self._plans[-1]
        ahead, encoder = step - begin, self._encoder
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
        finite = chunk.isfinite().flatten(1).all(dim=1)
        if self._last is None:
            if not bool(finite.all()):
                raise ValueError(
                    "the first plan is not finite, so there is nothing safe to do; is "
                    "the planner's folder intact?"
                )
        else:
            # A robot without a finite plan continues with its last finite command.
            chunk = torch.where(finite[:, None, None], chunk, self._last[:, None])
            self.refused += (~finite).sum()
        kept = math.ceil(CHUNK / self.every) if self.ensemble else 1
        older = [] if self._anew else self._plans
        self._plans = [*older, (step, chunk)][-kept:]
        self._due, self._anew = step + self.every, False

    def _averaged(self, step: int) -> Tensor:
        """The skill for a step, from the last plan or from all plans in use."""
        planned = [plan[:, step - begin] for begin, plan in self._plans]
        weights = torch.arange(len(planned)).mul(-AGE_RATE).exp()
        total = torch.stack(planned, dim=-1) @ weights.to(planned[0])
        return total / float(weights.sum())

    def track(self, steps: int) -> Track | None:
        """What robots should do, if that is known."""
        return None if self._track is None else self._track(steps)


def on_floor(poses: Tensor, qpos: Tensor) -> Tensor:
    """Rows (n, k, 36) of poses (n, k, 38) seen from robots at `qpos` (n, 36)."""
    joints, place, turn = poses.split((g1.NUM_JOINTS, 3, 6), dim=-1)
    frame = rotation.heading(qpos[:, 3:7])[:, None]
    origin = torch.nn.functional.pad(qpos[:, None, :2], (0, 1))
    position = rotation.rotate(frame, place) + origin
    orientation = rotation.multiply(frame, rotation.from_rot6d(turn))
    return torch.cat((position, orientation, joints), dim=-1)
