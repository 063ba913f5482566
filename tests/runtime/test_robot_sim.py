"""The simulated robot that speaks the real one's protocol, without the network."""

from typing import Any, cast

import numpy as np
import pytest

from spectral_skills.cli.robot import robot_sim as verb
from spectral_skills.control.safety import Key, Order, damped_stop
from spectral_skills.robot import g1
from spectral_skills.runtime import dds, guard, robot_sim, unitree
from spectral_skills.runtime.robot_sim import (
    MODE_MACHINE,
    Gantry,
    Kind,
    Operator,
    RobotSim,
)

HOLD = Order(g1.DEFAULT_JOINTS, g1.STIFFNESS, g1.DAMPING)


class Link:
    """Both topics as lists."""

    def __init__(self):
        self.states: list[np.ndarray] = []
        self.torsos: list[np.ndarray] = []
        self.sent: np.ndarray | None = None
        self.send, self.send_torso = self.states.append, self.torsos.append

    def commands(self) -> list[np.ndarray]:
        return [] if self.sent is None else [self.sent]


def hung(**settings) -> tuple[RobotSim, Link]:
    link = Link()
    return RobotSim(cast(Any, link), **settings), link


def run(sim: RobotSim, seconds: float) -> None:
    for _ in range(round(seconds / 0.005)):
        sim.step()


def test_it_hangs_and_tells_of_itself():
    """In its gantry, upright, 200 states a second of its clock, which are intact."""
    sim, link = hung()
    run(sim, 1.0)
    assert len(link.states) == len(link.torsos) == 200
    ticks = [int(state["tick"]) for state in link.states]
    assert ticks == list(range(5, 1001, 5)), "milliseconds"
    last = link.states[-1]
    assert unitree.intact(last) and last["mode_machine"] == MODE_MACHINE
    assert unitree.sensed(last, 0.0).tilt_rad < 0.05
    waist = last["motor_state"]["q"][g1.joint_index("waist_pitch")]
    assert waist > 0.4, "motors only brake: the trunk leans forward"
    assert link.torsos[-1]["rpy"][1] == pytest.approx(waist, abs=0.1)
    assert sim.robot.qpos[2] == pytest.approx(Gantry.HANGING_M, abs=0.02)
    assert (sim.doing, sim.kind) == ("hanging", Kind.NONE)


@pytest.mark.parametrize("noise", (0.0, 1.0))
def test_sensors_are_as_noisy_as_asked(noise):
    sim, link = hung(noise=noise, operator="none")
    link.sent = unitree.command(HOLD, 5)
    run(sim, 0.5)
    sent = np.array([state["motor_state"]["q"][:29] for state in link.states])
    true = np.array([qpos[7:] for _, qpos, _, _ in sim.recorded])
    assert (sent - true)[20:].std() == pytest.approx(0.003 * noise, rel=0.1, abs=1e-6)


def test_motors_go_by_the_last_command():
    """Stiffness, damping and target; and what is broken is no command."""
    sim, link = hung(noise=0.0, operator="none")
    link.sent = unitree.command(HOLD, 5)
    run(sim, 0.6)
    legs = slice(0, 12)
    assert np.allclose(sim.robot.qpos[7:][legs], g1.DEFAULT_JOINTS[legs], atol=0.1)
    assert np.allclose(sim.robot.model.actuator_gainprm[:, 0], g1.STIFFNESS)
    broken = unitree.command(damped_stop(g1.DEFAULT_JOINTS), 5)
    broken["crc"] += 1
    link.sent = broken
    run(sim, 0.01)
    assert sim.tally.wrong_crc == 2 and sim.kind is Kind.POSE
    far = Order(HOLD.targets + 9.0, HOLD.stiffness, HOLD.damping)
    link.sent = unitree.command(far, 5)
    run(sim, 0.01)
    assert sim.tally.out_of_limits == 2 and np.isfinite(sim.robot.qpos).all()
    assert (sim.robot.data.ctrl < 5.0).all()
    link.sent = unitree.command(damped_stop(g1.DEFAULT_JOINTS), 5)
    run(sim, 0.01)
    assert sim.kind is Kind.DAMPED and sim.tally.braked_s is not None
    assert not sim.robot.model.actuator_gainprm[:, 0].any()


@pytest.mark.parametrize("reach", [1.0, 4.0])
def test_commands_are_obeyed_as_far_as_the_controller_reaches(reach):
    sim, link = hung(reach=reach)
    for beyond, refused in ((0.0, 0), (0.01, 1)):
        targets = g1.target_limits(reach)[:, 0] - beyond
        link.sent = unitree.command(Order(targets, HOLD.stiffness, HOLD.damping), 5)
        sim.step()
        assert sim.tally.out_of_limits == refused


def test_the_verb_passes_on_how_far_the_controller_reaches(monkeypatch):
    made = []
    monkeypatch.setattr(dds, "RobotLink", lambda *_: Link())
    monkeypatch.setattr(guard, "raise_priority", lambda priority: True)
    monkeypatch.setattr(robot_sim, "run", lambda sim, seconds: made.append(sim))
    verb(reach=1.0)
    verb()
    targets = g1.target_limits(g1.MOST_REACH)[:, 0]
    order = unitree.command(Order(targets, HOLD.stiffness, HOLD.damping), 5)
    for sim, counts in zip(made, ((0, 1), (1, 0)), strict=True):
        sim._link.sent = order
        sim.step()
        assert (sim.tally.commands, sim.tally.out_of_limits) == counts


def test_the_operator_starts_lowers_and_lets_go():
    """Once the driver has reached the default pose, not before."""
    sim, link = hung(stop_after_s=1.8)
    run(sim, 0.6)
    assert sim.keys == 0, "nobody drives"
    link.sent = unitree.command(
        Order(HOLD.targets * 0.5, HOLD.stiffness, HOLD.damping), 5
    )
    run(sim, 0.6)
    assert sim.keys == 0, "still on its way"
    link.sent = unitree.command(HOLD, 5)
    run(sim, Operator.WAITED_S + 0.02)
    assert sim.keys == Key.R1 | Key.START
    run(sim, Operator.PRESSED_S)
    assert sim.keys == Key.R1
    run(sim, Operator.LOWERED_S)
    assert sim.robot.qpos[2] == pytest.approx(Gantry.STANDING_M, abs=0.03)
    assert sim.doing == "hanging"
    run(sim, Operator.HELD_S)
    assert sim.gantry.height_m is None and not sim.robot.data.xfrc_applied.any()
    assert unitree.sensed(link.states[-1], 0.0).keys == Key.R1 | Key.SELECT


def test_it_sinks_when_told_to_brake():
    """The gantry lets go of a robot whose motors only brake."""
    sim, link = hung(operator="none")
    link.sent = unitree.command(damped_stop(g1.DEFAULT_JOINTS), 5)
    sim.gantry.height_m = None
    run(sim, 1.5)
    assert sim.tally.ended == "fallen"
    assert not sim.tally.fell, "it was told to brake"


def test_it_falls_under_control_and_says_so():
    """The default pose alone is no balance."""
    sim, link = hung(operator="none")
    link.sent = unitree.command(HOLD, 5)
    run(sim, 0.5)
    sim.gantry.height_m = None
    run(sim, 1.5)
    assert sim.tally.fell and sim.tally.ended == "fallen"
    assert sim.tally.lowest_m < 0.6


def test_the_record_has_a_row_for_each_step(tmp_path):
    sim, _ = hung()
    run(sim, 0.1)
    sim.save(tmp_path / "record.npz")
    arrays = np.load(tmp_path / "record.npz")
    assert {name: len(array) for name, array in arrays.items()} == dict.fromkeys(
        ("time_s", "qpos", "kind", "keys"), 20
    )
    assert arrays["qpos"].shape == (20, 36)
