"""How high robots jump with their references, and how high their motors would let them.

Table `flights`: robots follow every flight of a corpus, from 1.5 s before. A flight is
where both feet are off the floor, and its rise that of the lower foot. Counted are the
robots that are with their reference when it leaves the floor.

Table `search`: for one flight, the actions of both legs are changed, with targets that
may lie one unit and four units of action beyond the limits of joints, by the
cross-entropy method: what the motors can do. Then only shares of that change are added
to what the controller does: what a learner that pushes a little harder would be paid,
and what the authors' penalty on accelerations of the ankles takes. Both are sums up to
the end of the flight, in rewards of a perfect step.

    python benchmarks/jumps.py flights --corpus corpora/cmu
    python benchmarks/jumps.py search --corpus corpora/cmu --clip 118_14
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from report import models_parser, parsed, report
from torch import Tensor
from tqdm import trange

from spectral_skills import api
from spectral_skills.control.run import ReferenceSource, Tracker, run
from spectral_skills.models import Models
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.physics.base import simulate
from spectral_skills.results import Result, model_hashes
from spectral_skills.robot import g1
from spectral_skills.tracking import rewards
from spectral_skills.tracking.observations import (
    Body,
    TrackingState,
    relative_reference,
)
from spectral_skills.tracking.references import References

TABLE = "Tracking: jumps"
OFF_FLOOR_M, SHORTEST = 0.08, 8
"""Height of the lower foot and number of frames from which both feet are in flight."""
BEFORE, PUSH = 75, 12
"""Frames before a flight at which robots begin, and those of the push-off."""
WITHIN_M = 0.25
"""Error of the pelvis's height up to which a robot succeeds by the paper's rule."""
RISES_M = (0.1, 0.2, 0.33)
"""Rises at which rows of the table begin."""
HIPS, KNEES, ANKLES = (
    [g1.joint_index(f"{side}_{joint}") for side in ("left", "right")]
    for joint in ("hip_pitch", "knee", "ankle_pitch")
)
LEGS = HIPS + KNEES + ANKLES
SHARES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
"""Shares of the change that was found which are added alone."""
ROBOTS, GENERATIONS, BEST, KNOT = 64, 30, 10, 3
"""Of the search: robots, generations, robots whose actions are kept, and steps for
which a change of actions lasts."""


class Flight(NamedTuple):
    clip: int
    begin: int
    """First frame in the air."""
    end: int
    """First frame after it."""
    rise_m: float


class Pushed(NamedTuple):
    """What robots (n) did at every step (T, n, ...)."""

    pelvis: Tensor
    """Heights of robots and references (T, n, 2), m."""
    share: Tensor
    """Torques as shares of the motors' efforts (T, n, 29)."""
    limited: Tensor
    """Whether targets are at their limits (T, n, 29)."""
    paid: Tensor
    """(T, n) rewards of the set `final` without its penalty on accelerations of the
    ankles, and that penalty (T, n, 2), in rewards of a perfect step."""


def flights(corpus: Corpus) -> list[Flight]:
    """All flights that begin late enough for a robot to run up."""
    feet, found = Kinematics(g1.FEET, "cpu"), []
    for number in range(len(corpus)):
        qpos = torch.tensor(np.array(corpus.clip(number).qpos())).float()
        links = feet.states(qpos, torch.zeros(len(qpos), 35))
        height = links.position[..., 2].amin(dim=1).numpy()
        height -= np.median(height)
        air = np.concatenate(([False], height > OFF_FLOOR_M, [False]))
        edges = np.flatnonzero(np.diff(air))
        for begin, end in zip(edges[::2], edges[1::2], strict=True):
            long = end - begin >= SHORTEST and end < len(qpos)
            if begin >= BEFORE and long:
                rise = float(height[begin:end].max())
                found.append(Flight(number, int(begin), int(end), rise))
    return found


def follow(
    models: Models,
    corpus: Corpus,
    some: list[Flight],
    more: Tensor | None = None,
    before: int = BEFORE,
    pays: bool = False,
) -> Pushed:
    """One robot follows each flight from `before` frames before it; `more` (T, n, 29)
    is added to its actions. What it is paid is zero if nobody asks."""
    clips = torch.tensor([one.clip for one in some])
    starts = torch.tensor([one.begin - before for one in some])
    references = References.build(corpus.to("cpu"))
    command = models.controller.config.command
    source = ReferenceSource(references, clips, models.encoder, starts, command)
    physics, shares, limited, paid = simulate("cpu", len(some)), [], [], []
    kinematics, body = Kinematics(g1.TRACKED_LINKS, "cpu"), Body("cpu")
    rewards.constants(torch.device("cpu"))
    last = [body.first_action(source.start[0][:, 7:])]
    low, high = torch.tensor(g1.target_limits(models.controller.config.reach).T)
    effort, step = torch.tensor(g1.EFFORT_LIMIT), physics.step

    def noted() -> None:
        targets = physics.targets
        limited.append((targets < low + 1e-4) | (targets > high - 1e-4))
        step()
        shares.append(physics.torque.abs() / effort)
        if not pays:
            paid.append(torch.zeros(len(some), 2))
            return
        action = (targets - body.default) / body.scale
        reference = references.at(clips, starts + len(shares))
        robot = kinematics.states(physics.qpos, physics.qvel)
        links = kinematics.states(reference.rows, reference.qvel)
        state = TrackingState(
            *(robot, links, *relative_reference(robot, links)),
            joints=physics.qpos[:, 7:],
            reference_joints=reference.rows[:, 7:],
            joint_velocities=physics.qvel[:, 6:],
            joint_accelerations=physics.qacc[:, 6:],
            torque=physics.torque,
            contact_force=physics.contact_force,
            action=action,
            last_action=last.pop(),
            low=torch.zeros(len(some), dtype=torch.bool),
        )
        terms = rewards.terms(state, rewards.final())
        ankles = terms.pop("foot_acceleration")
        both = torch.stack((sum(terms.values(), 0 * ankles), ankles), dim=-1)
        paid.append(both / rewards.maximum(rewards.final()))
        last.append(action)

    physics.step = noted
    steps = before + max(one.end - one.begin for one in some)
    tracker = Tracker(models.controller, action=more)
    record = run(physics, tracker, source, source.start, steps, keep=())
    assert record.reference is not None
    heights = torch.stack((record.robot[1:, :, 2], record.reference[1:, :, 2]), dim=-1)
    return Pushed(heights.cpu(), *map(torch.stack, (shares, limited, paid)))


def flights_table(models: Models, corpus: Corpus) -> list[Result]:
    some = [one for one in flights(corpus) if one.rise_m >= RISES_M[0]]
    pushed, cells = follow(models, corpus, some), []
    for i, one in enumerate(some):
        last = BEFORE + one.end - one.begin
        push = slice(BEFORE - PUSH, BEFORE)
        robot, reference = pushed.pelvis[:last, i].unbind(-1)
        off = (robot - reference).abs()
        if off[BEFORE - 1] > WITHIN_M:  # it had lost its reference before
            continue
        speeds = (x[BEFORE - PUSH :].diff().max() * FPS for x in (robot, reference))
        cells.append(
            {
                "rise": one.rise_m,
                "within 0.25 m": float(off[BEFORE:].max() < WITHIN_M),
                "pelvis at most": float(robot[BEFORE:].max()),
                "pelvis at most, reference": float(reference[BEFORE:].max()),
                "speed up": float(next(speeds)),
                "speed up, reference": float(next(speeds)),
                "knees, share of effort": float(pushed.share[push, i][:, KNEES].mean()),
                "ankles at a limit": float(
                    pushed.limited[push, i][:, ANKLES].any(dim=1).float().mean()
                ),
            }
        )
    results, ends = [], (*RISES_M[1:], np.inf)
    for least, most in zip(RISES_M, ends, strict=True):
        row = f"rise from {least:g} m" + (f" to {most:g} m" if most < np.inf else "")
        own = [cell for cell in cells if least <= cell["rise"] < most]
        for name in list(own[0])[1:] if own else ():
            unit = "m/s" if "speed" in name else "m" if "pelvis" in name else ""
            value = float(np.mean([cell[name] for cell in own]))
            results.append(Result(TABLE, row, name, value, unit, len(own)))
    return results


def search(
    models: Models, corpus: Corpus, flight: Flight, seed: int = 0
) -> list[Result]:
    """The best jump of each reach, by the distance of the pelvis's height."""
    results, controller = [], models.controller
    steps = 2 * PUSH + flight.end - flight.begin
    shape = (-(-steps // KNOT), len(LEGS))
    tries = {"models": models, "corpus": corpus, "before": 2 * PUSH}

    def spread_out(knots: np.ndarray) -> Tensor:
        """(T, n, 29) what knots (n, k, 6), or those of one robot, add to actions."""
        knots = np.repeat(knots.reshape(-1, *shape), KNOT, axis=1)
        more = torch.zeros(steps, len(knots), g1.NUM_JOINTS)
        more[..., LEGS] = torch.tensor(knots[:, :steps]).float().transpose(0, 1)
        return more

    for reach in (1.0, 4.0):
        controller.config = replace(controller.config, reach=reach)
        draw = np.random.default_rng(seed)
        mean, spread = np.zeros(shape), np.full(shape, 2.5)
        for _ in trange(GENERATIONS, desc=f"reach {reach:g}", disable=None):
            tried = mean + spread * draw.standard_normal((ROBOTS, *shape))
            tried[0] = mean
            pushed = follow(some=[flight] * ROBOTS, more=spread_out(tried), **tries)
            off = pushed.pelvis.diff(dim=-1).abs()[..., 0].mean(dim=0)
            best = off.argsort()[:BEST]
            kept = tried[best.numpy()]
            mean = 0.2 * mean + 0.8 * kept.mean(axis=0)
            spread = 0.2 * spread + 0.8 * kept.std(axis=0) + 0.03
        parts = torch.tensor(SHARES)[None, :, None]
        pushed = follow(
            some=[flight] * len(SHARES),
            more=spread_out(mean) * parts,
            pays=True,
            **tries,
        )
        for n, part in enumerate(SHARES):
            robot, reference = pushed.pelvis[:, n].unbind(-1)
            paid, penalty = (float(x) for x in pushed.paid[:, n].sum(dim=0))
            row = f"reach {reach:g}, {part:g} of the change"
            cells = {
                "pelvis at most": float(robot.max()),
                "pelvis at most, reference": float(reference.max()),
                "reward but for the ankles": paid,
                "ankles' penalty": penalty,
            }
            results += [
                Result(TABLE, row, name, value, "m" if "pelvis" in name else "")
                for name, value in cells.items()
            ]
    return results


def main() -> None:
    parser = models_parser()
    parser.add_argument("what", choices=("flights", "search"))
    parser.add_argument("--corpus", required=True, help="folder of a corpus")
    parser.add_argument("--clip", help="clip whose highest flight is searched for")
    given = parsed(parser)
    corpus = api.open_corpus(given.corpus)
    models = Models.load(given.controller, given.skill)
    if given.what == "flights":
        results = flights_table(models, corpus)
    else:
        if given.clip is None:
            parser.error("search needs --clip")
        one = corpus.select(np.array([corpus.index(given.clip)]))
        if not (found := flights(one)):
            parser.error(f"no flight in {given.clip}; choose a clip with a jump")
        results = search(models, one, max(found, key=lambda flight: flight.rise_m))
    used = model_hashes(**models.hashes, corpus=corpus.hash)
    about = {"table": f"{TABLE}, {given.label}", "models": used}
    report([replace(r, **about) for r in results], "cpu", given.record)


if __name__ == "__main__":
    main()
