"""The BVH reader: any channels, odd spellings, and files that are damaged."""

import itertools
from pathlib import Path

import bvh_samples
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from spectral_skills.motion.clip import ClipError
from spectral_skills.motion.human import bvh

ORDERS = [
    f"{a}{b}{c}" for a, b, c in itertools.product("XYZ", repeat=3) if b not in a + c
]
TREE = bvh_samples.tree(*bvh_samples.PLAIN)
WIDTH = 3 + 3 * sum(not name.endswith("_end") for name in TREE[0])
ROWS = np.random.default_rng(0).uniform(-170, 170, (5, WIDTH)).round(3)


def sample(rows: np.ndarray = ROWS, **options) -> str:
    return bvh_samples.text(*TREE, rows, **options)


def parse(text: str | bytes, fps: float | None = None) -> bvh.Capture:
    data = text if isinstance(text, bytes) else text.encode()
    (capture,) = bvh.parse(data, fps)
    return capture


def same(capture: bvh.Capture, other: bvh.Capture) -> bool:
    return bool(
        capture.names == other.names
        and np.allclose(capture.positions, other.positions, atol=1e-9)
        and np.allclose(capture.turns, other.turns, atol=1e-9)
    )


@pytest.mark.parametrize("order", ORDERS)
def test_kinematics_is_scipys_for_every_order_of_turns(order: str):
    """Position channels may stand anywhere among the others."""
    turns = " ".join(f"{axis}rotation" for axis in order)
    channels = f"Yposition {turns} Zposition Xposition"
    capture = parse(sample(channels=channels))
    names, parents, offsets = TREE
    capture_order = [capture.names.index(name) for name in names]
    angles = iter(np.split(ROWS[:, [1, 2, 3, *range(6, WIDTH)]], (WIDTH - 3) // 3, 1))
    place, turn = {}, {}
    for name in capture.names:
        joint = names.index(name)
        parent = parents[joint]
        own = Rotation.identity(len(ROWS))
        if not name.endswith("_end"):
            own = Rotation.from_euler(order, next(angles), degrees=True)
        root = parent < 0
        turn[joint] = own if root else turn[parent] * own
        offset = None if root else place[parent] + turn[parent].apply(offsets[joint])
        place[joint] = ROWS[:, [5, 0, 4]] if root else offset
    for joint, place_in_file in enumerate(capture_order):
        np.testing.assert_allclose(capture.positions[:, place_in_file], place[joint])
        q = capture.turns[:, place_in_file]
        dot = (q * turn[joint].as_quat(scalar_first=True)).sum(axis=1)
        np.testing.assert_allclose(np.abs(dot), 1.0)


def test_joints_may_have_any_channels():
    """None, one, or a position that takes the place of the offset."""
    text = """HIERARCHY
    ROOT a { OFFSET 9 9 9 CHANNELS 1 Yrotation
      JOINT b { OFFSET 1 0 0
        JOINT c { OFFSET 0 0 2 CHANNELS 2 Xrotation Zposition
          End Site { OFFSET 0 1 0 } }
      } }
    MOTION
    Frames: 2
    Frame Time: .04
    90 0 2
    90 90 3"""
    capture = parse(text)
    assert capture.names == ("a", "b", "c", "c_end")
    assert capture.fps == 25.0
    root = np.array([9.0, 9.0, 9.0])
    np.testing.assert_allclose(
        capture.positions[0],
        root + [[0, 0, 0], [0, 0, -1], [2, 0, -1], [2, 1, -1]],
        atol=1e-12,
    )
    np.testing.assert_allclose(
        capture.positions[1] - root,
        [[0, 0, 0], [0, 0, -1], [3, 0, -1], [4, 0, -1]],
        atol=1e-12,
    )
    np.testing.assert_allclose(capture.offsets[2], [0, 0, 2.5])


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.replace("\n", "\r\n"),
        lambda t: t.replace("\n", "\r"),
        lambda t: "\ufeff" + t,
        lambda t: t.replace("\t", "   \t").replace(" ", "\t"),
        lambda t: t.replace("JOINT", "Joint").replace("CHANNELS", "channels"),
        lambda t: t.replace("HIERARCHY", "hierarchy").replace("MOTION", "Motion"),
        lambda t: t.replace("End Site", "END SITE").replace("rotation", "ROTATION"),
        lambda t: t.replace("\n", "\n\n"),
        lambda t: t.replace("Frames: 5", "Frames:\t5").replace(
            "Time: 0.0", "Time:\t.0"
        ),
        lambda t: t.replace("\t{", "{").replace("\n{", " {"),
        lambda t: t.rstrip("\n"),
        lambda t: t + "\n  \n",
        # Every row over two lines.
        lambda t: t.replace(f" {ROWS[0, 9]:.9g} ", f"\n{ROWS[0, 9]:.9g} ", 1),
    ],
)
def test_spellings_do_not_matter(change):
    text = sample()
    assert change(text) != text
    capture = parse(change(text))
    assert same(capture, parse(text))
    assert not capture.notes


@pytest.mark.parametrize("order", ["utf-16", "utf-16-le", "utf-16-be"])
def test_text_may_have_two_bytes_to_a_letter(order: str):
    text = sample() if order == "utf-16" else "\ufeff" + sample()
    assert same(parse(text.encode(order)), parse(sample()))
    odd = ("\ufeff" + sample()).encode("utf-16-le")[:-1]
    assert "cut off" in parse(odd).notes[0]


def test_numbers_may_have_exponents():
    rows = [" ".join(f"{x:.5e}" for x in row) for row in ROWS]
    head = sample().split("Frame Time")[0]
    text = head + "Frame Time: 3.33333E-2\n" + "\n".join(rows)
    assert same(parse(text), parse(sample()))
    assert parse(text).fps == 30.0


def test_names_may_have_spaces_and_colons_and_occur_twice():
    text = sample().replace("JOINT Spine1", "JOINT  mixamorig:Bip01 L Spine ")
    text = text.replace("JOINT Spine2", "JOINT Neck")
    names = parse(text).names
    assert names[2:5] == ("mixamorig:Bip01 L Spine", "Neck", "Neck_2")
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("printed", "fps"),
    [
        *(
            (".0083333", 120.0),
            ("0.033333", 30.0),
            ("0.0333", 30.0),
            ("0.016667", 60.0),
            ("0.0333667", 1 / 0.0333667),
        ),
        *(("0.04", 25.0), ("0.01", 100.0), ("0.2", 5.0), ("0.03333323", 30.0)),
    ],
)
def test_a_rounded_frame_time_is_a_whole_rate(printed: str, fps: float):
    text = sample().replace("0.0333333", printed)
    assert parse(text).fps == pytest.approx(fps, rel=1e-12)
    assert parse(text, fps=50.0).fps == 50.0


def test_a_file_that_was_cut_off_gives_its_whole_rows():
    """Also where the cut goes through the last number."""
    text = sample()
    whole = parse(text)
    last = text.rstrip().rindex("\n") + 1
    for end, rows in ((last + 30, 4), (last - 3, 3)):
        capture = parse(text[:end])
        np.testing.assert_array_equal(capture.positions, whole.positions[:rows])
        assert any("last row is left out" in note for note in capture.notes)
        assert any(f"5 frames and has {rows}" in note for note in capture.notes)


def test_a_wrong_number_of_frames_is_noted():
    capture = parse(sample().replace("Frames: 5", "Frames: 9"))
    assert len(capture.positions) == 5
    assert capture.notes == ("The file promises 9 frames and has 5.",)


def test_two_roots_are_two_persons():
    names = TREE[0] + ["other"]
    tree = names, [*TREE[1], -1], np.vstack([TREE[2], [[0, 0, 0]]])
    rows = np.concatenate((ROWS, ROWS[:, :6] + 1.0), axis=1)
    first, second = bvh.parse(bvh_samples.text(*tree, rows).encode())
    assert same(first, parse(sample()))
    assert (second.names, second.parents) == (("other",), (-1,))
    np.testing.assert_allclose(second.positions[:, 0], ROWS[:, :3] + 1.0)
    assert "root other" in second.notes[0]


def test_persons_may_have_the_same_joints():
    """A second skeleton is recognised by the names of its joints as the first is."""
    names, parents, offsets = TREE
    rooted = [p + len(names) if p >= 0 else -1 for p in parents]
    both = [*names, *names], [*parents, *rooted], np.vstack([offsets, offsets])
    rows = np.concatenate((ROWS, ROWS), axis=1)
    first, second = bvh.parse(bvh_samples.text(*both, rows).encode())
    assert first.names == second.names


def test_positions_that_are_shifts_keep_the_bones():
    """Most files repeat the offsets in the channels, some hold what is added."""
    three = "CHANNELS 3 Xposition Yposition Zposition"
    rest = f"""HIERARCHY
    ROOT a {{ OFFSET 0 0 0 {three} JOINT b {{ OFFSET 500 90 0 {three}
      JOINT c {{ OFFSET 0 9 0 {three} JOINT d {{ OFFSET 0 5 0 {three}
        End Site {{ OFFSET 0 1 0 }} }} }} }} }}
    MOTION
    Frames: 2
    Frame Time: 0.04
    """
    shifts = parse(rest + "0 0 0 1 90 3 0 0 0 0 0 0\n0 0 0 2 90 3 0 .1 0 0 0 0")
    plain = parse(rest + "0 0 0 1 90 3 0 9 0 0 5 0\n0 0 0 2 90 3 0 9.1 0 0 5 0")
    assert same(shifts, plain)
    np.testing.assert_allclose(shifts.offsets, plain.offsets)
    assert "shifts" in shifts.notes[0]
    assert not plain.notes


def nth_number(text: str, frame: int, column: int, value: str) -> str:
    lines = text.rstrip("\n").split("\n")
    cells = lines[frame - len(ROWS)].split()
    cells[column] = value
    lines[frame - len(ROWS)] = " ".join(cells)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("change", "kind", "words", "frame"),
    [
        (lambda t: "", "empty", "empty", None),
        (lambda t: "\0\1\2" * 99, "unknown format", "not text", None),
        (lambda t: "frame,x\n1,2\n", "unknown format", "HIERARCHY", None),
        (lambda t: t[:300], "truncated", "MOTION", None),
        (lambda t: t.split("Frames")[0], "truncated", "Frames", None),
        (lambda t: t.split("0.03")[0], "truncated", "Frame Time", None),
        (
            lambda t: t.replace("Frame Time: 0.0333333", "Frame Time: 0"),
            "frame rate",
            "--fps",
            None,
        ),
        (
            lambda t: t.replace("Frame Time: 0.0333333", "Frame Time: 120"),
            "frame rate",
            "120 s",
            None,
        ),
        (lambda t: t.replace("0.0333333", "often"), "frame rate", "often", None),
        (
            lambda t: "\n".join(t.split("\n")[: -len(ROWS)]),
            "empty",
            "0 whole frames",
            None,
        ),
        (
            lambda t: t.replace("OFFSET 0 10 0", "OFSET 0 10 0", 1),
            "unreadable",
            "line 8: 'OFSET 0 10 0'",
            None,
        ),
        (
            lambda t: t.replace("OFFSET 0 10 0", "OFFSET 0 10", 1),
            "unreadable",
            "line 8",
            None,
        ),
        (
            lambda t: t.replace("OFFSET 0 10 0", "OFFSET 0 1e99 0", 1),
            "unreadable",
            "1e99",
            None,
        ),
        (
            lambda t: t.replace("OFFSET 0 10 0", "OFFSET 0 1x0 0", 1),
            "unreadable",
            "1x0",
            None,
        ),
        (
            lambda t: t.replace("CHANNELS 3", "CHANNELS 4", 1),
            "unreadable",
            "Spine has 4 CHANNELS and names 3",
            None,
        ),
        (lambda t: t.replace("{", "", 1), "unreadable", "no { follows Hips", None),
        (lambda t: t.replace("}\nMOTION", "MOTION"), "unreadable", "no } closes", None),
        (
            lambda t: t.replace("}\nMOTION", "}\n}\nMOTION"),
            "unreadable",
            "outside",
            None,
        ),
        (
            lambda t: t.replace("ROOT Hips", "JOINT Hips"),
            "unreadable",
            "outside of a root",
            None,
        ),
        (
            lambda t: t.replace("JOINT Spine1", "ROOT Spine1"),
            "unreadable",
            "inside Spine",
            None,
        ),
        (
            lambda t: "HIERARCHY\nMOTION\nFrames: 1\nFrame Time: 1\n",
            "unreadable",
            "no joints",
            None,
        ),
        (
            lambda t: (
                "HIERARCHY ROOT a { OFFSET 0 0 0 }\nMOTION\nFrames: 1\nFrame Time: 1\n"
            ),
            "columns",
            "CHANNELS",
            None,
        ),
        (
            lambda t: nth_number(t, 3, 7, "nan"),
            "not finite",
            "yrotation of Spine is nan",
            3,
        ),
        (lambda t: nth_number(t, 3, 7, "-1.#IND"), "not finite", "'-1.#IND'", 3),
        (lambda t: nth_number(t, 2, 0, "inf"), "not finite", "xposition of Hips", 2),
        (lambda t: nth_number(t, 2, 0, "1e30"), "units", "xposition of Hips", 2),
        (lambda t: nth_number(t, 1, 4, "1,5"), "unreadable", "'1,5': numbers need", 1),
        (
            lambda t: t.replace("OFFSET 0 10 0", "OFFSET 0 10,5 0", 1),
            "unreadable",
            "0 10,5 0: numbers need decimal points, not commas",
            None,
        ),
        (lambda t: nth_number(t, 1, 4, "1 5"), "columns", f"{WIDTH + 1} numbers", 1),
        (lambda t: nth_number(t, 1, 4, ""), "columns", f"{WIDTH - 1} numbers", 1),
    ],
)
def test_bad_files_are_refused_with_a_reason(change, kind, words, frame):
    with pytest.raises(ClipError) as caught:
        parse(change(sample()))
    error = caught.value
    assert (error.kind, error.frame) == (kind, frame), error
    assert words in error.reason
    assert "\n" not in error.reason


def test_large_files_are_refused(tmp_path: Path, monkeypatch):
    path = tmp_path / "person.bvh"
    path.write_text(sample())
    assert same(bvh.read(path)[0], parse(sample()))
    monkeypatch.setattr(bvh, "TEXT_LIMIT_BYTES", 1000)
    with pytest.raises(ClipError, match="MiB are read"):
        bvh.read(path)


def test_a_small_file_cannot_ask_for_much_memory():
    ends = "End Site { OFFSET 0 0 0 }\n" * 1900
    head = f"HIERARCHY ROOT a {{ OFFSET 0 0 0 CHANNELS 1 Xrotation {ends} }}\n"
    text = f"{head}MOTION\nFrames: 30000\nFrame Time: 0.1\n" + "0\n" * 30000
    with pytest.raises(ClipError, match="2 GiB"):
        parse(text)


def test_real_files_keep_their_bones(motions_folder: Path):
    files = sorted((motions_folder / "human_samples").glob("*.bvh"))
    if not files:
        pytest.skip("no human_samples among the motions")
    for path in files:
        (capture,) = bvh.read(path)
        assert not capture.notes
        assert capture.fps in (30.0, 60.0, 120.0)
        inner = np.flatnonzero(np.array(capture.parents) >= 0)
        parents = np.array(capture.parents)[inner]
        bones = capture.positions[:, inner] - capture.positions[:, parents]
        length = np.linalg.norm(bones, axis=2).mean(axis=0)
        usual = np.linalg.norm(capture.offsets[inner], axis=1)
        moved = np.abs(length - usual) > 0.01 * usual.max()
        assert {capture.names[i] for i in inner[moved]} <= {"Hips"}, path.name
        np.testing.assert_allclose(np.linalg.norm(capture.turns, axis=2), 1.0)
