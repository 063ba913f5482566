"""A bundle made of nothing: streams of numbers, no graphs."""

from pathlib import Path

import numpy as np

from spectral_skills.control.bundle import (
    Bundle,
    Layout,
    Manifest,
    SkillSupport,
    robot_facts,
)
from spectral_skills.control.played import BaseFacts, PlayedBase
from spectral_skills.robot import g1
from spectral_skills.spectral.direction_file import Directions

WIDTH = 4
LAYOUT = Layout(
    history=10,
    proprio=(("gravity", 3),),
    skill=WIDTH,
    phase=2,
    hold=1,
    window=(0, 9),
    joint_order="mujoco",
)


def directions(names=("up", "turn")) -> Directions:
    k = len(names)
    return Directions(
        names=tuple(names),
        families=("spectral",) * k,
        vectors=np.eye(k, WIDTH, dtype=np.float32),
        gains=np.ones(k),
        amplitudes=np.ones(k),
        stability=np.ones(k),
        sameness=np.ones(k),
        effect_mean=np.zeros((k, 1)),
        effect_std=np.zeros((k, 1)),
        group_shares=np.zeros((k, 4)),
        hand_maps=np.zeros((2, WIDTH, 3)),
        attributes=("speed",),
        units=("m/s",),
        groups=("left_leg", "right_leg", "left_arm", "right_arm"),
        encoder="e",
        data_hash="d",
        contexts=1,
        seed=0,
        hand_contexts=1,
        hand_standing=True,
    )


class MadeUp(Bundle):
    """A bundle whose controller asks for the default pose."""

    def controller(self):
        return lambda history, command: np.zeros(g1.NUM_JOINTS)


def bundle(**lengths: int) -> MadeUp:
    """Bases whose skill is their number, in the order given; `stand` is 0."""
    lengths = {"stand": 50, **lengths}
    bases = {}
    for number, (name, steps) in enumerate(lengths.items()):
        skills = np.full((steps, WIDTH), float(number), np.float32)
        rows = np.tile(g1.DEFAULT_QPOS, (steps, 1)).astype(np.float32)
        bases[name] = PlayedBase(name, "", (0, steps), 0.4, skills, rows)
    manifest = Manifest(
        version=1,
        made_with="test",
        robot=robot_facts(20.0),
        layout=LAYOUT,
        controller="c",
        encoder="e",
        planner="",
        bases=tuple(BaseFacts(b.name, "", b.loop, 0.4) for b in bases.values()),
        typical=1.0,
        far=2.0,
        plan_every=30,
        sentences=(("walk", "walk forward"),),
        takes_s={"walk": 3.0},
        files={},
    )
    support = SkillSupport(np.zeros((1, WIDTH), np.float32), 1.0, 2.0)
    return MadeUp(Path("made-up"), manifest, directions(), bases, support)
