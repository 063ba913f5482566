"""How far robots are from their references, frame by frame.

World positions of the 14 tracked links on the robot, p, and on the reference, p^; link
0 is the pelvis:

    global   mean over links of |p_j - p^_j|
    local    mean over links of |(p_j - p_0) - (p^_j - p^_0)|
    root     |p_0 - p^_0|
"""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from spectral_skills.control.record import Rollout
from spectral_skills.motion.kinematics import Kinematics, LinkPoses, LinkStates
from spectral_skills.robot import g1
from spectral_skills.tracking import terminations
from spectral_skills.tracking.observations import TrackingState, relative_reference
from spectral_skills.tracking.terminations import TerminationConfig

CAUSES: tuple[str, ...] = (*terminations.CAUSES, "broken")
"""Why an episode fails: a rule, or a simulation that is no longer finite."""
FALL_M = 0.4
"""A robot has fallen whose torso is lower while the reference's pelvis is not."""
SUNK_M = 0.25
"""A pelvis so far below its reference's has sunk; for half a second, the robot fell."""
_TORSO = g1.TRACKED_LINKS.index("torso_link")
_AT_ONCE = 1 << 17
"""Frames whose links are computed at once."""


@dataclass(frozen=True)
class Errors:
    """Of every frame of every episode, (T + 1, n)."""

    local_mm: Tensor
    global_mm: Tensor
    root_mm: Tensor
    causes: Tensor
    """(T + 1, n, causes) bool: which rules are broken."""
    fallen: Tensor
    """Bool: the torso is on its way to the floor, and the reference's pelvis is not."""
    sunk: Tensor
    """Bool: the pelvis is far below the reference's."""
    low: Tensor
    """Bool: the torso is as low as in a fall, wherever the reference is."""


def errors(rollout: Rollout, rules: TerminationConfig | None = None) -> Errors:
    """Compare every state with its frame."""
    if rollout.reference is None:
        raise ValueError("this rollout followed no reference: there is no error")
    rules = rules or terminations.evaluation()
    kinematics = Kinematics(g1.TRACKED_LINKS, rollout.robot.device)
    at_once = max(1, _AT_ONCE // rollout.count)
    pairs = zip(
        rollout.robot.split(at_once), rollout.reference.split(at_once), strict=True
    )
    parts = [_compare(kinematics, robot, wanted, rules) for robot, wanted in pairs]
    columns = [field.name for field in fields(Errors)]
    return Errors(*(torch.cat([getattr(p, name) for p in parts]) for name in columns))


def _compare(
    kinematics: Kinematics, robot: Tensor, wanted: Tensor, rules: TerminationConfig
) -> Errors:
    """Errors of rows (k, n, 36)."""
    shape = robot.shape[:2]
    robot, wanted = robot.flatten(0, 1), wanted.flatten(0, 1)
    found, reference = kinematics(robot), kinematics(wanted)
    apart = found.position - reference.position
    root = apart[:, :1]
    broken = ~torch.isfinite(robot).all(dim=-1, keepdim=True)
    failed = _failures(found, reference, robot[:, 7:], rules)
    causes = torch.cat((failed & ~broken, broken), dim=-1)
    low = (found.position[:, _TORSO, 2] < FALL_M) | broken[:, 0]
    stands = reference.position[:, 0, 2] >= FALL_M
    return Errors(
        local_mm=1000 * (apart - root).norm(dim=-1).mean(-1).view(shape),
        global_mm=1000 * apart.norm(dim=-1).mean(-1).view(shape),
        root_mm=1000 * root[:, 0].norm(dim=-1).view(shape),
        causes=causes.view(*shape, -1),
        fallen=((low & stands) | broken[:, 0]).view(shape),
        sunk=(root[:, 0, 2] < -SUNK_M).view(shape),
        low=low.view(shape),
    )


def _failures(
    found: LinkPoses, reference: LinkPoses, joints: Tensor, rules: TerminationConfig
) -> Tensor:
    """What the rules of training environments say, with other thresholds."""

    def states(poses: LinkPoses) -> LinkStates:
        still = torch.zeros_like(poses.position)
        return LinkStates(poses.position, poses.quaternion, still, still)

    robot, wanted = states(found), states(reference)
    position, quaternion = relative_reference(robot, wanted)
    # Rules look at poses alone.
    nothing = torch.zeros_like(joints)
    tracked = TrackingState(
        robot=robot,
        reference=wanted,
        relative_position=position,
        relative_quaternion=quaternion,
        joints=joints,
        reference_joints=nothing,
        joint_velocities=nothing,
        joint_accelerations=nothing,
        torque=nothing,
        contact_force=nothing,
        action=nothing,
        last_action=nothing,
        low=torch.zeros_like(nothing[:, 0], dtype=torch.bool),
    )
    return terminations.failures(tracked, rules)
