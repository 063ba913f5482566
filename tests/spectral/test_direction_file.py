"""The file of directions: what is written is read, and nothing else is taken for it."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save_file

from spectral_skills.plots.skills import all_ranks, effect_table
from spectral_skills.spectral.direction_file import Directions

WIDTH, COUNT = 8, 5
GROUPS = (
    *("left_leg", "right_leg", "left_arm", "right_arm"),
    *("waist", "root_position", "root_rotation"),
)


@pytest.fixture
def directions() -> Directions:
    random = np.random.default_rng(0)

    def numbers(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    shares = np.eye(COUNT, len(GROUPS), dtype=np.float32)
    shares[0] = (0.4, 0.1, 0.2, 0.1, 0.1, 0.1, 0.0)
    return Directions(
        names=(
            "s01 right arm raise",
            "s02 turn left",
            "s03 °",
            "right_arm_1 up",
            "turn",
        ),
        families=("spectral", "spectral", "spectral", "part", "target"),
        vectors=numbers(COUNT, WIDTH),
        gains=np.array([2.0, 1.0, 1.0, 0.5, 0.1], np.float32),
        amplitudes=numbers(COUNT),
        stability=np.array([0.99, 0.9, 0.3, 1.0, 0.0], np.float32),
        sameness=numbers(COUNT),
        effect_mean=numbers(COUNT, 3),
        effect_std=numbers(COUNT, 3),
        group_shares=shares,
        hand_maps=numbers(2, WIDTH, 3),
        attributes=("left_knee", "root_height", "forward_speed"),
        units=("rad", "m", "m/s"),
        groups=GROUPS,
        encoder="1234",
        data_hash="abcd",
        contexts=4096,
        seed=7,
        hand_contexts=40,
        hand_standing=True,
    )


def test_round_trip_is_exact(directions, tmp_path):
    """Every bit of every field comes back; the folder holds one file."""
    path = tmp_path / "new" / "directions.safetensors"
    directions.save(path)
    found = Directions.load(path)
    for field in dataclasses.fields(Directions):
        before, after = getattr(directions, field.name), getattr(found, field.name)
        if isinstance(before, np.ndarray):
            assert before.dtype == after.dtype and before.tobytes() == after.tobytes()
        else:
            assert type(before) is type(after) and before == after
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_what_was_measured_travels_with_it(directions, tmp_path):
    entry = {"direction": "s01", "base": "walk", "safe": [-2.0, 3.0], "effects": {}}
    dataclasses.replace(directions, measured=(entry,)).save(tmp_path / "d.safetensors")
    assert Directions.load(tmp_path / "d.safetensors").measured == (entry,)


def test_the_released_file_tells_what_its_directions_do():
    directions = Directions.load("base")
    found = {(m["direction"], m["base"]): m for m in directions.measured}
    short = {name.split(" ")[0] for name in directions.names}
    assert {name for name, _ in found} == short
    turn = found["turn", "walk"]
    assert turn["names"] == ["turn left", "turn right"]
    assert turn["safe"][0] <= -2 and turn["safe"][1] >= 2
    assert (
        turn["effects"]["+2"]["heading"] > 27 > -27 > turn["effects"]["-2"]["heading"]
    )


def test_another_encoder_is_refused(directions):
    """The error names both."""
    directions.check("1234")
    with pytest.raises(ValueError, match="1234.*5678"):
        directions.check("5678")


def test_damaged_files_are_refused(directions, tmp_path):
    """Cut anywhere, or with any byte changed, a file gives one clear error."""
    path = tmp_path / "d.safetensors"
    directions.save(path)
    whole = path.read_bytes()
    broken = [whole[:n] for n in (0, 4, 50, 700, len(whole) // 2, len(whole) - 1)]
    for place in (*range(0, len(whole), 11), len(whole) - 1):
        changed = bytearray(whole)
        changed[place] ^= 0x15
        broken.append(bytes(changed))
    for data in broken:
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"d\.safetensors: "):
            Directions.load(path)


def test_other_files_are_refused(directions, tmp_path):
    """Nothing there, weights of a model, a newer version."""
    with pytest.raises(FileNotFoundError, match="no directions here"):
        Directions.load(tmp_path / "none.safetensors")
    path = tmp_path / "weights.safetensors"
    save_file({"weight": np.zeros(3)}, path)
    with pytest.raises(ValueError, match="not of directions"):
        Directions.load(path)
    save_file({}, path, {"version": "2", "directions": "{}"})
    with pytest.raises(ValueError, match="version 2, this package reads 1"):
        Directions.load(path)


def test_shapes_are_checked(directions):
    """A file of parts that do not belong together cannot be made."""
    with pytest.raises(ValueError, match="gains has shape"):
        dataclasses.replace(directions, gains=directions.gains[:2])
    with pytest.raises(ValueError, match="same name"):
        dataclasses.replace(directions, names=("a", "a", "b", "c", "d"))


def test_names_families_and_marks(directions):
    """What the desk and the figures ask for."""
    assert directions.index("s02 turn left") == directions.index("s02") == 1
    with pytest.raises(ValueError, match="close to it: turn"):
        directions.index("turnn")
    assert directions.family("spectral").tolist() == [0, 1, 2]
    assert directions.determined.tolist() == [True, True, False, True, False]
    assert directions.single_limb.tolist() == [
        *("", "right_leg", "left_arm", "right_arm", "")
    ]
    np.testing.assert_allclose(directions.eigenvalue_ratios, [0.25, 1.0])


def test_loading_needs_no_torch(directions, tmp_path):
    """The robot's computer has NumPy and safetensors."""
    path = tmp_path / "d.safetensors"
    directions.save(path)
    code = (
        "import sys; from spectral_skills.spectral.direction_file import Directions; "
        f"d = Directions.load({str(path)!r}); d.check('1234'); "
        "print(len(d), [m for m in ('torch', 'mujoco') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout.strip() == "5 []", out.stdout + out.stderr


def test_the_figure_is_a_picture(directions, tmp_path):
    """Of the usual width, with coloured bars; without spectral directions, an error."""
    all_ranks(directions, tmp_path / "ranks.png")
    with Image.open(tmp_path / "ranks.png") as image:
        assert image.width == 1600 and image.height > 1000
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3)
    assert len(np.unique(pixels[::7], axis=0)) > 50
    targets = dataclasses.replace(directions, families=("target",) * COUNT)
    with pytest.raises(ValueError, match="no spectral directions"):
        all_ranks(targets, tmp_path / "none.png")


def test_the_table_has_a_line_for_every_direction(directions):
    """With gain, marks and the largest effects, and an amplitude for targets alone."""
    lines = effect_table(directions).splitlines()
    for name, line in zip(directions.names, lines[1:], strict=False):
        assert line.startswith(name) and line.count(" +- ") == 3
    assert " 0.99* " in lines[1] and " 0.30 " in lines[3] and "right leg" in lines[2]
    assert f" {directions.amplitudes[4]:.1f} " in lines[5]
    assert "hand maps from 40 standing contexts" in lines[-1]
