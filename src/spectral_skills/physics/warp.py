"""MuJoCo Warp: thousands of robots side by side on a GPU.

The four substeps of a control step and what is read after them are one captured graph.
State tensors share Warp's memory, and the graph is launched on torch's current stream:
nothing is copied and nothing waits for the host. On the CPU, which has no graphs, the
same kernels run one after the other; that is for tests.
"""

import gc
from contextlib import contextmanager
from typing import no_type_check

import mujoco_warp
import torch
import warp as wp
from mujoco_warp._src.types import OverflowType  # not exported in 3.11
from torch import Tensor

from spectral_skills.physics import settings
from spectral_skills.physics.base import VARIED, Variation, changes
from spectral_skills.physics.settings import PhysicsConfig
from spectral_skills.robot import g1

_DERIVED = ("body_subtreemass", "body_invweight0", "dof_invweight0")
"""Fields that depend on masses."""
_PROBE = 1024
"""Number of robots whose memory is measured when too many were asked for."""
_NO_MEMORY = ("Failed to allocate", "out of memory")
_LARGEST = wp.constant(settings.LARGEST)
_Table = wp.array2d[float]
_Counts = wp.array[wp.int32]

wp.set_module_options({"enable_backward": False})


class WarpPhysics:
    """`count` robots on `device`; see `Physics` for the tensors."""

    def __init__(
        self,
        count: int,
        config: PhysicsConfig | None = None,
        device: str | torch.device = "cuda",
    ):
        self.count, self.config = count, config or PhysicsConfig()
        self.device = torch.device(device)
        if self.device.type == "cuda" and self.device.index is None:
            self.device = torch.device("cuda", torch.cuda.current_device())
        self.bytes_per_robot = 0
        """Device memory in bytes; 0 on the CPU."""
        self._streams: dict[int, wp.Stream] = {}
        wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)
        wp.init()
        free = self._free_memory()
        problem = self._try_to_build()
        if problem:
            raise ValueError(self._too_many(problem, free))
        if free:
            self.bytes_per_robot = (free - self._free_memory()) // count

    def step(self) -> None:
        if self._graph is None:
            with self._same_stream():
                self._control_step()
        else:
            # The default stream belongs to the current device.
            with torch.cuda.device(self.device):
                wp.capture_launch(self._graph, self._torch_stream())

    def vary(self, variation: Variation) -> None:
        found = changes(self.mujoco_model, variation)
        for field, index, values in found:
            array = wp.to_torch(getattr(self.model, field))
            array[(slice(None), *index)] = values.to(self.device, torch.float32)
        if any(field.startswith("body_") for field, _, _ in found):
            with self._same_stream():
                mujoco_warp.set_const(self.model, self.data, restore=False)

    def counters(self) -> dict[str, int]:
        """Waits for the device. All robots share one pool of contacts: if it was too
        small, any robot may have lost some, and all are counted."""
        rows = OverflowType.NEFC | OverflowType.NJMAX_NNZ
        pool = OverflowType.BROADPHASE | OverflowType.NARROWPHASE
        contacts, constraints = (
            (self._overflow & int(kind) != 0).sum() for kind in (pool, rows)
        )
        counts = torch.stack((contacts, constraints, self._broken_steps[0])).tolist()
        self._overflow.zero_()
        self._broken_steps.zero_()
        return dict(zip(("contacts", "constraints", "broken"), counts, strict=True))

    @property
    def rows(self) -> Tensor:
        """(n,) constraint rows that the last substep needed."""
        return wp.to_torch(self.data.nefc)

    def _build(self) -> None:
        count, config = self.count, self.config
        nominal = self.mujoco_model = settings.tracking_model(config)
        with self._same_stream():
            sizes = dict.fromkeys((*VARIED, *_DERIVED), count)
            self.model = mujoco_warp.put_model(nominal, batch_sizes=sizes)
            self.model.stat.meaninertia = wp.full(
                count, float(nominal.stat.meaninertia), dtype=float
            )
            # They are counted, and need not be printed from the device.
            self.model.opt.warn_overflow = False
            self.data = mujoco_warp.make_data(
                nominal, nworld=count, nconmax=config.contacts, njmax=config.constraints
            )
        self._wrap()
        self._graph = None
        self.step()  # compiles the kernels, and shows whether memory suffices
        if self.device.type == "cuda":
            self._graph = self._capture()
            self.step()
            torch.cuda.synchronize(self.device)
        self._start_over()

    def _wrap(self) -> None:
        """Create tensors that share memory between torch and Warp."""
        count, device, data = self.count, self.device, self.data
        self.qpos, self.qvel = wp.to_torch(data.qpos), wp.to_torch(data.qvel)
        self.qacc = wp.to_torch(data.qacc)
        self.torque = wp.to_torch(data.actuator_force)
        self._warm_start = wp.to_torch(data.qacc_warmstart)
        self._overflow = wp.to_torch(data.overflow)
        self._default = torch.tensor(g1.DEFAULT_QPOS, device=device).float()
        self.targets = self._default[7:].repeat(count, 1)
        self.held = self.targets.clone()
        self.delay = torch.zeros(count, dtype=torch.int32, device=device)
        self.contact_force = torch.zeros(count, len(g1.LINKS), device=device)
        self.broken = torch.zeros(count, dtype=torch.bool, device=device)
        self._broken_steps = torch.zeros(1, dtype=torch.int32, device=device)
        links = settings.geom_links(self.mujoco_model)
        self._links = torch.tensor(links, device=device)
        self._start_over()

    def _start_over(self) -> None:
        self.qpos[:] = self._default
        self.targets[:] = self._default[7:]
        self.held[:] = self._default[7:]
        for tensor in (
            *(self.qvel, self.qacc, self.torque, self._warm_start, self._overflow),
            *(self.contact_force, self.broken, self._broken_steps),
        ):
            tensor.zero_()

    def _control_step(self) -> None:
        data = self.data
        targets, held = wp.from_torch(self.targets), wp.from_torch(self.held)
        force = wp.from_torch(self.contact_force)
        for substep in range(g1.DECIMATION):
            wp.launch(
                _choose_targets,
                dim=(self.count, g1.NUM_JOINTS),
                inputs=[substep, wp.from_torch(self.delay), held, targets],
                outputs=[data.ctrl],
            )
            mujoco_warp.step(self.model, data)
        wp.copy(held, targets)
        force.zero_()
        contact = data.contact
        wp.launch(
            _largest_normal_force,
            dim=data.naconmax,
            inputs=[
                *(data.nacon, contact.worldid, contact.geom, contact.efc_address),
                *(data.efc.force, wp.from_torch(self._links)),
            ],
            outputs=[force],
        )
        wp.launch(
            _put_broken_upright,
            dim=self.count,
            inputs=[wp.from_torch(self._default)],
            outputs=[
                *(data.qpos, data.qvel, data.qacc, data.qacc_warmstart),
                *(data.actuator_force, held, force),
                *(wp.from_torch(self.broken), wp.from_torch(self._broken_steps)),
            ],
        )

    def _capture(self) -> wp.Graph:
        # On Warp's own stream, since the default one cannot be captured. A graph that
        # is garbage-collected meanwhile would break the capture.
        torch.cuda.synchronize(self.device)
        gc.collect()
        gc.disable()
        try:
            with wp.ScopedDevice(str(self.device)), wp.ScopedCapture() as capture:
                self._control_step()
        finally:
            gc.enable()
        assert capture.graph is not None
        return capture.graph

    @contextmanager
    def _same_stream(self):
        """Use this device, in the order of torch's work."""
        if self.device.type == "cpu":
            with wp.ScopedDevice("cpu"):
                yield
        else:
            with wp.ScopedStream(self._torch_stream(), sync_enter=False):
                yield

    def _torch_stream(self) -> wp.Stream:
        stream = torch.cuda.current_stream(self.device)
        if stream.cuda_stream not in self._streams:
            self._streams[stream.cuda_stream] = wp.stream_from_torch(stream)
        return self._streams[stream.cuda_stream]

    def _free_memory(self) -> int:
        if self.device.type == "cpu":
            return 0
        torch.cuda.synchronize(self.device)
        return torch.cuda.mem_get_info(self.device)[0]

    def _try_to_build(self) -> str:
        """Build the simulation; returns the allocator's message if memory ran out."""
        try:
            self._build()
        except (RuntimeError, MemoryError) as error:
            if not any(sign in str(error) for sign in _NO_MEMORY):
                raise
            return str(error)
        return ""

    def _too_many(self, problem: str, free: int) -> str:
        count, config, device = self.count, self.config, self.device
        text = f"{count:,} robots do not fit into the memory of {device}"
        if not free or count <= _PROBE:
            return f"{text}: {problem}"
        self.__dict__.clear()  # frees the memory
        gc.collect()
        torch.cuda.empty_cache()
        each = WarpPhysics(_PROBE, config, device).bytes_per_robot
        return (
            f"{text}: {free / 2**30:.1f} GiB were free, and one takes "
            f"{each / 1024:.0f} KiB, so about {free // max(each, 1):,} would fit"
        )


# Kernels beside those of MuJoCo Warp. Warp compiles them to C++: arrays and indices are
# not Python's, hence no type check.


@no_type_check
@wp.kernel
def _choose_targets(
    substep: int, delay: _Counts, held: _Table, targets: _Table, ctrl: _Table
):
    robot, joint = wp.tid()
    if substep < delay[robot]:
        ctrl[robot, joint] = held[robot, joint]
    else:
        ctrl[robot, joint] = targets[robot, joint]


@no_type_check
@wp.kernel
def _largest_normal_force(
    contacts: wp.array[int],
    robots: wp.array[int],
    geoms: wp.array[wp.vec2i],
    rows: wp.array2d[int],
    row_force: _Table,
    links: _Counts,
    force: _Table,
):
    """The forces of a pyramid's edges add up to the normal force."""
    contact = wp.tid()
    if contact >= contacts[0] or rows[contact, 0] < 0:
        return
    robot = robots[contact]
    normal = float(0.0)  # noqa: UP018 (a literal would be a constant in Warp)
    for edge in range(rows.shape[1]):
        if rows[contact, edge] >= 0:
            normal += row_force[robot, rows[contact, edge]]
    for side in range(2):
        link = links[geoms[contact][side]]
        if link >= 0:
            wp.atomic_max(force, robot, link, normal)


@no_type_check
@wp.kernel
def _put_broken_upright(
    upright: wp.array[float],
    qpos: _Table,
    qvel: _Table,
    qacc: _Table,
    warm_start: _Table,
    torque: _Table,
    held: _Table,
    force: _Table,
    broken: wp.array[wp.bool],
    broken_steps: _Counts,
):
    robot = wp.tid()
    finite = bool(True)  # noqa: UP018
    for i in range(qpos.shape[1]):
        finite = finite and wp.abs(qpos[robot, i]) < _LARGEST
    for i in range(qvel.shape[1]):
        finite = finite and wp.abs(qvel[robot, i]) < _LARGEST
        finite = finite and wp.isfinite(qacc[robot, i])
    for i in range(held.shape[1]):  # a motor's limits would hide a target of NaN
        finite = finite and wp.isfinite(held[robot, i])
    broken[robot] = not finite
    if finite:
        return
    wp.atomic_add(broken_steps, 0, 1)
    for i in range(qpos.shape[1]):
        qpos[robot, i] = upright[i]
    for i in range(qvel.shape[1]):
        qvel[robot, i] = 0.0
        qacc[robot, i] = 0.0
        warm_start[robot, i] = 0.0
    for i in range(torque.shape[1]):
        torque[robot, i] = 0.0
        held[robot, i] = upright[7 + i]
    for i in range(force.shape[1]):
        force[robot, i] = 0.0
