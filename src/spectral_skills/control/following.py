"""Whether robots go where their references go, and move as they do.

The share of a path that is gone is measured along it, moment by moment. v and w are the
horizontal velocities of reference and robot, each the mean over the second around a
frame, which is longer than a step: a body that sways goes nowhere. The reference goes
where |v| is at least `PATH_MPS`. Over these frames

    path   is the integral of |v|
    gone   is the integral of w along v, w . v / |v|

A reference that stays within `STAY_M` of its start has no path, however it sways.

A robot that stands, steps on the spot or trembles has gone nothing of a walk, one
that walks half as fast has gone half of it, and one beside the path all of it. Going
the wrong way takes off, and what a walk to and fro gains on the way there is not lost
on the way back, as it would be from start to end.
"""

import torch
from torch import Tensor

PATH_M, PATH_MPS, STAY_M = 0.3, 0.1, 0.4
"""Least path of a reference that goes anywhere, least speed at which it goes, and how
far from its start it is then at some time."""
NEAR_M = 0.5
"""Whoever is farther from its reference has left it."""
MOVING_RAD = 0.05
"""Least standard deviation of a joint that moves."""
_HALF_S = 0.5


def path_gone(
    robot: Tensor, reference: Tensor, last: Tensor, survived: Tensor, fps: float
) -> tuple[Tensor, Tensor]:
    """(n,) length of the reference's path, m, and the share of it that is gone.

    Poses (T + 1, n, 36), of which those up to `last` (n,) count. After `survived` (n,)
    a robot goes nowhere, whatever it does. Of a path under `PATH_M` all is gone unless
    the robot has ever left its reference.
    """
    number = torch.arange(len(robot), device=robot.device)[:, None]
    half = round(_HALF_S * fps)
    begin, end = (number - half).clamp_min(0), (number + half).minimum(last)
    seconds = (end - begin).clamp_min(1)[..., None] / fps
    wanted, found = reference[..., :2].double(), robot[..., :2].double()
    v = (_at(wanted, end) - _at(wanted, begin)) / seconds
    w = _at(found, end.minimum(survived)) - _at(found, begin.minimum(survived))
    speed = v.norm(dim=-1)
    counts = number <= last
    leaves = (((wanted - wanted[0]).norm(dim=-1) > STAY_M) & counts).any(dim=0)
    goes = (speed >= PATH_MPS) & counts & leaves
    along = (v * w / seconds).sum(dim=-1) / speed.clamp_min(PATH_MPS)
    path = torch.where(goes, speed, 0.0).sum(dim=0) / fps
    gone = torch.where(goes, along, 0.0).sum(dim=0) / fps
    away = (_at(found, number.minimum(survived)) - wanted).norm(dim=-1)
    stays = 1.0 - ((away > NEAR_M) & counts).any(dim=0).double()
    share = (gone / path.clamp_min(PATH_M)).clamp(0.0, 1.0)
    return path, torch.where(path < PATH_M, stays, share)


def _at(places: Tensor, frames: Tensor) -> Tensor:
    """Places (T + 1, n, 2) at frames that broadcast to (T + 1, n)."""
    return places.gather(
        0, frames.expand(places.shape[:2])[..., None].expand_as(places)
    )


def joint_correlation(robot: Tensor, reference: Tensor, chosen: Tensor) -> Tensor:
    """(n,) mean over moving joints of the correlation over the chosen frames.

    Joints move that do so in the reference, by `MOVING_RAD`; not a number where none
    does. A joint that the robot does not move at all has a correlation of 0.
    """
    count = chosen.sum(dim=0).clamp_min(1)[:, None]

    def deviations(rows: Tensor) -> tuple[Tensor, Tensor]:
        joints = rows[..., 7:]
        joints = torch.where(chosen[..., None], joints, 0.0)
        mean = joints.sum(dim=0, dtype=torch.float64) / count
        apart = torch.where(chosen[..., None], joints - mean.to(joints.dtype), 0.0)
        square = apart.square().sum(dim=0, dtype=torch.float64) / count
        return apart, square.sqrt()

    (found, spread), (wanted, moves) = deviations(robot), deviations(reference)
    together = (found * wanted).sum(dim=0, dtype=torch.float64) / count
    moving = moves >= MOVING_RAD
    each = together / (spread * moves).clamp_min(1e-9)
    return torch.where(moving, each, 0.0).sum(dim=-1) / moving.sum(dim=-1)
