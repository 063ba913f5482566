"""A bundle holds what the models are, or it is not written."""

import copy
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from spectral_skills import api, cache
from spectral_skills.artifact import PRETRAINED
from spectral_skills.cli.robot import export as verb
from spectral_skills.control import bundle as files
from spectral_skills.control import recorded
from spectral_skills.control.bundle import Bundle
from spectral_skills.control.recorded import Chosen
from spectral_skills.control.session import follow
from spectral_skills.models import ModelPaths, Models
from spectral_skills.motion.windows import WindowConfig
from spectral_skills.planner.acts import acts
from spectral_skills.planner.model import Planner
from spectral_skills.planner.text import TextStates
from spectral_skills.robot import g1
from spectral_skills.runtime import export as module
from spectral_skills.runtime import graphs, kept
from spectral_skills.skill.encoder import EncoderConfig, SkillEncoder
from spectral_skills.skill.model import SkillModel
from spectral_skills.spectral.direction_file import Directions
from spectral_skills.tracking.observations import joint_bounds
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.references import CommandConfig, CommandSource, References

BASE = Path("base")


@pytest.fixture(scope="module")
def small_graphs(small_models) -> dict[str, bytes]:
    """Exported once: the exporter takes seconds, whatever the model."""
    return {
        "controller_onnx": graphs.controller_onnx(small_models.controller),
        "encoder_onnx": graphs.encoder_onnx(small_models.encoder),
    }


@pytest.fixture
def ready(small_graphs, monkeypatch) -> None:
    """Exports of the small models find their graphs made."""
    for name, made in small_graphs.items():
        monkeypatch.setattr(graphs, name, lambda *_, made=made: made)


def test_the_released_bundle_knows_the_robot_exactly(bundle):
    robot, layout = bundle.manifest.robot, bundle.manifest.layout
    for found, right in (
        (robot.stiffness, g1.STIFFNESS),
        (robot.damping, g1.DAMPING),
        (robot.action_scale_rad, g1.ACTION_SCALE),
        (robot.default_rad, g1.DEFAULT_JOINTS),
        (robot.limits_rad, g1.JOINT_LIMITS),
    ):
        assert np.array_equal(np.array(found), right)
    assert sum(size for _, size in layout.proprio) == 93
    assert (layout.history, layout.skill, layout.phase, layout.window) == (
        *(10, 64, 2),
        (0, 9),
    )
    assert robot.reach == Controller.load("base").config.reach
    folder = {path.name for path in bundle.folder.iterdir()}
    assert folder == {files.MANIFEST, *bundle.manifest.files}


def test_its_graphs_are_its_models(bundle):
    """On numbers that no export has seen."""
    random = np.random.default_rng(1)

    def draw(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    history, command = draw(10, 93), draw(66)
    controller = Controller.load("base")
    given = torch.from_numpy(history)[None], torch.from_numpy(command)[None]
    right = controller.act(given[0], given[1][:, :64], given[1][:, 64:])
    pair = [(history, command)], right.numpy()
    assert graphs.largest_difference(bundle.controller(), *pair) <= graphs.TOLERANCE
    rows, robot = bundle.bases["walk"].rows[40:50], bundle.bases["walk"].rows[43, :7]
    encoder = SkillModel.load("base").encoder
    graph = graphs.EncoderGraph(encoder)
    with torch.no_grad():
        right = graph(torch.from_numpy(rows)[None], torch.from_numpy(robot)[None])
    found = bundle.encoder()(rows, robot)
    np.testing.assert_allclose(found, right[0].numpy(), atol=1e-5)


@pytest.mark.parametrize("order", ["mujoco", "isaaclab"])
def test_a_bounded_controller_of_one_frame_is_its_graph(
    order, make_controller, tmp_path
):
    """Also far beyond its bounds, where actions stay within them."""
    bounds = joint_bounds()
    controller = make_controller({"history": 1, "bounds": bounds})
    torch.manual_seed(0)
    with torch.no_grad():
        controller.network.project.weight.mul_(1000)
        controller.proprio.update(5 + 3 * torch.randn(100, 93))
    path = tmp_path / "controller.onnx"
    path.write_bytes(graphs.controller_onnx(controller, order))
    runtime = files.OnnxController(path, order)
    width = controller.config.command.width
    history, command = 5 + 3 * torch.randn(20, 10, 93), torch.randn(20, width + 2)
    right = controller.act(history, command[:, :width], command[:, width:]).numpy()
    assert (np.abs(right) <= np.array(bounds) * (1 + 1e-6)).all()
    assert np.abs(right).max() > 10 and np.abs(right / bounds).max() > 0.99
    given = zip(history.numpy(), command.numpy(), strict=True)
    assert graphs.largest_difference(runtime, given, right) <= graphs.TOLERANCE
    # Older frames are in the history and change nothing.
    found = runtime(history[0].numpy(), command[0].numpy())
    older = history[0].clone()
    older[:-1] = 0
    assert np.array_equal(runtime(older.numpy(), command[0].numpy()), found)


def test_a_smoothed_controller_is_its_graph(make_controller, tmp_path):
    """The last action that it keeps a share of is in the order of its joints."""
    controller = make_controller({"smoothing": 0.4})
    path = tmp_path / "controller.onnx"
    path.write_bytes(graphs.controller_onnx(controller, "isaaclab"))
    runtime = files.OnnxController(path, "isaaclab")
    torch.manual_seed(0)
    width = controller.config.command.width
    history, command = torch.randn(20, 10, 93), torch.randn(20, width + 2)
    right = controller.act(history, command[:, :width], command[:, width:]).numpy()
    given = zip(history.numpy(), command.numpy(), strict=True)
    assert graphs.largest_difference(runtime, given, right) <= graphs.TOLERANCE


def test_its_planner_plans_learned_sentences(bundle):
    planner, runtime = Planner.load("base"), bundle.planner()
    assert runtime is not None
    about = planner.config.about
    assert [sentence for _, sentence in runtime.sentences] == list(about.sentences)
    takes = bundle.manifest.takes_s[about.motions[3].name]
    assert takes == about.motions[3].frames / 50
    from spectral_skills.planner.text import MiniLM

    torch.manual_seed(0)
    history, noise = torch.randn(1, 10, 93), torch.randn(1, 30, 64)
    text = MiniLM().encode([about.sentences[100]])
    right = planner.plan(history, TextStates(*text), noise)[0].numpy()
    found = runtime.plan(history[0].numpy(), about.sentences[100], noise[0].numpy())
    np.testing.assert_allclose(found, right, atol=1e-4)  # of senseless senses


def test_sentences_are_kept_without_padding(bundle):
    states = files.token_states(bundle.folder)
    assert len(states) == len(bundle.manifest.sentences)
    assert len({len(one) for one in states}) > 5
    numbers = sum(one.size for one in states)
    size = (bundle.folder / files.SENTENCES).stat().st_size
    assert size < 2 * numbers + 8 * len(states) + 1000
    assert all((one != 0).any(axis=1).all() for one in states)


def test_what_people_say_need_not_be_read_again(bundle):
    """Every sentence of bases, gestures and acts has its vector in the bundle."""
    from spectral_skills.planner.text import MiniLM, pooled

    model = MiniLM()
    found = files.said_vectors(bundle.folder, model.name)
    said = {one for _, act in acts() for one in act.sentences}
    said |= {base.text for base in bundle.bases.values() if base.text}
    said |= {one for motion in bundle.motions.values() for one in motion.sentences}
    assert said == set(found)
    some = sorted(said)[::500]
    read = pooled(model.encode(some)).numpy()
    np.testing.assert_allclose(np.stack([found[s] for s in some]), read, atol=2e-3)
    assert not files.said_vectors(bundle.folder, "another model")


def test_bases_can_be_repeated_without_a_jump(bundle):
    """Back at its beginning, a stream moves on as it does anywhere."""
    moving = [base for base in bundle.bases.values() if base.has_motion]
    assert [base.name for base in moving] == list(module.NAMES)
    for base in moving:
        begin, end = base.loop
        assert len(base.skills) == len(base.rows) == end > 500
        assert end - begin > 250, base.name
        step = np.linalg.norm(np.diff(base.skills, axis=0), axis=1)
        jump = np.linalg.norm(base.skills[begin] - base.skills[end - 1])
        assert jump <= step.max(), base.name
        joints = np.abs(base.rows[begin, 7:] - base.rows[end - 1, 7:]).max()
        assert joints <= 1.5 * np.abs(np.diff(base.rows[:, 7:], axis=0)).max()


def test_the_corpus_is_near_and_nonsense_is_far(bundle):
    support = bundle.support
    walk = [support.distance(skill) for skill in bundle.bases["walk"].skills[::50]]
    assert 0 < np.median(walk) < support.far and support.typical < support.far
    assert support.distance(np.full(64, 3.0)) > 2 * support.far
    released = files.SkillSupport.load(module.RELEASED_SUPPORT)
    assert released.encoder == bundle.manifest.encoder
    assert (released.typical, released.far) == (support.typical, support.far)


def test_a_skill_of_the_corpus_is_at_no_distance():
    """Exactly, and one beside it as far as it is."""
    bank = np.random.default_rng(0).normal(size=(500, 64)).astype(np.float32)
    support = files.SkillSupport(bank, 1.0, 2.0)
    assert max(map(support.distance, bank)) == 0
    beside = bank[7] + np.float32(1e-3) * np.eye(64, dtype=np.float32)[0]
    assert support.distance(beside) == pytest.approx(1e-3, rel=1e-3)


def test_the_released_bundle_is_found_without_torch(bundle_folder):
    code = (
        "import sys; from spectral_skills.api import bundle as base_bundle; "
        "print(base_bundle(), 'torch' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout.split() == [str(bundle_folder), "False"], out.stderr


def test_isaaclab_order_is_inside_the_graph(make_controller):
    controller = make_controller(adapter=(6,))
    history, command = torch.randn(3, 10, 93), torch.randn(3, 7)
    right = controller.act(history, command[:, :5], command[:, 5:])
    order = torch.from_numpy(g1.MUJOCO_TO_ISAACLAB)
    blocks = [history[..., i : i + 29][..., order] for i in (6, 35, 64)]
    outside = torch.cat((history[..., :6], *blocks), dim=-1)
    with torch.no_grad():
        found = graphs.ControllerGraph(controller, "isaaclab")(outside, command)
        plain = graphs.ControllerGraph(controller)(history, command)
    assert torch.equal(plain, right)
    assert torch.equal(found, right[:, order])


@pytest.mark.parametrize(
    ("windows", "sees"),
    [
        (WindowConfig(), "chunk"),
        (WindowConfig(anchor="pose"), "velocity"),
        (WindowConfig(anchor="reference"), "chunk"),
        (WindowConfig(context=3, stride=2), "full"),
    ],
)
def test_the_encoder_sees_what_it_was_trained_to_see(clips, windows, sees):
    """Wherever the robot is, all frames from the first to the last are given."""
    torch.manual_seed(0)
    config = EncoderConfig(width=4, hidden=(8,), sees=sees)
    encoder = SkillEncoder(config, windows).eval()
    references = References.build(clips.to("cpu"))
    clip, frame = torch.tensor([1]), torch.tensor([30])
    robot = references.at(clip, frame - 4).rows[:, :7] + 0.05
    robot[:, 3:] /= robot[:, 3:].norm()
    source = CommandSource(references, CommandConfig(width=4), encoder)
    right = source(clip, frame, robot[:, :3], robot[:, 3:])
    span = torch.arange(encoder.first, encoder.last + 1)
    with torch.no_grad():
        rows = references.rows_at(clip, frame[:, None] + span)
        found = graphs.EncoderGraph(encoder)(rows, robot)
    torch.testing.assert_close(found, right, atol=1e-6, rtol=1e-6)


def test_a_small_bundle_is_written_and_replaced(small_models, clips, ready, tmp_path):
    out = tmp_path / "bundle"
    for names in (["walk2"], ["walk0", "walk1"]):
        found = module.export(small_models, out, names, [clips])
        assert set(found) == {files.CONTROLLER, files.ENCODER}
        assert max(found.values()) < 1e-5
        opened = Bundle.open(out)
        assert list(opened.bases) == names
        assert opened.planner() is None and opened.directions is None
        assert opened.manifest.layout.hold == 2
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]
    (out / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"'notes.txt', which is not part of a bundle"):
        module.export(small_models, out, ["walk0"], [clips])
    assert Bundle.open(out).manifest == opened.manifest


def test_a_bundle_says_how_far_its_controller_reaches(
    small_models, clips, ready, tmp_path
):
    """An older one does not, and has one unit of action; nonsense is refused."""
    controller, path = copy.deepcopy(small_models.controller), tmp_path / files.MANIFEST
    controller.config = replace(controller.config, reach=4.0)
    models = replace(small_models, controller=controller)
    module.export(models, tmp_path, ["walk0"], [clips])
    assert Bundle.open(tmp_path).manifest.robot.reach == 4.0
    values = json.loads(path.read_text())
    for wrong in (-1.0, 4.1, float("inf"), float("nan")):
        values["robot"]["reach"] = wrong
        path.write_text(json.dumps(values))
        with pytest.raises(ValueError, match=f"{path}: reach is {wrong}, must be"):
            Bundle.open(tmp_path)
    del values["robot"]["reach"]
    path.write_text(json.dumps(values))
    assert Bundle.open(tmp_path).manifest.robot.reach == 1.0


def test_clips_and_skills_of_several_corpora(small_models, clips, ready, tmp_path):
    """Distances are measured to the motions of all of them."""
    parts = [clips.select([0, 1]), clips.select([2])]
    for name, given in (("whole", [clips]), ("parts", parts)):
        module.export(small_models, tmp_path / name, ["walk1", "walk2"], given)
    whole, both = (Bundle.open(tmp_path / name) for name in ("whole", "parts"))
    for base in both.bases.values():
        assert np.array_equal(base.skills, whole.base(base.name).skills)
    found, right = (np.sort(b.support.bank, axis=0) for b in (both, whole))
    np.testing.assert_allclose(found, right, atol=1e-3)  # a batch of another size
    assert both.support.far == pytest.approx(whole.support.far, rel=1e-3)


def test_bases_of_recorded_motions_are_played_but_not_followed(
    small_models, clips, ready, tmp_path
):
    """A bundle has them after the generated ones, with where they come from."""
    one = Chosen("walk1", "walk about", (0, 90), once=True)
    encoder = small_models.encoder
    made = recorded.make(encoder, clips, {"about": one}, held_out=0)
    names = ["about", "walk0"]
    module.export(small_models, tmp_path / "bundle", names, [clips], streams=made)
    opened = Bundle.open(tmp_path / "bundle")
    about, walk = opened.base("about"), opened.base("walk0")
    assert "walk1, frames 0 to 90" in about.origin and not walk.origin
    assert np.array_equal(about.skills, made["about"].skills)
    assert about.turn is not None and walk.turn is not None and walk.has_motion
    assert about.headings is not None and len(about.headings) == len(about.skills)
    assert len(about.rows) == 2
    with pytest.raises(ValueError, match="about: only its skills are kept"):
        follow(opened, "about")


@pytest.mark.parametrize("part", ["controller", "encoder"])
def test_a_graph_that_is_not_its_model_is_not_written(
    small_models, clips, ready, tmp_path, part
):
    other = copy.deepcopy(getattr(small_models, part))
    with torch.no_grad():
        layer = other.network.project if part == "controller" else other.project
        layer.bias[0] += 2e-5
    models = replace(small_models, **{part: other})
    with pytest.raises(ValueError, match=f"{part}.onnx: differs .* by 2.*e-05"):
        module.export(models, tmp_path / "bundle", ["walk0"], [clips])
    assert not list(tmp_path.iterdir())


def test_large_numbers_may_differ_by_more():
    """By as much as they are larger than 1; rounding does the same."""
    right = [np.array([20.0, 0.1]), np.array([0.5, 0.1])]
    given = [(row + 1e-4,) for row in right]
    found = [
        graphs.largest_difference(lambda x: x, given[i : i + 1], right[i : i + 1])
        for i in range(2)
    ]
    assert found == pytest.approx([5e-6, 1e-4])


def test_what_is_not_a_number_is_not_alike():
    given = [(np.zeros(2),), (np.ones(2),)]
    right = [np.zeros(2), np.array([1.0, np.nan])]
    found = graphs.largest_difference(lambda x: x, given, right)
    with pytest.raises(ValueError, match="planner.onnx: differs"):
        graphs.check({"controller.onnx": 1e-6, "planner.onnx": found})


def test_wrong_names_of_bases(small_models, clips, tmp_path):
    for names, message in (
        ([], "no bases"),
        (["walk0", "walk0"], "'walk0' is named twice"),
        (["wlak0"], "walk0"),
    ):
        with pytest.raises(ValueError, match=message):
            module.export(small_models, tmp_path / "bundle", names, [clips])
    assert not list(tmp_path.iterdir())


def test_only_controllers_of_skills(make_controller):
    with pytest.raises(ValueError, match="commands are of the kind 'pose'"):
        graphs.controller_onnx(make_controller(kind="pose"))


def test_models_that_do_not_match(tmp_path):
    shutil.copytree(PRETRAINED / "planner", tmp_path / "planner")
    config = tmp_path / "planner" / "config.json"
    values = json.loads(config.read_text())
    values["about"]["controller"] = "another"
    config.write_text(json.dumps(values))
    with pytest.raises(ValueError, match="rollouts of the controller another"):
        Models.load(BASE, BASE, BASE, tmp_path / "planner")
    stranger = replace(Directions.load("base"), encoder="another")
    stranger.save(tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="belong to the encoder another"):
        verb(
            models=ModelPaths(directions=tmp_path / "other.safetensors"),
            out=tmp_path / "bundle",
        )
    assert not (tmp_path / "bundle").exists()


def test_a_bundle_is_made_anew_when_its_code_changes():
    """Everything that exporting reaches counts, and nothing that it does not."""
    names = {path.name for path in cache.reachable("runtime/export.py")}
    assert {"graphs.py", "bases.py", "bundle.py", "g1.py", "encoder.py"} < names
    assert not {"page.py", "guard.py", "ppo.py"} & names


def test_other_directions_make_another_bundle(monkeypatch):
    """With the same vectors too: names and measured effects are in a bundle."""
    monkeypatch.setattr(cache, "kept", lambda name, *_: name)
    monkeypatch.setattr(kept, "find_spec", lambda name: None)  # no language model
    models = Models.load(BASE, BASE, BASE)
    assert api.bundle(models) == api.bundle()
    unmeasured = replace(models.known_directions, measured=())
    assert api.bundle(replace(models, directions=unmeasured)) != api.bundle()


def test_words_do_not_change_the_name_of_what_code_makes(tmp_path):
    """Comments, docstrings and layout keep a cached folder; a statement does not."""
    file = tmp_path / "some.py"

    def name(text: str) -> str:
        file.write_text(text)
        return cache.code_hash("no module", [file])

    first = name('"""Words."""\n\ndef f(x):\n    """Return."""\n    return x\n')
    assert name("def f( x ):  # more\n    return x\n") == first
    assert name("def f(x):\n    return -x\n") != first
