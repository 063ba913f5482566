"""Points of the body in trees of many programs; what is missing is said."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
from bvh_samples import LEG, PLAIN, TRUNK, points, tree

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.human import bvh
from spectral_skills.motion.human.recording import POINTS
from spectral_skills.motion.human.skeletons import Skeleton, identify, load_map

KNOWN = tomllib.loads(Path(__file__).with_name("skeletons.toml").read_text("utf-8"))


def named(skeleton: Skeleton, names) -> dict[str, str | None]:
    return {p: None if j is None else names[j] for p, j in skeleton.joints.items()}


def refusal(*chains: str, mapping: dict[str, str] | None = None, **options) -> str:
    with pytest.raises(ClipError) as caught:
        identify(*tree(*chains, **options), mapping)
    assert caught.value.kind == "skeleton"
    return caught.value.reason


@pytest.mark.parametrize("known", KNOWN["skeleton"], ids=lambda known: known["label"])
@pytest.mark.parametrize("scale", [0.01, 10.0])
def test_skeletons_of_many_programs(known: dict, scale: float):
    names, parents, offsets = tree(*known["chains"], sides=known["sides"])
    skeleton = identify(names, parents, scale * offsets)
    found = named(skeleton, names)
    expected = points(*known["chains"])
    left = {p: j for p, j in found.items() if j and not p.startswith("right")}
    assert left == expected
    assert skeleton.name == known["name"]
    assert names[skeleton.pelvis] == expected["pelvis"]
    # The right side mirrors the left one.
    place = np.array(offsets)
    for joint, parent in enumerate(parents):
        place[joint] += place[parent] if parent >= 0 else 0.0
    for point, joint in skeleton.joints.items():
        if point.startswith("left") and joint is not None:
            other = skeleton.joints[point.replace("left", "right")]
            np.testing.assert_allclose(place[other], place[joint] * (-1, 1, 1))


def test_every_order_of_joints_and_side_first():
    """The right leg may come first, and arms before legs."""
    chains = PLAIN[0], PLAIN[2], PLAIN[1]
    names, parents, offsets = tree(*chains, sides=("Left", "Right"))
    swapped = [n.replace("Left", "?").replace("Right", "Left") for n in names]
    swapped = [n.replace("?", "Right") for n in swapped]
    found = named(identify(swapped, parents, offsets), swapped)
    assert found["left_knee"] == "LeftLeg"
    assert found["right_hand"] == "RightHand_end"


def test_sides_without_names_follow_the_feet():
    """Left is left of where the toes point, whatever axis is up."""
    (unnamed,) = [k for k in KNOWN["skeleton"] if k["label"] == "unnamed"]
    names, parents, offsets = tree(*unnamed["chains"], sides=unnamed["sides"])
    z_up = offsets[:, [2, 0, 1]]
    turned = offsets * (-1, 1, -1)
    for other in (z_up, turned):
        found = named(identify(names, parents, other), names)
        assert found["left_knee"] == "b7"
        assert found["right_elbow"] == "b32"
    mirrored = named(identify(names, parents, offsets * (-1, 1, 1)), names)
    assert (mirrored["left_knee"], mirrored["left_elbow"]) == ("b17", "b32")


def test_zero_bones_between_do_not_confuse():
    """CMU has such joints at hips, back, neck, shoulders and fingers."""
    chains = (
        "Hips y90, LowerBack y0, Spine y10, Spine1 y10, Neck y0, Neck1 y9, Head y9",
        f"Hips > LHipJoint y0, {LEG}".replace("LHip", "LeftHip"),
        "Spine1 > LeftShoulder y0, LeftArm x20, LeftForeArm x27, LeftHand x19, "
        "LeftFingerBase x0, LeftHandIndex1 x4, end x3",
        "LeftHand > LeftThumb x0, end z4",
    )
    names, parents, offsets = tree(*chains)
    found = named(identify(names, parents, offsets), names)
    assert found["chest"] == "Spine1"
    assert found["neck"] == "Neck1"
    assert found["left_hip"] == "LeftUpLeg"
    assert found["left_shoulder"] == "LeftArm"
    assert found["left_hand"] == "LeftHandIndex1"


def test_head_and_hands_may_be_missing():
    bare = "Spine2 > LeftArm x17, LeftForeArm x28, LeftHand x25, end x0"
    for trunk, neck, head in (
        ("Hips y90, Spine2 y40", None, None),
        ("Hips y90, Spine2 y40, Head y20", "Head", "Head"),
        ("Hips y90, Spine2 y40, Neck y20", "Neck", None),
    ):
        names, parents, offsets = tree(trunk, PLAIN[1], bare)
        found = named(identify(names, parents, offsets), names)
        assert (found["neck"], found["head"]) == (neck, head)
        assert found["left_hand"] is None
        assert found["left_wrist"] == "LeftHand"


def test_missing_limbs_are_named_beside_what_was_found():
    reason = refusal(TRUNK, PLAIN[1])
    first = reason.split("\n")[0]
    assert "no left arm, no right arm among 17 joints" in first
    assert "left leg LeftUpLeg, LeftLeg, LeftFoot" in first
    assert "no left leg, no right leg" in refusal(TRUNK, PLAIN[2]).split("\n")[0]
    hands = "Root y0", "Root > LeftHand x30, LeftHandMiddle1 x9, LeftHandMiddle2 x4"
    assert "no left leg, no left arm" in refusal(*hands).split("\n")[0]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("LeftLeg -y40", "LeftLeg -y0", "the left thigh, LeftUpLeg to LeftLeg, has no"),
        ("LeftFoot -y40", "LeftFoot -y0", "the left shank, LeftLeg to LeftFoot, has"),
        ("LeftForeArm x28", "LeftForeArm x0", "the left upper arm, LeftArm to Left"),
        ("LeftHand x25", "LeftHand x0.001", "the left forearm, LeftForeArm to Left"),
        (
            ", toe=LeftToeBase z15, end z7",
            "",
            "if it is not the ankle, name left_ankle",
        ),
        ("toe=LeftToeBase z15, end z7", "end -y7", "no toes beyond LeftFoot"),
        ("toe=LeftToeBase z15, end z7", "end z0", "no toes beyond LeftFoot"),
        ("Spine2 > ", "Hips > ", "no spine between pelvis Hips and chest Hips"),
        ("LeftUpLeg x10", "LeftUpLeg -y1", "both hips, LeftUpLeg and RightUpLeg, are"),
        ("x5, shoulder=LeftArm x12", "y0, shoulder=LeftArm y1", "both shoulders, Left"),
    ],
)
def test_bodies_that_cannot_be_used(old: str, new: str, words: str):
    chains = [chain.replace(old, new) for chain in PLAIN]
    assert chains != list(PLAIN)
    assert words in refusal(*chains)


def test_an_unknown_tree_gives_a_file_to_fill_in(tmp_path: Path):
    """Filled in, it is accepted."""
    wings = "Spine2 > LeftWing -z50, LeftWing1 -z60, LeftWing2 -z30"
    chains = [*PLAIN, wings]
    for old, new in (("Leg", "Beam"), ("Arm", "Rod"), ("Hand", "Tool"), ("Left", "a")):
        chains = [chain.replace(old, new) for chain in chains]
    reason = refusal(*chains, sides=("a(?=[A-Z])", "b"))
    first, _, rest = reason.partition("\n")
    assert "--map" in first
    assert "#   Hips\n#     Spine\n" in rest
    assert "\n#     aUpBeam\n#       aBeam\n" in rest
    template = tomllib.loads(rest)
    assert tuple(template) == POINTS
    joints = points(*chains)
    path = tmp_path / "map.toml"
    filled = rest
    for point, joint in joints.items():
        for side, mark in (("left", "a"), ("right", "b")):
            name = mark + joint[1:] if point.startswith("left") else joint
            key = point.replace("left", side)
            filled = filled.replace(f'\n{key} = ""', f'\n{key} = "{name}"')
    path.write_text(filled, encoding="utf-8")
    names, parents, offsets = tree(*chains, sides=("a(?=[A-Z])", "b"))
    skeleton = identify(names, parents, offsets, load_map(path))
    found = named(skeleton, names)
    assert found["right_knee"] == "bBeam"
    assert found["left_toe"] == "aToeBase"
    assert {point: found[point] for point in joints} == joints


def test_a_map_names_joints_that_do_not_hang_on_each_other():
    """Some files have nothing but positions: every joint is a child of the root."""
    names, parents, offsets = tree(*PLAIN)
    place = offsets.copy()
    for joint, parent in enumerate(parents):
        place[joint] += place[parent] if parent >= 0 else 0.0
    known = identify(names, parents, offsets).joints
    mapping = {p: f"m{j}" for p, j in known.items() if j is not None}
    flat = ["root", *(f"m{i}" for i in range(len(names)))]
    offsets = np.vstack([np.zeros(3), place])
    found = identify(flat, [-1] + [0] * len(names), offsets, mapping)
    assert {p: flat[j] for p, j in found.joints.items() if j is not None} == mapping


def test_a_root_on_the_floor_is_no_pelvis():
    floor = "Root y0, Spine y100, Spine2 y30, Neck y20, Head y10"
    leg = f"Root > {LEG.replace('x10', 'y90')}"
    assert "Root is far from LeftUpLeg" in refusal(floor, leg, PLAIN[2])


def test_a_map_overrules_what_is_found_and_may_be_short(tmp_path: Path):
    path = tmp_path / "map.toml"
    path.write_text('chest = "Spine1"\nhead = ""\n')
    names, parents, offsets = tree(*PLAIN)
    skeleton = identify(names, parents, offsets, load_map(path))
    found = named(skeleton, names)
    assert found["chest"] == "Spine1"
    assert (found["head"], found["left_knee"]) == ("Head", "LeftLeg")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('left_nee = "x"', "left_nee is no point of the body; do you mean left_knee"),
        ("left_knee = 3", 'left_knee = "JOINT" is expected, not 3'),
        ("left_knee", "not TOML"),
    ],
)
def test_a_wrong_map_is_explained(tmp_path: Path, text: str, words: str):
    path = tmp_path / "map.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"map\.toml: ") as caught:
        load_map(path)
    assert words in str(caught.value)


def test_joints_of_a_map_must_exist_and_differ():
    reason = refusal(*PLAIN, mapping={"left_knee": "LeftLg"})
    assert "left_knee is LeftLg, which the file lacks; do you mean LeftLeg" in reason
    reason = refusal(*PLAIN, mapping={"left_knee": "RightLeg"})
    assert "RightLeg would be both left_knee and right_knee" in reason


REAL = {
    "cmu": ("CMU", "Spine1", "Neck1", "LeftUpLeg", "LeftToeBase", "LeftHandIndex1"),
    "lafan1": ("LAFAN1", "Spine2", "Neck", "LeftUpLeg", "LeftToe", None),
    "bandai": ("Bandai-Namco", "Chest", "Neck", "UpperLeg_L", "Toes_L", None),
    "geno": ("Geno", "Spine3", "Neck", "LeftUpLeg", "LeftToeBase", "LeftHandMiddle1"),
}


def test_rest_poses_that_stand_say_what_is_up():
    names, parents, offsets = tree(*PLAIN)
    assert identify(names, parents, offsets).up == "y"
    assert identify(names, parents, offsets[:, [0, 2, 1]]).up == "z"
    assert identify(names, parents, offsets * [-1.0, 1.0, -1.0]).up == "y"
    assert identify(names, parents, offsets * [1.0, -1.0, -1.0]).up == "-y"
    # Bones of LAFAN1 and Bandai-Namco all lie along x at rest.
    along = np.linalg.norm(offsets, axis=1)[:, None] * [1.0, 0.0, 0.0]
    hips = [name.endswith("UpLeg") or name.endswith("Shoulder") for name in names]
    along[hips] = offsets[hips]
    assert identify(names, parents, along).up is None


def test_the_template_has_joints_of_half_limbs():
    """Legs that end at the knees."""
    chains = [chain.partition(", ankle=")[0] for chain in PLAIN]
    template = tomllib.loads(refusal(*chains).partition("\n")[2])
    assert template["left_hip"] == "LeftUpLeg"
    assert template["right_knee"] == "RightLeg"
    assert template["left_ankle"] == ""
    assert template["left_wrist"] == "LeftHand"


def test_real_files(motions_folder: Path):
    files = sorted((motions_folder / "human_samples").glob("*.bvh"))
    if not files:
        pytest.skip("no human_samples among the motions")
    for path in files:
        (capture,) = bvh.read(path)
        names = capture.names
        skeleton = identify(names, capture.parents, capture.offsets)
        found = named(skeleton, names)
        keys = ("chest", "neck", "left_hip", "left_toe", "left_hand")
        got = (skeleton.name, *(found[key] for key in keys))
        assert got == REAL[path.name.split("_")[0]], path.name
        assert names[skeleton.pelvis] == "Hips"
        stands = skeleton.name in ("CMU", "Geno")
        assert skeleton.up == ("y" if stands else None)
        # Left is on the left in nearly all frames: up times forward.
        at = {
            p: capture.positions[:, j]
            for p, j in skeleton.joints.items()
            if j is not None
        }
        up = at["chest"] - at["pelvis"]
        forward = sum(at[f"{s}_toe"] - at[f"{s}_ankle"] for s in ("left", "right"))
        left = np.cross(up, forward)
        for point in ("hip", "shoulder"):
            across = at[f"left_{point}"] - at[f"right_{point}"]
            assert ((across * left).sum(axis=1) > 0).mean() > 0.9, path.name
