"""What SONIC's runtime would read, read as it would."""

import json
import math
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from spectral_skills.cli.robot import export as verb
from spectral_skills.control.bundle import Graph
from spectral_skills.motion.readers.assemble import ReadOptions
from spectral_skills.motion.readers.tables import read_reference
from spectral_skills.robot import g1
from spectral_skills.runtime import sonic
from spectral_skills.runtime.export import played_bases
from spectral_skills.runtime.sonic_stream import token_message
from spectral_skills.tracking.observations import joint_bounds
from spectral_skills.tracking.policy import Controller


@pytest.fixture(scope="module")
def exported(small_models, clips, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("sonic") / "out"
    found = sonic.export(small_models, out, ["walk0", "walk1"], [clips])
    assert found[sonic.POLICY] < 1e-5
    return out


def test_the_policy_has_one_input_and_one_output(exported):
    model = onnx.load(exported / sonic.POLICY)
    assert [opset.version for opset in model.opset_import] == [13]
    (given,), (action,) = model.graph.input, model.graph.output
    shapes = [
        (one.name, [d.dim_value for d in one.type.tensor_type.shape.dim])
        for one in (given, action)
    ]
    assert shapes == [("obs_dict", [1, 5 + 2 + 930]), ("action", [1, 29])]


def test_the_policy_gives_the_controllers_actions(exported, small_models):
    """Blocks in SONIC's order, oldest frame first, joints in IsaacLab's order."""
    _compare(exported / sonic.POLICY, small_models.controller)


@pytest.mark.parametrize("reach", [1.0, 4.0])
def test_a_bounded_controller_of_one_frame_is_a_policy_too(
    reach, make_controller, tmp_path
):
    """Its bounds are wider than the limits of targets, which the runtime ignores."""
    settings = {"history": 1, "bounds": joint_bounds(reach), "reach": reach}
    controller = make_controller(settings)
    with torch.no_grad():
        controller.network.project.weight.mul_(300)
    path = tmp_path / sonic.POLICY
    path.write_bytes(sonic.policy_onnx(controller))
    _compare(path, controller)


def _compare(policy: Path, controller: Controller) -> None:
    torch.manual_seed(3)
    history, command = torch.randn(10, 93), torch.randn(7)
    order = g1.MUJOCO_TO_ISAACLAB
    blocks = [history[:, i : i + 29][:, order] for i in (6, 35, 64)]
    parts = command, history[:, 3:6], *blocks, history[:, :3]
    given = torch.cat([part.flatten() for part in parts])
    found = Graph(policy)(given.numpy())
    one = history[None], command[None, :5], command[None, 5:]
    right = controller.act(*one)[0].numpy()
    targets = g1.DEFAULT_JOINTS + g1.ACTION_SCALE * right
    targets = targets.clip(*g1.target_limits(controller.config.reach).T)
    limited = (targets - g1.DEFAULT_JOINTS) / g1.ACTION_SCALE
    np.testing.assert_allclose(found, limited[order], atol=1e-5)
    ours = sonic.observation(history.numpy(), command.numpy())
    assert np.array_equal(ours, given.numpy())


def test_the_layout_is_in_the_form_that_the_runtime_parses(exported, small_models):
    """Its parser wants a name, and whether it is enabled on the very next line."""
    lines = (exported / sonic.LAYOUT).read_text().splitlines()
    names = [line.split('"')[1] for line in lines if "- name:" in line]
    assert names == [
        "token_state",
        "his_base_angular_velocity_10frame_step1",
        "his_body_joint_positions_10frame_step1",
        "his_body_joint_velocities_10frame_step1",
        "his_last_actions_10frame_step1",
        "his_gravity_dir_10frame_step1",
    ]
    for line, after in zip(lines, lines[1:], strict=False):
        assert "- name:" not in line or after.strip() == "enabled: true"
    assert "  dimension: 7" in lines


def test_references_are_read_back_as_they_are(exported, small_models, clips):
    for base in played_bases(small_models.encoder, ("walk0", "walk1"), [clips]):
        folder = exported / sonic.REFERENCE / base.name
        clip = read_reference(folder, ReadOptions())
        assert (clip.name, clip.fps) == (base.name, 50.0)
        np.testing.assert_allclose(clip.qpos(), base.rows, atol=1e-6)
        report = (folder / "metadata.txt").read_text().splitlines()
        after = report[report.index("Body part indexes:") + 1]
        assert after == "[0 4 10 18 5 11 19 9 16 22 28 17 23 29]"
        for name, width in (("joint_vel", 29), ("body_lin_vel", 42), ("body_quat", 56)):
            table = np.loadtxt(folder / f"{name}.csv", delimiter=",", skiprows=1)
            assert table.shape == (len(base.rows), width)
        stream = np.load(exported / sonic.TOKENS / f"{base.name}.npy")
        table = exported / sonic.TOKENS / f"{base.name}.csv"
        same = np.loadtxt(table, delimiter=",", skiprows=1, dtype=np.float32)
        assert np.array_equal(stream, same)
        assert np.array_equal(stream[4, :5], base.skills[4])


def test_a_held_command_has_a_phase():
    skills = torch.arange(4.0)[:, None]
    angle = 2 * math.pi / 3
    right = [[0, 0, 1], [0, math.sin(angle), math.cos(angle)]]
    right += [[0, math.sin(2 * angle), math.cos(2 * angle)], [3, 0, 1]]
    np.testing.assert_allclose(sonic.tokens(skills, 3), right, atol=1e-6)
    np.testing.assert_allclose(sonic.tokens(skills, 1)[:, 1:], [[0, 1]] * 4)


def test_a_message_is_topic_header_and_arrays():
    token = np.linspace(-1, 1, 66)
    message = token_message(token, 7)
    assert message.startswith(b"pose{") and len(message) == 4 + 1280 + 66 * 4 + 8
    header = json.loads(message[4 : 4 + 1280].rstrip(b"\0"))
    assert {k: header[k] for k in ("v", "endian", "count")} == {
        **{"v": 4, "endian": "le", "count": 1}
    }
    fields = [(f["name"], f["dtype"], f["shape"]) for f in header["fields"]]
    assert fields == [("token_state", "f32", [66]), ("frame_index", "i64", [1])]
    data = message[4 + 1280 :]
    assert np.array_equal(np.frombuffer(data[:264], "<f4"), token.astype(np.float32))
    assert np.frombuffer(data[264:], "<i8").tolist() == [7]
    with pytest.raises(ValueError, match="must be finite"):
        token_message(np.array([np.nan]), 0)


def test_folders_that_are_there_are_left_alone(small_models, exported, clips):
    with pytest.raises(ValueError, match="there already"):
        sonic.export(small_models, exported, ["walk0"], [clips])
    with pytest.raises(ValueError, match="give only one"):
        verb(sonic=True, isaaclab=True, out=exported)
