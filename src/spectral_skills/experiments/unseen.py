"""Pairs of factors that no clip of the embedded corpus holds, composed.

The corpus leaves 58 pairs out on purpose (`motion/synthetic/factors.toml`): the
composed motion has no example in the data, by construction and not by a search of it.
One factor of a pair is the base, the other is added by steering. The paper has no such
experiment.
Knobs and amplitude of a factor are chosen on other pairs than those they are judged on:
the pairs of a factor are split in two by a hash of their names, and each half is scored
with what served the other best.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from spectral_skills import rotation
from spectral_skills.control.batch import Run, Runner
from spectral_skills.control.steering import standard
from spectral_skills.experiments import effects
from spectral_skills.experiments.effects import Steered, falls, hold
from spectral_skills.experiments.findings import Draft, Findings, Series, grid
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.motion.synthetic import bases
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.robot import g1

NAME = "unseen"
GRID = grid(NAME)
ADDED: dict[str, dict] = GRID.added
Pair = tuple[str, str]
"""Base and added factor."""
PAIRS: tuple[Pair, ...] = tuple(
    (base, added) for base, factors in GRID.pairs.items() for added in factors.split()
)
Choice = tuple[int, float]
"""Number of the choice of a factor's knobs, and amplitude."""


def halves(pairs: Iterable[Pair]) -> dict[Pair, int]:
    """The half, 0 or 1, of each pair: those of a factor in turn, by their hashes."""
    by_factor = defaultdict(list)
    for pair in pairs:
        digest = hashlib.blake2b(f"{GRID.salt} {' + '.join(pair)}".encode()).digest()
        by_factor[pair[1]].append((digest, pair))
    ordered = (enumerate(sorted(some)) for some in by_factor.values())
    return {pair: i % 2 for some in ordered for i, (_, pair) in some}


HALVES = halves(PAIRS)


@dataclass(frozen=True)
class PairVerdict:
    """A steered run judged by the rules."""

    share: float
    """Share of the least change, by the weakest measure; 0 after a fall."""
    goes_on: bool
    stands: bool = True

    @property
    def success(self) -> bool:
        return self.stands and self.goes_on and self.share >= 1.0


def judge(
    pair: Pair, run: Mapping[str, float], plain: Mapping[str, float]
) -> PairVerdict:
    base, added = pair
    least = ADDED[added]["least"]
    share = min((run[name] - plain[name]) / least[name] for name in least)
    slack = max(GRID.speed_slack, GRID.speed_share * plain["speed"])
    same_pace = abs(run["speed"] - plain["speed"]) <= slack
    own = plain[GRID.kept[base]]
    kept = run[GRID.kept[base]] * np.sign(own) >= GRID.kept_share * abs(own)
    return PairVerdict(share, bool(same_pace and kept))


@cache
def _links() -> Kinematics:
    return Kinematics((*g1.WRISTS, "torso_link"))


def measure(rows: np.ndarray) -> dict[str, float]:
    """The measures of `effects.measure`, and those of hands, trunk and travel, of rows
    (T, 36)."""
    found = effects.measure(rows)
    whole = torch.as_tensor(np.asarray(rows), dtype=torch.float32)
    heading, links = rotation.heading(whole[:, 3:7]), _links()(whole)
    hands = links.position[:, :2] - whole[:, None, :3]
    hands = rotation.rotate_inverse(heading[:, None], hands).numpy()
    for side, hand in zip(("left", "right"), hands.mean(axis=0), strict=True):
        found |= {f"{side}_hand_{axis}": float(hand[i]) for i, axis in enumerate("xyz")}
    up = rotation.rotate(links.quaternion[:, 2], torch.tensor((0.0, 0.0, 1.0)))
    # Of a robot that lies flat, it may be a little more than 1 in floats.
    lean = rotation.rotate_inverse(heading, up)[:, 0].clamp(-1, 1).asin()
    travel = rotation.rotate_inverse(heading[:-1], whole[:, :3].diff(dim=0) * FPS)
    shoulder = whole[:, 7 + g1.joint_index("right_shoulder_pitch")].numpy()
    return found | {
        "right_hand_beat": _beat(hands[:, 1, 0]),
        "right_shoulder_beat": _beat(shoulder),
        "lean_range": float(lean.max() - lean.min()),
        "forward_speed": float(travel[:, 0].mean()),
        "sideways_speed": float(travel[:, 1].mean()),
        "root_range": float(np.ptp(rows[:, 2])),
        "lowness": g1.DEFAULT_HEIGHT - found["root_height"],
        "apex": min(found["left_apex"], found["right_apex"]),
    }


def _beat(signal: np.ndarray) -> float:
    """How far a signal goes to each side at the frequency of the beat."""
    wave = np.exp(-2j * np.pi * GRID.beat_hz * np.arange(len(signal)) / FPS)
    window = np.hanning(len(signal))
    return float(2 * abs((window * wave) @ (signal - signal.mean())) / window.sum())


def steered(
    runner: Runner,
    on: Base,
    added: str,
    amplitude: float,
    choice: int = 0,
    seed: int | None = None,
) -> Run:
    """A base with a factor added by one of its choices of knobs."""
    rule, directions = ADDED[added], runner.directions
    knobs, change = rule["knobs"][choice], np.zeros(directions.vectors.shape[1])
    for name, factor in knobs.items():
        side, _, axis = name.partition("_hand_")
        if axis:
            vector = directions.hand_maps[int(side == "right")][:, "xyz".index(axis)]
            vector = vector / np.linalg.norm(vector)
        else:
            vector = runner.direction(name)
        change += amplitude * factor * vector
    curve = standard(1.0, on.steps)[:, 0]
    if rule.get("beats"):
        t = np.arange(on.steps) / FPS
        curve = curve * 0.5 * (1.0 - np.cos(2 * np.pi * GRID.beat_hz * t))
    name = f"{added} by {' and '.join(knobs)} a={amplitude:g}"
    return runner.steered(on, change, name, curve, seed)


@dataclass(frozen=True)
class Try:
    """A pair composed with one choice of knobs at one amplitude."""

    pair: Pair
    choice: int
    """Number of the choice of the added factor's knobs."""
    amplitude: float
    run: Steered
    verdict: PairVerdict
    changes: dict[str, float]
    """Changes of all measures; empty after a fall."""

    @property
    def name(self) -> str:
        return " + ".join(word.replace("_", " ") for word in self.pair)

    @property
    def merit(self) -> float:
        """1 after success, else a part of it for coming near."""
        near = 0.5 * min(1.0, max(0.0, self.verdict.share)) * self.verdict.goes_on
        return 1.0 if self.verdict.success else near

    @property
    def failure(self) -> str:
        """Reason of a failure; empty after success."""
        if not self.run.stands:
            return "Falls"
        if not self.verdict.goes_on:
            return "The base does not go on"
        weak = self.verdict.stands and self.verdict.share < 1
        return "The added factor is too weak" if weak else ""


def attempt(
    runner: Runner,
    pairs: Sequence[Pair],
    steps: int,
    seed: int | None,
    chosen: Sequence[dict[str, Choice]] = (),
) -> list[Try]:
    """Every pair with every choice of knobs at every amplitude, or with what the halves
    of the pairs chose."""
    on = {
        name: runner.base(name, steps)
        if name in bases.NAMES
        else bases.of_factor(name, steps)
        for name in dict.fromkeys(b for b, _ in pairs)
    }
    # Not every file of directions has those by what a robot was measured to do.
    known = {name.split(" ")[0] for name in runner.directions.names}
    tried = [
        (pair, choice, float(amplitude))
        for pair in pairs
        for choice, knobs in enumerate(ADDED[pair[1]]["knobs"])
        if all("_hand_" in name or name in known for name in knobs)
        for amplitude in GRID.amplitudes
        if not chosen or (choice, amplitude) == _of_other_half(pair, chosen)
    ]
    runs = [runner.plain(one, seed) for one in on.values()]
    runs += [steered(runner, on[p[0]], p[1], a, choice, seed) for p, choice, a in tried]
    done = runner.execute(runs, "unseen pairs")
    plain = dict(zip(on, done, strict=False))
    usual = {
        name: measure(one.rows[hold(on[name])])
        for name, one in plain.items()
        if one.stands
    }
    found = []
    for key, run in zip(tried, done[len(on) :], strict=True):
        verdict, changes, name = PairVerdict(0.0, False, False), {}, key[0][0]
        if run.stands and name in usual:
            ours = measure(run.rows[hold(on[name])])
            verdict = judge(key[0], ours, usual[name])
            changes = {one: ours[one] - usual[name][one] for one in ours}
        found.append(Try(*key, Steered(run, plain[name]), verdict, changes))
    return found


def choose(tried: Iterable[Try]) -> dict[str, Choice]:
    """For each factor the knobs and amplitude with most merit; of equals, the first
    knobs at the smallest amplitude."""
    merit: dict[str, dict[Choice, float]] = defaultdict(lambda: defaultdict(float))
    for one in tried:
        merit[one.pair[1]][one.choice, one.amplitude] += one.merit
    return {
        factor: max(sorted(some), key=lambda key: round(some[key], 6))
        for factor, some in merit.items()
    }


def judged(tried: Sequence[Try], chosen: Sequence[dict[str, Choice]]) -> list[Try]:
    """The try of every pair with what the other half of the pairs chose."""
    return [
        one
        for one in tried
        if (one.choice, one.amplitude) == _of_other_half(one.pair, chosen)
    ]


def _of_other_half(pair: Pair, chosen: Sequence[dict[str, Choice]]) -> Choice:
    """What the other half of the pairs chose for a factor; one with pairs in one half
    only has its first knobs at the first amplitude."""
    return chosen[1 - HALVES[pair]].get(pair[1], (0, GRID.amplitudes[0]))


def choices(tried: Sequence[Try]) -> list[dict[str, Choice]]:
    """What each half of the pairs chooses."""
    return [choose(one for one in tried if HALVES[one.pair] == i) for i in (0, 1)]


def _share(best: Sequence[Try]) -> float:
    return 100.0 * float(np.mean([one.verdict.success for one in best]))


def clips_with(pair: Pair, clips: Sequence[str]) -> int:
    return sum(set(pair) <= factors_of(name) for name in clips)


def unseen(
    runner: Runner,
    seeds: tuple[int, ...] = (),
    *,
    pairs: Sequence[Pair] = PAIRS,
    clips: Sequence[str] | None = None,
    **changes: Any,
) -> Findings:
    """Compose the pairs; `clips` are the names of the corpus to look for them in."""
    run, names, corpus = grid(NAME, **changes), clips or (), ""
    if clips is None:
        opened = Corpus.open(embedded_corpus())
        names, corpus = opened.names, opened.hash
    report = Draft(NAME, runner, corpus)
    tried = attempt(runner, pairs, run.steps, None)
    chosen = choices(tried)
    best = judged(tried, chosen)
    _add_summary(report, tried, best)
    holding = {pair: clips_with(pair, names) for pair in pairs}
    report.add("all pairs", {"clips with both": sum(holding.values())})
    for seed in seeds:
        # What the robot without randomness chose, on another robot.
        some = attempt(runner, pairs, run.steps, seed, chosen)
        row = f"all pairs, seed {seed}"
        report.add(row, {"success": _share(some)}, len(some), seed=seed)
    for one in best:
        _add_pair(report, one, holding[one.pair])
    _add_chart(report, best)
    # Films of the strongest success of each added factor, the strongest factors first.
    good = [one for one in best if one.verdict.success]
    films: dict[str, Try] = {}
    for one in sorted(good, key=lambda one: -one.verdict.share):
        films.setdefault(one.pair[1], one)
    for one in list(films.values())[:3]:
        report.film(one.name, one.run.run, one.run.plain.run)
    reasons = ""
    for why in ("Falls", "The base does not go on", "The added factor is too weak"):
        if failed := [one.name for one in best if one.failure == why]:
            reasons += f" {why}: {', '.join(failed)}."
    return report.findings(
        **{"clips": sum(holding.values()), "done": len(good), "count": len(best)},
        **{"share": _share(best), "goal": run.goal, "reasons": reasons},
        amplitudes=", ".join(f"{a:g}" for a in run.amplitudes),
    )


def _add_summary(report: Draft, tried: Sequence[Try], best: Sequence[Try]) -> None:
    """All pairs, their halves, and the pairs by the factor added and by the base."""
    report.add("all pairs", {"success": _share(best)}, len(best))
    for i, half in enumerate(("first", "second")):
        some = [one for one in best if HALVES[one.pair] == i]
        if some:
            report.add(f"{half} half", {"success": _share(some)}, len(some))
    # With the best try of every pair, chosen with its result in view.
    seen = {}
    for one in tried:
        seen[one.pair] = max(one, seen.get(one.pair, one), key=lambda one: one.merit)
    values = {"success": _share([*seen.values()])}
    report.add("all pairs, chosen in view", values, len(seen))
    for amplitude in GRID.amplitudes:
        runs = [one.run for one in tried if one.amplitude == amplitude]
        values = {"falls": falls(runs)}
        report.add(f"all pairs, a={amplitude:g}", values, len(runs), unit="runs")
    for place, label in enumerate(("on {}", "{} added")):
        for factor in dict.fromkeys(one.pair[place] for one in best):
            some = [one for one in best if one.pair[place] == factor]
            row = label.format(factor.replace("_", " "))
            report.add(row, {"success": _share(some)}, len(some))


def _add_pair(report: Draft, one: Try, clips: int) -> None:
    values = {
        "succeeds": one.verdict.success,
        "amplitude": one.amplitude,
        "choice of knobs": one.choice + 1,
        "clips with both": clips,
        "falls": not one.run.stands,
        "base goes on": one.verdict.goes_on if one.changes else None,
    }
    least = ADDED[one.pair[1]]["least"]
    shown = dict.fromkeys((*least, "heading", "left_shoulder_pitch", "speed"))
    for name in shown if one.changes else ():
        kind = "" if name in least else "side effect: "
        values[f"{kind}{name.replace('_', ' ')}"] = one.changes[name]
    report.add(one.name, values)


def _add_chart(report: Draft, best: Sequence[Try]) -> None:
    series = []
    for name, success in (("succeeds", True), ("does not", False)):
        some = {i: o for i, o in enumerate(best) if o.verdict.success == success}
        if some:
            shares = [one.verdict.share for one in some.values()]
            labels = [one.name for one in some.values()]
            series.append(Series.of(name, some, shares, labels))
    report.chart("effect", series)
