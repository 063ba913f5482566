"""MuJoCo in C: one copy of the data for each robot, a few robots for each thread.

For evaluation, the desk and tests on machines without a GPU. State is copied from and
to torch once a control step; between steps the tensors are authoritative.
"""

import copy
import os
from concurrent.futures import ThreadPoolExecutor

import mujoco
import numpy as np
import torch

from spectral_skills.physics import settings
from spectral_skills.physics.base import Variation, changes
from spectral_skills.physics.settings import PhysicsConfig
from spectral_skills.robot import g1

_OVERFLOWS = {
    "contacts": mujoco.mjtWarning.mjWARN_CONTACTFULL,
    "constraints": mujoco.mjtWarning.mjWARN_CNSTRFULL,
}


class NativePhysics:
    """`count` robots on the CPU; see `Physics` for the tensors."""

    def __init__(
        self, count: int, config: PhysicsConfig | None = None, threads: int = 0
    ):
        """`threads` is 0 for as many as the machine has cores."""
        self.count, self.device = count, torch.device("cpu")
        self.model = settings.tracking_model(config or PhysicsConfig())
        # Broken robots are counted; MuJoCo would write a file in the current folder.
        mujoco.set_mju_user_warning(lambda text: None)
        # A broken robot must be noticed, not restarted silently in the zero pose.
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
        self.models = [self.model] * count
        """One model for all robots until they are varied."""
        self.data = [mujoco.MjData(self.model) for _ in range(count)]
        self.qpos = torch.tensor(g1.DEFAULT_QPOS).float().repeat(count, 1)
        self.qvel = torch.zeros(count, self.model.nv)
        self.targets = torch.tensor(g1.DEFAULT_JOINTS).float().repeat(count, 1)
        self.held = self.targets.clone()
        self.delay = torch.zeros(count, dtype=torch.int32)
        self.qacc = torch.zeros_like(self.qvel)
        self.torque = torch.zeros_like(self.targets)
        self.contact_force = torch.zeros(count, len(g1.LINKS))
        self.broken = torch.zeros(count, dtype=torch.bool)
        self._links = settings.geom_links(self.model)
        self._broken_steps = 0
        threads = min(count, threads or os.cpu_count() or 1)
        bounds = np.linspace(0, count, threads + 1).astype(int)
        self._groups = [range(a, b) for a, b in zip(bounds, bounds[1:], strict=False)]
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def step(self) -> None:
        if self._pool is None:
            self._step_group(self._groups[0])
        else:
            list(self._pool.map(self._step_group, self._groups))
        self.held.copy_(self.targets)
        self.held[self.broken] = torch.tensor(g1.DEFAULT_JOINTS).float()
        self._broken_steps += int(self.broken.sum())

    def _step_group(self, robots: range) -> None:
        # NumPy views, since indexing them costs a tenth of indexing tensors.
        qpos, qvel, targets = self.qpos.numpy(), self.qvel.numpy(), self.targets.numpy()
        held, delay, qacc = self.held.numpy(), self.delay.numpy(), self.qacc.numpy()
        torque, force = self.torque.numpy(), self.contact_force.numpy()
        broken = self.broken.numpy()
        for i in robots:
            model, data = self.models[i], self.data[i]
            data.qpos, data.qvel = qpos[i], qvel[i]
            broken[i] = not _sound(qpos[i], qvel[i], targets[i])
            if not broken[i]:
                # mj_step releases the GIL, so the threads run in parallel.
                late = min(max(int(delay[i]), 0), g1.DECIMATION)
                if late:
                    data.ctrl = held[i]
                    mujoco.mj_step(model, data, late)
                if late < g1.DECIMATION:
                    data.ctrl = targets[i]
                    mujoco.mj_step(model, data, g1.DECIMATION - late)
                broken[i] = not _sound(data.qpos, data.qvel, data.qacc)
            if broken[i]:  # the default pose at rest, with all other state reset
                mujoco.mj_resetData(model, data)
                data.qpos = g1.DEFAULT_QPOS
            qpos[i], qvel[i] = data.qpos, data.qvel
            qacc[i], torque[i] = data.qacc, data.actuator_force
            force[i] = largest_normal_force(data, self._links)

    def vary(self, variation: Variation) -> None:
        if self.models[0] is self.model:
            self.models = [copy.copy(self.model) for _ in range(self.count)]
        for field, index, values in changes(self.model, variation):
            for model, value in zip(self.models, values.cpu().numpy(), strict=True):
                getattr(model, field)[index] = value
        scratch = mujoco.MjData(self.model)
        for model in self.models:  # weights of constraints depend on masses
            mujoco.mj_setConst(model, scratch)

    def counters(self) -> dict[str, int]:
        """Overflows should stay zero, since MuJoCo in C allocates as needed."""
        counts = {"broken": self._broken_steps}
        self._broken_steps = 0
        for name, kind in _OVERFLOWS.items():
            warnings = [data.warning[kind] for data in self.data]
            counts[name] = sum(warning.number > 0 for warning in warnings)
            for warning in warnings:
                warning.number = 0
        return counts


def largest_normal_force(data: mujoco.MjData, links: np.ndarray) -> np.ndarray:
    """(30,) largest force of each link, for pyramidal cones; `links` of each geom."""
    forces = np.zeros(len(g1.LINKS))
    contact = data.contact
    address = np.asarray(contact.efc_address)
    active = address >= 0
    if not active.any():
        return forces
    # The edges of a pyramid are adjacent, and their forces add up to the normal force.
    address, dim = address[active], np.asarray(contact.dim)[active]
    edges = np.where(dim == 1, 1, 2 * (dim - 1))
    total = np.concatenate(([0.0], np.cumsum(data.efc_force)))
    normal = total[address + edges] - total[address]
    for link in links[np.asarray(contact.geom)[active]].T:
        np.maximum.at(forces, link[link >= 0], normal[link >= 0])
    return forces


def _sound(qpos: np.ndarray, qvel: np.ndarray, other: np.ndarray) -> bool:
    bounded = all((abs(x) < settings.LARGEST).all() for x in (qpos, qvel))
    return bool(bounded and np.isfinite(other).all())
