"""Speed and accuracy of inverse kinematics, against mink.

Both get the same poses of six links, taken from a motion that keeps the limits, and
the same weights; both begin at the default pose. Ours solves the clip at once.
mink goes frame by frame, each from the one before, as it is made to be used, and
iterates every frame until all links are within 0.1 mm and 0.01 degrees.
"""

import importlib.util
import multiprocessing
import time
from importlib.metadata import version

import numpy as np
import torch
from report import main
from torch import Tensor

from spectral_skills import rotation
from spectral_skills.motion.ik import POSTURE, InverseKinematics
from spectral_skills.motion.kinematics import Kinematics
from spectral_skills.motion.targets import PoseTarget
from spectral_skills.results import Result
from spectral_skills.robot import g1
from spectral_skills.robot.model import build_model

_LINKS = ("pelvis", "torso_link", *g1.END_EFFECTORS)
_FRAMES, _FPS = 1000, 50.0
_CLOSE_M, _CLOSE_RAD = 1e-4, np.radians(0.01)
_MINK_ITERATIONS = 20


def motion(frames: int = _FRAMES) -> Tensor:
    """(frames, 36) smooth rows within the soft limits, the same every time."""
    random = np.random.default_rng(0)
    t = np.arange(frames)[:, None] / _FPS
    low, high = g1.SOFT_LIMITS.T
    room = np.minimum(high - g1.DEFAULT_JOINTS, g1.DEFAULT_JOINTS - low)
    joints = np.tile(g1.DEFAULT_JOINTS, (frames, 1))
    for frequency in (0.3, 0.7, 1.5):
        phase = random.uniform(0, 2 * np.pi, g1.NUM_JOINTS)
        reach = random.uniform(0.1, 0.3, g1.NUM_JOINTS) * np.minimum(room, 1.0)
        joints += reach * np.sin(2 * np.pi * frequency * t + phase)
    rows = torch.from_numpy(np.tile(g1.DEFAULT_QPOS, (frames, 1)))
    rows[:, 7:] = torch.from_numpy(joints)
    rows[:, :3] += torch.from_numpy(np.sin(t * (0.5, 0.4, 2.0)) * (1.0, 1.0, 0.05))
    lean = np.concatenate((0.2 * np.sin(t), 0.2 * np.cos(1.3 * t), 0.5 * t), axis=1)
    rows[:, 3:7] = rotation.exp(torch.from_numpy(lean))
    return rows


def ik(device: str) -> list[Result]:
    """Frames a second and errors of our solver and, on a CPU, of mink."""
    rows = motion()
    start = _start(rows)
    if device != "cpu":
        results = _ours(rows, start, device, "ours, one clip")
        many = 64
        rows, start = rows.repeat(many, 1, 1), start.repeat(many, 1, 1)
        results += _ours(rows, start, device, f"ours, {many} clips at once")
        return results
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    results = _ours(rows, start, device, "ours, one core")
    results.append(_two_processes())
    results += _mink(rows, start)
    torch.set_num_threads(threads)
    return results


def _start(rows: Tensor) -> Tensor:
    """The default pose under the pelvis of the rows, and facing as it does."""
    start = torch.from_numpy(g1.DEFAULT_QPOS).repeat(len(rows), 1)
    start[:, :2] = rows[:, :2]
    start[:, 3:7] = rotation.heading(rows[:, 3:7])
    return start


def _result(row: str, metric: str, value: float, unit: str, n: int) -> Result:
    goal = "at least 2,000" if row == "ours, two processes" else ""
    return Result("Inverse kinematics", row, metric, value, unit, n=n, paper=goal)


def _errors(row: str, wanted: Tensor, reached: Tensor) -> list[Result]:
    """Errors of the links of reached rows (..., 36)."""
    kinematics = Kinematics(_LINKS, dtype=torch.float64)
    goal, found = kinematics(wanted), kinematics(reached)
    position = (found.position - goal.position).norm(dim=-1)
    orientation = rotation.angle_between(found.quaternion, goal.quaternion)
    values = (
        ("mean position error", 1e3 * float(position.mean()), "mm"),
        ("largest position error", 1e3 * float(position.max()), "mm"),
        ("largest orientation error", np.degrees(float(orientation.max())), "degrees"),
    )
    count = position.shape[:-1].numel()
    return [_result(row, name, value, unit, count) for name, value, unit in values]


def _ours(rows: Tensor, start: Tensor, device: str, row: str) -> list[Result]:
    solver, targets = _problem(rows, device)
    start = start.to(device)
    seconds, found = np.inf, solver.solve(start, targets, fps=_FPS)
    for _ in range(3):
        begin = time.perf_counter()
        found = solver.solve(start, targets, fps=_FPS)
        if found.qpos.is_cuda:
            torch.cuda.synchronize()
        seconds = min(seconds, time.perf_counter() - begin)
    count = rows.shape[:-1].numel()
    return [
        _result(row, "speed", count / seconds, "frames/s", count),
        _result(row, "iterations", found.iterations, "", count),
        *_errors(row, rows, found.qpos.cpu()),
    ]


def _problem(rows: Tensor, device: str) -> tuple[InverseKinematics, list[PoseTarget]]:
    poses = Kinematics(_LINKS, dtype=torch.float64)(rows)
    position, quaternion = poses.position.to(device), poses.quaternion.to(device)
    targets = [
        PoseTarget(name, position[..., i, :], quaternion[..., i, :])
        for i, name in enumerate(_LINKS)
    ]
    return InverseKinematics(device=device), targets


def _two_processes() -> Result:
    """Two workers with one thread each; the slower one counts."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        seconds = max(pool.map(_worker, range(2), chunksize=1))
    rate = 2 * _FRAMES / seconds
    return _result("ours, two processes", "speed", rate, "frames/s", 2 * _FRAMES)


def _worker(_: int) -> float:
    """Seconds to solve the clip once, of several in a row."""
    torch.set_num_threads(1)
    rows, repeat = motion(), 4
    solver, targets = _problem(rows, "cpu")
    start = _start(rows)
    solver.solve(start, targets, fps=_FPS)
    begin = time.perf_counter()
    for _ in range(repeat):
        solver.solve(start, targets, fps=_FPS)
    return (time.perf_counter() - begin) / repeat


def _mink(rows: Tensor, start: Tensor) -> list[Result]:
    if importlib.util.find_spec("mink") is None:
        print("mink is not installed, so ours stands alone: pip install mink daqp")
        return []
    import mink

    model = build_model(meshes=False, floor=False)
    tasks = [mink.FrameTask(name, "body", 1.0, 1.0) for name in _LINKS]
    # Costs of mink are squared, ours are not.
    posture = mink.PostureTask(model, cost=float(np.sqrt(POSTURE)))
    posture.set_target(g1.DEFAULT_QPOS)
    speeds = {
        f"{name}_joint": 0.9 * speed
        for name, speed in zip(g1.JOINTS, g1.VELOCITY_LIMIT, strict=True)
    }
    limits = [mink.ConfigurationLimit(model), mink.VelocityLimit(model, speeds)]
    poses = Kinematics(_LINKS, dtype=torch.float64)(rows)
    goals = torch.cat((poses.quaternion, poses.position), dim=-1).numpy()

    def run() -> tuple[float, int, np.ndarray]:
        found, iterations = [], 0
        configuration = mink.Configuration(model, start[0].numpy())
        begin = time.perf_counter()
        for goal in goals:
            for task, pose in zip(tasks, goal, strict=True):
                task.set_target(mink.SE3(pose))
            for _ in range(_MINK_ITERATIONS):
                velocity = mink.solve_ik(
                    configuration, [*tasks, posture], 1 / _FPS, "daqp", limits=limits
                )
                configuration.integrate_inplace(velocity, 1 / _FPS)
                iterations += 1
                errors = np.array([task.compute_error(configuration) for task in tasks])
                shift, turn = errors[:, :3], errors[:, 3:]
                if (
                    np.linalg.norm(shift, axis=1).max() < _CLOSE_M
                    and np.linalg.norm(turn, axis=1).max() < _CLOSE_RAD
                ):
                    break
            found.append(configuration.q.copy())
        return time.perf_counter() - begin, iterations, np.array(found)

    seconds, iterations, found = min((run() for _ in range(3)), key=lambda r: r[0])
    row, count = f"mink {version('mink')} with daqp, one core", len(goals)
    return [
        _result(row, "speed", count / seconds, "frames/s", count),
        _result(row, "iterations", iterations / count, "a frame", count),
        *_errors(row, rows, torch.from_numpy(found)),
    ]


if __name__ == "__main__":
    main(ik)
