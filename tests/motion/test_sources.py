"""Files of human motion of every kind in, recordings or reasons out."""

import lzma
import shutil
from pathlib import Path

import bvh_samples
import numpy as np
import persons
import pytest

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.human import cmu_pack
from spectral_skills.motion.human.body_model import HANDS
from spectral_skills.motion.human.recording import Recording
from spectral_skills.motion.human.sources import HumanOptions, find, read

PARENTS = (0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 12, 13, 14, 16, 17, 18, 19)
"""Of SMPL's body."""


def one(path: Path, **options) -> Recording:
    (found,) = read(path, HumanOptions(**options))
    assert isinstance(found, Recording), found
    return found


def why(path: Path, **options) -> str:
    (found,) = read(path, HumanOptions(**options))
    assert isinstance(found, ClipError)
    return f"{found.kind}: {found}"


@pytest.fixture(scope="module")
def samples(motions_folder) -> Path:
    return motions_folder / "human_samples"


@pytest.fixture(scope="module")
def pack(motions_folder) -> Path:
    return motions_folder / "cmu"


@pytest.mark.parametrize(("name", "times"), [("07_12", 2), ("143_04", 1)])
def test_cmu_files_and_their_pack_agree(samples, pack, name, times):
    """A BVH says 120 Hz and has a T-pose first; the pack is mended, at 60 Hz."""
    file, packed = one(samples / f"cmu_{name}.bvh"), one(pack / name)
    assert file.fps == times * packed.fps == times * 60.0
    assert file.skeleton == packed.skeleton == "CMU"
    assert abs(len(file.points[::times]) - packed.frames) <= 1
    frames = min(len(file.points[::times]), packed.frames)
    apart = np.abs(file.points[::times][:frames] - packed.points[:frames])
    assert np.delete(apart, [15, 19], axis=1).max() < 0.003  # hands are no data
    mine, theirs = file.pelvis_turn, packed.pelvis_turn
    assert mine is not None and theirs is not None
    cosine = (mine[::times][:frames] * theirs[:frames]).sum(axis=1)
    assert np.abs(cosine).min() > 0.9999
    assert any("left out" in note for note in file.notes)
    assert packed.text
    assert file.source == packed.source == "mocap.cs.cmu.edu"
    assert "not to be resold" in packed.licence
    assert file.licence == packed.licence


def test_cmu_rates_and_first_frames(samples):
    """One frame of T-pose, or one and a teleport after it."""
    for name, fps, left_out in (
        ("02_01", 120, 1),
        ("35_22", 120, 1),
        ("07_12", 120, 2),
    ):
        found = one(samples / f"cmu_{name}.bvh")
        first = "first frame" if left_out == 1 else f"first {left_out} frames"
        assert found.fps == fps
        assert any(first in note for note in found.notes)


def test_only_whole_names_are_cmus(samples, tmp_path):
    """Others use that skeleton too, with dates in the names of their files."""
    for name, known in (
        ("143_04", True),
        ("CMU_143_04_dance", True),
        ("studio_2024_11_05_take3", False),
        ("my 143_04", False),
        ("2024_11_05", False),
        ("11_05_2024", False),
        ("145_01", False),
    ):
        path = tmp_path / f"{name}.bvh"
        shutil.copy(samples / "cmu_143_04.bvh", path)
        found = one(path)
        said = [note for note in found.notes if "CMU's: by name it is their" in note]
        assert (found.source == "mocap.cs.cmu.edu", bool(said)) == (known, known), name
        assert (found.licence == "unknown") != known
        assert found.fps == (60.0 if known else 120.0)
        path.unlink()


def test_lafan1(samples):
    found = one(samples / "lafan1_dance1_subject1_ccbyncnd.bvh")
    assert (found.frames, found.fps) == (3945, 30.0)
    assert 0.8 < found.leg_m() < 0.9
    assert not any("left out" in n or "jump" in n for n in found.notes)
    toes = np.minimum(found.at("left_toe")[:, 2], found.at("right_toe")[:, 2])
    assert np.percentile(toes, 20) == pytest.approx(0.02, abs=0.01)


def test_other_files_of_people(samples):
    bandai = one(samples / "bandai_bow_active_001_ccbync.bvh")
    assert bandai.fps == 30.0
    assert 0.7 < bandai.leg_m() < 0.9
    humanml = one(samples / "humanml3d_new_joints_012314.npy")
    assert (humanml.frames, humanml.fps) == (170, 20.0)
    assert any("20 Hz, as in HumanML3D" in note for note in humanml.notes)
    assert "lasts 0.02 s" in why(samples / "geno_stance_ccby4.bvh")


def test_a_subject_is_unpacked_once(pack, monkeypatch):
    opened = []

    def watched(file):
        opened.append(Path(file).name)
        return lzma.LZMAFile(file)

    monkeypatch.setattr(cmu_pack.lzma, "open", watched)
    cmu_pack._subject.cache_clear()
    for name in ("07_01", "07_02", "07_12"):
        one(pack / name)
    assert opened == ["007.npz.xz"]


def test_a_pack_is_its_recordings(pack, tmp_path):
    found = find([pack])
    assert len(found) == len(set(found)) > 1000
    assert pack / "07_12" in found
    assert find([pack / "07_12"]) == [pack / "07_12"]
    assert cmu_pack.archive(pack / "07_12").is_file()
    assert "not in the pack: prop or terrain" in why(pack / "01_01")
    with pytest.raises(FileNotFoundError, match="no such file"):
        find([pack / "07_99"])
    # A pack without the motion of a subject, and one whose archive is damaged.
    for name in ("index.csv", "skeletons.json"):
        shutil.copy(pack / name, tmp_path)
    assert "motion/007.npz.xz lacks it" in why(tmp_path / "07_12")
    (tmp_path / "motion").mkdir()
    whole = cmu_pack.archive(pack / "07_12").read_bytes()
    for damaged in (whole[: len(whole) // 2], b"nothing", b""):
        (tmp_path / "motion" / "007.npz.xz").write_bytes(damaged)
        cmu_pack._subject.cache_clear()
        assert why(tmp_path / "07_12").startswith(("unreadable", "truncated"))


def test_find_leaves_tables_alone(tmp_path):
    for name in ("a.bvh", "B.BVH", "c.npy", "d.npz", "e.csv", "f.txt", ".g.bvh"):
        (tmp_path / name).write_bytes(b"")
    assert {path.name for path in find([tmp_path])} == {
        "a.bvh",
        "B.BVH",
        "c.npy",
        "d.npz",
    }


@pytest.mark.parametrize("hands", [False, True])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("key", ["", "joints", "keypoints3d"])
def test_joint_positions(tmp_path, hands, flat, key):
    joints = persons.squats()
    if hands:
        beyond = 1.3 * joints[:, 20:22] - 0.3 * joints[:, 18:20]
        joints = np.concatenate([joints, beyond], axis=1)
    stored = joints.reshape(len(joints), -1) if flat else joints
    if key:
        about = {"fps": 40.0, "text": "somebody squats"}
        np.savez(tmp_path / "squat.npz", **{key: stored}, **about)
        found = one(tmp_path / "squat.npz")
        assert (found.fps, found.text) == (40.0, "somebody squats")
    else:
        np.save(tmp_path / "squat.npy", stored)
        found = one(tmp_path / "squat.npy")
        assert found.fps == 20.0
        assert one(tmp_path / "squat.npy", fps=25.0).fps == 25.0
    assert found.name == "squat"
    assert np.allclose(found.at("left_wrist"), joints[:, 20][:, [2, 0, 1]], atol=1e-6)
    assert any("no left hand" in note for note in found.notes) != hands
    if hands:
        assert np.allclose(
            found.at("right_hand"), joints[:, 23][:, [2, 0, 1]], atol=1e-6
        )


def body_model(path: Path, count: int = 52, tall: float = 1.0) -> Path:
    """A body of as many vertices as joints, and one shape that makes it taller."""
    rest = np.zeros((count, 3))
    rest[:22] = tall * persons.squats()[0]
    for hand, wrist in zip(HANDS[count], (20, 21), strict=True):
        rest[hand] = rest[wrist] + [0.0, -0.09, 0.0]
    parents = np.zeros(count, dtype=np.int64)
    parents[:22] = PARENTS
    parents[22:] = 20
    parents[HANDS[count][1]] = 21
    tree = np.stack([parents, np.arange(count)]).astype(np.uint32)
    tree[0, 0] = 2**32 - 1
    shapes = np.stack([rest, 0.0 * rest], axis=2)
    mixed = np.roll(np.eye(count), 1, axis=1)  # the vertices are in another order
    arrays = {"v_template": mixed.T @ rest, "J_regressor": mixed}
    shapes = np.einsum("vj,jxb->vxb", mixed.T, shapes)
    path.parent.mkdir(parents=True, exist_ok=True)
    things = np.array([None], dtype=object)  # models have some, which are not read
    np.savez(path, **arrays, shapedirs=shapes, kintree_table=tree, joint2num=things)
    return path


def amass(
    path: Path, width: int = 156, gender: str = "male", beta: float = 0.0
) -> Path:
    """Somebody who stands, bends the left knee and turns, with z up."""
    time = np.linspace(0.0, 1.0, 100)
    poses = np.zeros((100, width))
    upright = np.pi / 2  # the model's y becomes z
    poses[:, 0] = upright
    poses[:, 3 * 4] = 0.5 * np.sin(np.pi * time)
    trans = np.stack([time, 0 * time, 0 * time], axis=1)
    about = {"betas": np.array([beta, *np.zeros(15)]), "gender": gender}
    about["mocap_framerate"] = 100.0
    np.savez(path, poses=poses, trans=trans, dmpls=np.zeros((100, 8)), **about)
    return path


@pytest.mark.parametrize(
    ("count", "width"), [(24, 72), (24, 156), (52, 156), (55, 165)]
)
def test_amass_with_a_body_model(tmp_path, count, width):
    file = amass(tmp_path / "stand.npz", width)
    model = body_model(tmp_path / "model.npz", count)
    found = one(file, body_model=str(model))
    rest = persons.squats()[0]
    assert (found.frames, found.fps, found.skeleton) == (100, 100.0, "SMPL")
    at_rest = rest @ np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]])
    apart = found.at("right_wrist")[0] - found.at("pelvis")[0]
    assert apart == pytest.approx(at_rest[21] - at_rest[0], abs=1e-6)
    assert np.ptp(found.at("pelvis"), axis=0) == pytest.approx([1.0, 0.0, 0.0])
    shank = np.linalg.norm(found.at("left_ankle") - found.at("left_knee"), axis=1)
    assert np.ptp(shank) < 1e-9
    assert np.ptp(found.at("left_ankle")[:, 1]) > 0.1
    hand = found.at("left_hand") - found.at("left_wrist")
    assert np.linalg.norm(hand, axis=1) == pytest.approx(0.09)
    assert found.pelvis_turn is not None
    assert found.pelvis_turn[0] == pytest.approx([0.5**0.5, 0.5**0.5, 0.0, 0.0])


def test_the_body_fits_shape_and_gender(tmp_path):
    models = tmp_path / "models"
    for gender, tall in (("male", 1.1), ("female", 0.9), ("neutral", 1.0)):
        body_model(models / gender / "model.npz", tall=tall)
    legs = {
        gender: one(
            amass(tmp_path / f"{gender}.npz", gender=gender), body_model=str(models)
        ).leg_m()
        for gender in ("male", "female", "neutral", "unknown")
    }
    assert legs["male"] / legs["neutral"] == pytest.approx(1.1)
    assert legs["female"] / legs["neutral"] == pytest.approx(0.9)
    assert legs["unknown"] == legs["neutral"]
    tall = amass(tmp_path / "tall.npz", gender="female", beta=0.2)
    larger = one(tall, body_model=str(models)).leg_m()
    assert larger / legs["female"] == pytest.approx(1.2)


def test_amass_without_a_body_model(tmp_path):
    file = amass(tmp_path / "stand.npz")
    assert "pass --body-model" in why(file)
    assert "no model for gender 'male' among 0" in why(
        file, body_model=str(tmp_path / "x")
    )
    model = tmp_path / "model.pkl"
    model.write_bytes(b"\x80\x04.")
    assert "save it as .npz" in why(file, body_model=str(model))
    np.savez(tmp_path / "other.npz", weights=np.zeros(3))
    assert "lacks J_regressor" in why(file, body_model=str(tmp_path / "other.npz"))


def test_reasons(tmp_path):
    def saved(name: str, **arrays) -> Path:
        np.savez(tmp_path / name, **arrays)
        return tmp_path / name

    assert "use spectral ingest" in why(saved("r.npz", qpos=np.zeros((9, 36))))
    assert "an archive of weights" in why(saved("w.npz", weights=np.zeros(3)))
    joints = persons.squats()
    assert "fps is not" in why(saved("f.npz", joints=joints, fps=-1.0))
    assert "shape (40, 21, 3)" in why(saved("s.npz", joints=joints[:, 1:]))
    np.save(tmp_path / "features.npy", np.zeros((9, 263)))
    assert "new_joints has the positions" in why(tmp_path / "features.npy")
    np.save(tmp_path / "things.npy", np.array([{"motion": joints}]), allow_pickle=True)
    assert "code in pickle" in why(tmp_path / "things.npy")
    np.save(tmp_path / "tall.npy", 5 * joints)
    assert "units: legs are 4.1 m long in metres" in why(tmp_path / "tall.npy")
    (tmp_path / "empty.bvh").write_bytes(b"")
    assert why(tmp_path / "empty.bvh").startswith("empty")
    assert why(tmp_path / "none.bvh").startswith("unreadable")
    assert why(tmp_path).startswith("unreadable")


def arms_down(tree, frames: int, still: bool) -> np.ndarray:
    """Rows of channels: arms that hang and swing, or a T-pose."""
    names, parents, offsets = tree
    moving = [name for name in names if not name.endswith("_end")]
    rows = np.zeros((frames, 3 + 3 * len(moving)))
    rows[:, :3] = offsets[0]
    if not still:
        for name, sign in (("LeftArm", -1), ("RightArm", 1)):
            swing = 70 + 10 * np.sin(np.arange(frames) / 5)
            rows[:, 3 + 3 * moving.index(name)] = sign * swing
    return rows


def test_two_people_in_a_file(tmp_path):
    names, parents, offsets = tree = bvh_samples.tree(*bvh_samples.PLAIN)
    rows = [arms_down(tree, 60, still=still) for still in (False, True)]
    both = (
        [*names, *(f"B{name}" for name in names)],
        [*parents, *(p + len(names) if p >= 0 else -1 for p in parents)],
        np.concatenate([offsets, offsets]),
    )
    file = tmp_path / "two.bvh"
    file.write_text(bvh_samples.text(*both, np.concatenate(rows, axis=1)))
    first, second = read(file, HumanOptions())
    assert isinstance(first, Recording)
    assert isinstance(second, ClipError)
    assert first.name == "two_1"
    assert "person 2: a T-pose only" in str(second)


def test_a_map_overrules(tmp_path):
    tree = bvh_samples.tree(*bvh_samples.PLAIN)
    file = tmp_path / "swing.bvh"
    file.write_text(bvh_samples.text(*tree, arms_down(tree, 60, still=False)))
    usual = one(file)
    other = one(file, mapping={"chest": "Spine1"})
    assert usual.at("chest")[0, 2] - other.at("chest")[0, 2] == pytest.approx(0.2)
    assert "which the file lacks" in why(file, mapping={"chest": "Thorax"})


def test_broken_files_never_raise(tmp_path):
    random = np.random.default_rng(0)
    np.save(tmp_path / "a.npy", persons.squats(1.0))
    np.savez(tmp_path / "b.npz", joints=persons.squats(1.0), fps=20.0)
    amass(tmp_path / "c.npz")
    model = str(body_model(tmp_path / "model" / "male.npz"))
    target, good = tmp_path / "broken", 0
    for path in sorted(tmp_path.glob("?.np?")):
        whole = path.read_bytes()
        for _ in range(30):
            data = bytearray(whole)
            for place in random.integers(0, min(len(data), 400), 3):
                data[place] = random.integers(256)
            target.write_bytes(data[: random.integers(len(data))])
            for data_now in (bytes(data), target.read_bytes()):
                target.write_bytes(data_now)
                (found,) = read(target, HumanOptions(body_model=model))
                assert isinstance(found, Recording | ClipError)
                good += isinstance(found, Recording)
    assert good > 0
