"""Pictures of the G1: both renderers, and how one is chosen."""

import subprocess
from functools import lru_cache

import numpy as np
import pytest

from spectral_skills.robot import g1, render
from spectral_skills.robot.model import Capsules
from spectral_skills.robot.render import Camera, RobotRenderer
from spectral_skills.robot.software import draw, visible

SIZE = 160
FRONT = Camera(azimuth_deg=180.0, elevation_deg=-5.0)
AWAY = g1.DEFAULT_QPOS + np.array([50.0, *[0.0] * 35])
"""A pose out of sight of `FRONT`, to take the empty stage."""


@pytest.fixture(scope="module")
def software():
    """The software renderer."""
    with RobotRenderer(SIZE, SIZE, "software") as renderer:
        yield renderer


@pytest.fixture(scope="module")
def gl():
    """The OpenGL renderer, where there is one."""
    if render.backend() == "software":
        pytest.skip("neither EGL nor OSMesa draws on this machine")
    with RobotRenderer(SIZE, SIZE) as renderer:
        yield renderer


@pytest.fixture(params=["software", "gl"])
def renderer(request):
    """Each renderer in turn."""
    return request.getfixturevalue(request.param)


@lru_cache
def _empty(renderer, camera) -> np.ndarray:
    return renderer.draw(AWAY, camera).astype(int)


def _silhouette(renderer, pose, camera=FRONT, **options) -> np.ndarray:
    """Pixels that a robot (and its shadow) changes on the stage above the floor."""
    drawn = renderer.draw(pose, camera, **options).astype(int)
    return np.abs(drawn - _empty(renderer, camera)).max(axis=2) > 24


def _arms_up() -> np.ndarray:
    pose = g1.DEFAULT_QPOS.copy()
    pose[7 + g1.joint_index("left_shoulder_roll")] = 2.0
    pose[7 + g1.joint_index("left_elbow")] = 1.5
    return pose


def _mirrored(pose: np.ndarray) -> np.ndarray:
    joints = pose[7:][g1.MIRROR_JOINTS] * g1.MIRROR_SIGNS
    return np.concatenate([pose[:7], joints])


def test_robot_stands_in_the_middle(renderer):
    """The picture is not blank, and its subject is centred and whole."""
    mask = _silhouette(renderer, g1.DEFAULT_QPOS)
    picture = renderer.draw(g1.DEFAULT_QPOS, FRONT)
    assert picture.shape == (SIZE, SIZE, 3) and picture.dtype == np.uint8
    rows, columns = np.nonzero(mask[: int(0.6 * SIZE)])  # above the shadow
    assert abs(np.median(columns) - SIZE / 2) < 0.04 * SIZE
    assert np.ptp(rows) > 0.4 * SIZE > np.ptp(columns)
    assert not mask[:3].any()


def test_raised_arm_changes_its_own_side_only(renderer):
    """The left arm is on the right of a picture taken from the front."""
    rest = renderer.draw(g1.DEFAULT_QPOS, FRONT).astype(int)
    raised = renderer.draw(_arms_up(), FRONT).astype(int)
    changed = np.abs(raised - rest).max(axis=2)[: SIZE // 2] > 24
    right = changed[:, SIZE // 2 :].sum()
    assert right > 100
    assert changed[:, : SIZE // 2 - 5].sum() < 0.1 * right


def test_mirrored_pose_gives_mirrored_silhouette(software):
    """Swapping the sides of the robot flips its outline (to the meshes' asymmetry)."""
    # Above the knees: the shadow falls to one side for both.
    one, other = (
        _silhouette(software, pose)[: int(0.6 * SIZE)]
        for pose in (_arms_up(), _mirrored(_arms_up()))
    )
    flipped = other[:, ::-1]
    assert (one & flipped).sum() / (one | flipped).sum() > 0.85
    assert (one & other).sum() / (one | other).sum() < 0.85


def test_software_and_gl_outlines_agree(software, gl):
    """Both backends share one camera model."""
    camera = Camera(azimuth_deg=140.0, elevation_deg=-8.0)
    above = np.s_[: SIZE * 3 // 5]  # of the shadows, which differ
    one, other = (
        _silhouette(renderer, _arms_up(), camera)[above] for renderer in (software, gl)
    )
    assert (one & other).sum() / (one | other).sum() > 0.85


def test_a_film_shows_the_same_robot(renderer):
    """Coarser and plainer: same outline, nearly the same light."""
    plain = _silhouette(renderer, _arms_up())
    with RobotRenderer(SIZE, SIZE, renderer.backend, film=True) as quick:
        drawn = _silhouette(quick, _arms_up())
        light = quick.draw(_arms_up(), FRONT).mean()
    above = np.s_[: SIZE * 3 // 5]
    one, other = plain[above], drawn[above]
    assert (one & other).sum() / (one | other).sum() > 0.9
    assert abs(light - renderer.draw(_arms_up(), FRONT).mean()) < 4


def test_camera_follows_and_turns(software):
    """A followed robot keeps its place; another azimuth gives another picture."""
    moved = g1.DEFAULT_QPOS.copy()
    moved[:2] = 3.0, -2.0  # whole squares of the floor, so the stage is the same too
    here = software.draw(g1.DEFAULT_QPOS, Camera())
    there = software.draw(moved, Camera((3.0, -2.0, 0.68)))
    turned = software.draw(g1.DEFAULT_QPOS, Camera(azimuth_deg=60.0))
    assert np.abs(here.astype(int) - there).mean() < 0.5
    assert np.abs(here.astype(int) - turned).mean() > 2.0


def test_two_robots_cover_more_than_one(renderer):
    """Several poses share a scene; a ghost is fainter than a solid robot."""
    poses = np.stack([g1.DEFAULT_QPOS, g1.DEFAULT_QPOS])
    poses[:, 1] = -0.4, 0.4
    ghost = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.3]])
    solid = renderer.draw(poses, FRONT).astype(int)
    faint = renderer.draw(poses, FRONT, ghost).astype(int)
    alone = renderer.draw(poses[0], FRONT).astype(int)
    empty = _empty(renderer, FRONT)
    one, two = (np.abs(p - empty).max(axis=2) > 24 for p in (alone, solid))
    assert two.sum() > 1.5 * one.sum()
    half = np.s_[: SIZE // 2, SIZE // 2 :]
    # In GL the parts of a ghost cover each other, so it is denser than its alpha.
    change = [np.abs(picture - alone)[half].sum() for picture in (faint, solid)]
    assert change[0] < 0.85 * change[1]


def test_tint_colours_the_robot(renderer):
    """A blue tint takes red out of the robot's shell."""
    plain = renderer.draw(g1.DEFAULT_QPOS, FRONT)
    blue = renderer.draw(g1.DEFAULT_QPOS, FRONT, np.array([[0.3, 0.5, 1.0, 1.0]]))
    chest = np.s_[SIZE * 3 // 10 : SIZE * 4 // 10, SIZE * 47 // 100 : SIZE * 53 // 100]
    assert blue[chest][..., 0].mean() < 0.7 * plain[chest][..., 0].mean()


@pytest.fixture
def unprobed(monkeypatch):
    """Forget the backend before and after."""
    monkeypatch.delenv("SPECTRAL_GL", raising=False)
    for known in (render.backend, render._works):
        known.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    for known in (render.backend, render._works):
        known.cache_clear()


def _hang(*_, **__):
    raise subprocess.TimeoutExpired("probe", 20)


def _crash(*_, **__):
    return subprocess.CompletedProcess("probe", -11, stdout="", stderr="")


@pytest.mark.parametrize("run", [_hang, _crash])
def test_bad_driver_means_software(unprobed, run):
    """A driver that hangs or crashes in the probe is not used."""
    unprobed.setattr(render.ctypes.util, "find_library", lambda name: f"lib{name}.so")
    unprobed.setattr(render.subprocess, "run", run)
    assert render.backend() == "software"


def test_no_library_means_no_probe(unprobed):
    """Without a GL library no process is started."""
    unprobed.setattr(render.ctypes.util, "find_library", lambda name: None)
    unprobed.setattr(render.subprocess, "run", lambda *_, **__: pytest.fail("probed"))
    assert render.backend() == "software"


def test_environment_forces_a_backend(unprobed):
    """SPECTRAL_GL decides, and a wrong name is refused with the right ones."""
    unprobed.setenv("SPECTRAL_GL", "software")
    assert render.backend() == "software"
    render.backend.cache_clear()
    unprobed.setenv("SPECTRAL_GL", "vulkan")
    with pytest.raises(ValueError, match="osmesa"):
        render.backend()


def test_wrong_poses_are_refused():
    """A pose must have 36 finite numbers."""
    with RobotRenderer(8, 8, "software") as renderer:
        with pytest.raises(ValueError, match="36"):
            renderer.draw(np.zeros(35), FRONT)
        with pytest.raises(ValueError, match="NaN"):
            renderer.draw(np.full(36, np.nan), FRONT)


def test_nearest_triangle_wins_at_every_sample():
    """The visibility buffer agrees with a loop over triangles and samples."""
    rng = np.random.default_rng(0)
    width, height, count = 23, 17, 40
    xy = rng.uniform(-5, 25, (3 * count, 2))
    depth = rng.uniform(1, 2, 3 * count)
    face = np.arange(3 * count).reshape(count, 3)
    owner, _ = visible(xy, depth, face, width, height)
    for row in range(height):
        for column in range(width):
            at, best, nearest = np.array([column, row]) + 0.5, -1, np.inf
            for i, (a, b, c) in enumerate(xy[face]):
                edges = np.stack([b - a, c - a], axis=1)
                if np.linalg.det(edges) > -1e-6:
                    continue
                u, v = np.linalg.solve(edges, at - a)
                z = np.dot([1 - u - v, u, v], depth[face[i]])
                if min(u, v, 1 - u - v) >= 0 and z < nearest:
                    best, nearest = i, z
            assert owner[row, column] == best


def test_capsules_stand_among_robots():
    """As large as they are, hidden by a robot in front of them and else in sight."""

    def red(x: float, qpos: np.ndarray) -> np.ndarray:
        upright = np.array([[[x, 0.0, 0.4], [x, 0.0, 1.0]]])
        rod = Capsules(upright, np.array([[0.1, 0.05]]), np.array([[0.9, 0.0, 0.0]]))
        tints = np.ones((len(qpos), 4))
        drawn = draw(qpos, FRONT, SIZE, SIZE, tints, figures=rod).astype(int)
        return drawn[..., 0] - drawn[..., 1] > 60

    nobody, robot = np.empty((0, 36)), g1.DEFAULT_QPOS[None]
    alone, px_m = red(0.0, nobody), FRONT.focal_px(SIZE) / FRONT.distance
    rows, columns = np.nonzero(alone)
    assert np.ptp(rows) == pytest.approx(0.75 * px_m, abs=2.5)
    assert np.ptp(columns) == pytest.approx(0.2 * px_m, abs=2.5)
    assert abs(columns.mean() - SIZE / 2) < 1
    wide = alone[alone.any(axis=1)].sum(axis=1)
    assert wide[len(wide) // 6] < 0.8 * wide[-len(wide) // 6]  # thinner above
    before, behind = red(0.6, robot), red(-0.6, robot)
    assert before.sum() == pytest.approx(red(0.6, nobody).sum(), rel=0.05)
    assert 0 < behind.sum() < 0.5 * red(-0.6, nobody).sum()
