"""How well bases are played: where robots go, how far, and what their joints do.

Every base is played for 8 s as the desk does, by the plain robot and by some with
random masses, friction and starts; once with nothing but its skills, and once with its
heading kept. Recorded bases need the corpus that they were made from.

Then every base is entered from standing, walking and every fast base and left for rest,
and left for every fast base, as a robot would be driven, with sensor noise and
cross-fades of 5 to 30 steps.

    python benchmarks/bases.py --controller runs/mine --skill runs/skills \
        --corpus corpora/cmu
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from report import models_parser, parsed, report
from torch import Tensor

from spectral_skills import api
from spectral_skills.control import recorded
from spectral_skills.control.batch import Executed, Run, Runner
from spectral_skills.control.bundle import Bundle
from spectral_skills.control.looping import headings
from spectral_skills.control.mixer import BRAKED, FADES, REST, Cue
from spectral_skills.control.played import PlayedBase
from spectral_skills.control.rollout import fell_at
from spectral_skills.control.session import Session
from spectral_skills.control.simulated import SimulatedRobot
from spectral_skills.control.streams import FAST_M_S, GENTLE, BaseStream
from spectral_skills.models import Models
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.quaternion import heading
from spectral_skills.results import Result, model_hashes
from spectral_skills.runtime.export import played_bases

TABLE, CHANGES = "Bases: played for 8 s", "Bases: changed from one to another"
STEPS = 8 * FPS
TRAVELS_M_S, MOVES_RAD, MOVES_M = 0.2, 0.1, 0.03
"""Mean speed from which a motion goes somewhere, and deviations from which a joint and
the hands move."""
HANDS = tuple(f"{side}_wrist_yaw_link" for side in ("left", "right"))


@dataclass(frozen=True)
class Played:
    """A base and its motion (T, 36), which may be shorter than what is played."""

    base: PlayedBase
    rows: np.ndarray


class Player(Runner):
    """Robots that play bases step by step, as the mixer does."""

    def __init__(self, models: Models, played: dict[str, Played], keep: bool):
        super().__init__(models.controller, models.encoder)
        self.played, self.keep = played, keep

    def _source(self, runs: Sequence[Run]) -> "Streams":
        return Streams([self.played[one.base.name].base for one in runs], self.keep)


class Streams:
    """A source of skills that are mixed live."""

    def __init__(self, bases: Sequence[PlayedBase], keep: bool):
        self._streams, self._keep = [BaseStream(base) for base in bases], keep

    def source(self, step: int, qpos: Tensor) -> Tensor:
        """The next skill of every robot."""
        angles = [heading(q) if self._keep else None for q in qpos[:, 3:7].numpy()]
        unused = np.zeros(0)
        pairs = zip(self._streams, angles, strict=True)
        skills = np.stack([stream.next(unused, angle).skill for stream, angle in pairs])
        return torch.from_numpy(skills.astype(np.float32))

    def track(self, steps: int) -> None:
        """Nothing is known but the skills."""


def everything(models: Models, corpus: Corpus | None) -> dict[str, Played]:
    """The generated bases and, with their corpus, the recorded ones."""
    encoder = models.skill_encoder
    found = {b.name: Played(b, b.rows) for b in played_bases(encoder)}
    if corpus is not None:
        wanted = recorded.chosen()
        made = recorded.make(encoder, corpus, wanted)
        for name, base in made.items():
            rows = recorded.cut(encoder, corpus, name, wanted[name])[0]
            found[name] = Played(base, rows.numpy())
    return found


def play(
    models: Models, played: dict[str, Played], seeds: Sequence[int | None], keep: bool
) -> dict[str, list[Executed]]:
    """Every base by every robot."""
    player = Player(models, played, keep)
    bases = [recorded.as_base(one.base, STEPS) for one in played.values()]
    runs = [Run("played", base, None, seed) for seed in seeds for base in bases]
    found: dict[str, list[Executed]] = {name: [] for name in played}
    for one in player.execute(runs):
        found[one.run.base.name].append(one)
    return found


def off_deg(one: Executed, base: PlayedBase) -> float:
    """Angle between a robot and its motion, mean of the last second."""
    (begin, end), at = base.loop, np.arange(STEPS + 1)
    at = np.where(at < end, at, begin + (at - begin) % (end - begin))
    assert base.headings is not None
    own = np.cumsum(np.diff(base.headings, prepend=0.0)[at])
    robot = headings(torch.from_numpy(one.rows))
    return float(np.degrees((robot - own)[-FPS:].mean()))


def shares(one: Executed, played: Played, kinematics: Kinematics) -> dict[str, float]:
    """What a robot does over the length of the motion, relative to the motion."""
    frames = min(len(one.rows), len(played.rows))
    robot, own = one.rows[:frames], played.rows[:frames]
    gone, way = path_m(robot), path_m(own)
    found = {}
    if way / (frames / FPS) > TRAVELS_M_S:
        found["path gone"] = gone / way
    moving = own[:, 7:].std(axis=0) > MOVES_RAD
    if moving.any():
        pairs = zip(robot[:, 7:].T[moving], own[:, 7:].T[moving], strict=True)
        alike = [np.corrcoef(ours, theirs)[0, 1] for ours, theirs in pairs]
        found["joint correlation"] = float(np.mean(alike))
    ours, theirs = (hands_m(rows, kinematics) for rows in (robot, own))
    if theirs > MOVES_M:
        found["hands' motion"] = ours / theirs
    return found


def path_m(rows: np.ndarray) -> float:
    """Length of a path, without the sway of steps."""
    places = rows[:: FPS // 2, :2]
    return float(np.linalg.norm(np.diff(places, axis=0), axis=1).sum())


def hands_m(rows: np.ndarray, kinematics: Kinematics) -> float:
    """How far hands are from their mean place relative to the pelvis, as seen from a
    pelvis that does not turn or tilt."""
    still = rows.copy()
    still[:, :7] = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
    places = kinematics(torch.from_numpy(still).float()).position.numpy()
    return float(np.sqrt(places.var(axis=0).sum(axis=-1).mean()))


def results(models: Models, corpus: Corpus | None, robots: int) -> list[Result]:
    """A row for every base: of the robots that stay on their feet the largest angles
    and mean shares, and the number of falls."""
    seeds = [None, *range(robots - 1)]
    played, kinematics = everything(models, corpus), Kinematics(HANDS)
    replayed, kept = (play(models, played, seeds, keep) for keep in (False, True))
    found = []
    for name, one in played.items():
        ways = {"heading, replayed": replayed[name], "heading, kept": kept[name]}
        for metric, runs in ways.items():
            off = [off_deg(run, one.base) for run in runs if run.stands]
            if off:
                largest = max(off, key=abs)
                found.append(Result(TABLE, name, metric, largest, "deg", len(off)))
        each = [shares(run, one, kinematics) for run in kept[name] if run.stands]
        for metric in each[0] if each else ():
            mean = float(np.mean([run[metric] for run in each]))
            found.append(Result(TABLE, name, metric, mean, "", len(each)))
        fell = robots - len(each)
        found.append(Result(TABLE, name, "falls", fell, "", robots))
    return found


def changes(bundle: Bundle, robots: int) -> list[Result]:
    """A row for every base: how many robots fall from another to it and from it to a
    fast one."""
    fast = [one.name for one in bundle.bases.values() if one.speed_m_s > FAST_M_S]
    slow = [name for name in (REST, "walk") if name in bundle.bases]
    found = []
    for name in bundle.bases:
        ways = {f"falls, from {one}": (one, name) for one in (*slow, *fast)}
        ways |= {f"falls, to {one}": (name, one) for one in fast}
        for metric, way in ways.items():
            fell = sum(falls(bundle, *way, seed) for seed in range(robots))
            found.append(Result(CHANGES, name, metric, fell, "", robots, paper="0"))
    return found


def falls(bundle: Bundle, before: str, name: str, seed: int) -> bool:
    """Whether a robot falls from one base to another or from there to rest."""
    random = np.random.default_rng(seed)
    session = Session(bundle, robot=SimulatedRobot(noise=1.0, seed=seed))
    # A base is left at some time before its end, but not before it has begun, which a
    # fast one does late.
    begun, end = FADES[1] + BRAKED + GENTLE, len(bundle.base(name).skills)
    times = random.integers(100, 200), random.integers(begun, max(end, 2 * begun)), 150
    lies_m = min(bundle.base(before).fall_m, bundle.base(name).fall_m)
    for played, steps in zip((before, name, REST), times, strict=True):
        session.play(Cue(played, fade=int(random.integers(5, 31))))
        rows = session.run(steps / FPS).robot[:, 0]
        if fell_at(rows, lies_m) is not None:
            return True
    return False


def main() -> None:
    parser = models_parser()
    parser.add_argument("--corpus", type=Path, help="corpus of the recorded bases")
    parser.add_argument("--robots", type=int, default=4, help="players, one plain")
    parser.add_argument("--changes", type=int, default=4, help="robots per change")
    given = parsed(parser)
    models = Models.load(given.controller, given.skill)
    corpus = None if given.corpus is None else Corpus.open(given.corpus)
    found = results(models, corpus, given.robots)
    found += changes(Bundle.open(api.bundle(models)), given.changes)
    hashes = models.hashes | ({} if corpus is None else {"corpus": corpus.hash})
    about = {"models": model_hashes(**hashes)}
    named = [replace(r, table=f"{r.table}, {given.label}", **about) for r in found]
    report(named, "cpu", given.record)


if __name__ == "__main__":
    main()
