"""Every format is read for what it is, and every bad file is refused in words."""

import bz2
import io
import lzma
import os
import struct
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
import samples

from spectral_skills.motion import ingest
from spectral_skills.motion.clip import Clip, ClipError
from spectral_skills.motion.ingest import ReadOptions
from spectral_skills.motion.readers import unpickle
from spectral_skills.robot import g1

TRUTH = samples.motion()
PADDED = "wrists padded with zeros (23-joint source)"


@pytest.fixture
def motions() -> Path:
    default = Path(__file__).resolve().parents[3] / "shared" / "motions"
    folder = Path(os.environ.get("SPECTRAL_MOTIONS", default))
    if not folder.is_dir():
        pytest.skip(f"no real motions at {folder}; set SPECTRAL_MOTIONS")
    return folder


def read_one(path: Path, **options) -> Clip:
    found = ingest.read(path, ReadOptions(**options))
    assert len(found) == 1
    if isinstance(found[0], ClipError):
        pytest.fail(f"{path.name}: {found[0].kind}: {found[0]}")
    return found[0]


def refused(path: Path, kind: str, **options) -> ClipError:
    found = ingest.read(path, ReadOptions(**options))
    assert len(found) == 1
    error = found[0]
    assert isinstance(error, ClipError), f"{path.name} was read"
    assert error.kind == kind, f"{error.kind}: {error}"
    assert "\n" not in error.reason
    return error


def put(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def same_motion(clip: Clip, truth: np.ndarray, tolerance: float = 1e-6) -> None:
    np.testing.assert_allclose(clip.root_position, truth[:, :3], atol=tolerance)
    np.testing.assert_allclose(clip.joints, truth[:, 7:], atol=tolerance)
    dot = np.abs((clip.root_quaternion * truth[:, 3:7]).sum(axis=1))
    np.testing.assert_allclose(dot, 1.0, atol=tolerance)


@pytest.mark.parametrize("name", samples.FORMATS)
def test_every_format_gives_the_motion_back(name: str, tmp_path: Path):
    write, fps, source = samples.FORMATS[name]
    clip = read_one(put(tmp_path, name, write(TRUTH)))
    assert (clip.fps, clip.source) == (fps, source)
    assert clip.name == ("wave" if name.startswith("library") else Path(name).stem)
    assert any("w x y z" in note for note in clip.notes) == (name == "kimodo.csv")
    same_motion(clip, TRUTH)


def test_content_decides_not_the_extension(tmp_path: Path):
    assert read_one(put(tmp_path, "a.npz", samples.unitree(TRUTH))).fps == 30
    assert read_one(put(tmp_path, "b.txt", samples.library(TRUTH))).name == "wave"
    assert read_one(put(tmp_path, "c.csv", samples.own(TRUTH))).text == "a robot waves"


def test_reference_folder(tmp_path: Path):
    folder = samples.write_reference(tmp_path / "wave", TRUTH)
    clip = read_one(folder)
    assert (clip.name, clip.fps, clip.source) == ("wave", 50, "sonic reference")
    same_motion(clip, TRUTH)


def test_file_says_text_source_and_licence(tmp_path: Path):
    clip = read_one(put(tmp_path, "own.npz", samples.own(TRUTH)))
    assert (clip.text, clip.source, clip.licence) == ("a robot waves", "made up", "CC0")
    assert read_one(put(tmp_path, "u.csv", samples.unitree(TRUTH))).licence == "unknown"


def test_names_and_texts_can_be_written_again(tmp_path: Path):
    """Lone surrogates cannot be encoded; a corpus must never see one."""
    name = b"wave \xff.npz".decode("utf-8", "surrogateescape")
    said = {"text": "a \ud800 robot\nwaves", "source": "x" * 300}
    data = samples.npz(qpos=TRUTH, fps=50, **said)
    clip = read_one(put(tmp_path, name, data))
    assert (clip.name, clip.text, clip.source) == ("wave", "a robot\nwaves", "x" * 300)
    key = "0-motions_raw_tairantestbed_smpl_video_" * 4
    data = samples.joblib({key: samples.library_dict(TRUTH)})
    assert read_one(put(tmp_path, "long.pkl", data)).name == key


def test_given_rate_overrides_the_file(tmp_path: Path):
    for name, (write, _, _) in samples.FORMATS.items():
        assert read_one(put(tmp_path, name, write(TRUTH)), fps=40.0).fps == 40.0


@pytest.mark.parametrize(
    "write",
    [
        lambda q: samples.gmr(q, joints=23),
        lambda q: samples.library(q, joints=23),
        lambda q: samples.csv(samples.xyzw_rows(q)[:, [*range(7), *kept_columns()]]),
        lambda q: samples.npz(qpos=q[:, [*range(7), *kept_columns()]], fps=30),
    ],
)
def test_23_joints_only_when_padding_is_asked_for(write, tmp_path: Path):
    path = put(tmp_path, "wristless", write(TRUTH))
    assert "--pad-wrists" in refused(path, "joints").reason
    clip = read_one(path, pad_wrists=True)
    assert PADDED in clip.notes
    truth = TRUTH.copy()
    truth[:, [7 + i for i, n in enumerate(g1.JOINTS) if "wrist" in n]] = 0.0
    same_motion(clip, truth)


def kept_columns() -> list[int]:
    return [7 + int(i) for i in g1.WITHOUT_WRISTS]


def test_a_tie_goes_to_unitree(tmp_path: Path):
    """A robot that stands still and faces along x looks the same both ways."""
    rows = np.tile(g1.DEFAULT_QPOS, (20, 1))
    clip = read_one(put(tmp_path, "still.csv", samples.csv(samples.xyzw_rows(rows))))
    np.testing.assert_allclose(clip.root_quaternion[:, 0], 1.0)
    assert clip.source == "unitree csv"


def test_merged_library_keeps_good_entries(tmp_path: Path):
    good, bad = samples.library_dict(TRUTH), samples.library_dict(TRUTH)
    bad["dof"] = np.full_like(bad["dof"], np.nan)
    lost = {k: v for k, v in good.items() if k != "fps"}
    data = samples.joblib({"a": good, "b": bad, "c": lost, "d": {"x": 1}, "e": good})
    found = ingest.read(put(tmp_path, "merged.pkl", data), ReadOptions())
    kinds = [c.name if isinstance(c, Clip) else c.kind for c in found]
    assert kinds == ["a", "not finite", "frame rate", "unknown format", "e"]
    errors = [c for c in found if isinstance(c, ClipError)]
    assert [e.reason[:3] for e in errors] == ["b: ", "c: ", "d: "]
    assert errors[0].frame == 0


# Real files


def test_real_samples_reproduce_the_reference(motions: Path):
    folder = motions / "formats"
    with np.load(folder / "truth_50hz.npz") as stored:
        truth = stored["qpos"]
    paths = ingest.find([folder])
    assert len(paths) == 14
    for path in paths:
        clip = read_one(path, pad_wrists=True)
        wristless = PADDED in clip.notes
        root_m, joint_rad = (0.005, 0.03) if clip.fps == 30 else (0.001, 0.005)
        at_50 = clip.resampled(50)
        assert at_50.frames >= len(truth) - 1
        expected = truth[: at_50.frames]
        same_root = np.abs(at_50.root_position - expected[:, :3]).max()
        assert same_root < root_m, path.name
        dot = np.abs((at_50.root_quaternion * expected[:, 3:7]).sum(axis=1))
        assert (2 * np.arccos(np.minimum(dot, 1.0))).max() < joint_rad, path.name
        error = np.abs(at_50.joints - expected[:, 7:])
        error = error[:, g1.WITHOUT_WRISTS] if wristless else error
        assert error.max() < joint_rad, path.name


def test_quaternion_order_of_every_real_clip(motions: Path, tmp_path: Path):
    """Both ways of writing all clips; some are upright under both readings."""
    wrong, decided = [], 0
    paths = ingest.find([motions])
    for path in paths:
        if "formats" in path.parts or path.suffix != ".npz":
            continue
        clip = read_one(path)
        # Ten seconds are enough to decide and keep the test short.
        rows = clip.qpos()[: int(10 * clip.fps)]
        for data, source in (
            (samples.unitree(rows), "unitree csv"),
            (samples.csv(rows), "kimodo csv"),
        ):
            decided += 1
            read = read_one(put(tmp_path, "x.csv", data), fps=clip.fps)
            if read.source != source:
                wrong.append((path.name, source))
    assert decided > 250
    assert not wrong


# What cannot be read


def rows(**changes) -> bytes:
    values = samples.xyzw_rows(TRUTH)
    for column, (frame, value) in changes.items():
        values[frame, int(column[1:])] = value
    return samples.csv(values)


def test_truncated_row(tmp_path: Path):
    data = samples.unitree(TRUTH)[:-120]
    assert refused(put(tmp_path, "a.csv", data), "truncated").frame == len(TRUTH) - 1


def test_row_of_another_width(tmp_path: Path):
    lines = samples.unitree(TRUTH).split(b"\n")
    lines[7] += b",1.0"
    assert refused(put(tmp_path, "a.csv", b"\n".join(lines)), "columns").frame == 7
    # Two wrong rows that make up for each other are wrong all the same.
    lines[9] = lines[9].rsplit(b",", 1)[0]
    assert refused(put(tmp_path, "b.csv", b"\n".join(lines)), "columns").frame == 7


def test_not_a_number(tmp_path: Path):
    for value in (np.nan, np.inf):
        error = refused(put(tmp_path, "a.csv", rows(c9=(4, value))), "not finite")
        assert error.frame == 4 and "hip_yaw" in error.reason


def test_words_in_the_table(tmp_path: Path):
    data = samples.unitree(TRUTH).split(b"\n")
    cells = data[5].split(b",")
    cells[2] = b"high"
    data[5] = b",".join(cells)
    error = refused(put(tmp_path, "a.csv", b"\n".join(data)), "unreadable")
    assert error.frame == 5 and "column 3" in error.reason and "high" in error.reason
    cells[2] = b""
    data[5] = b",".join(cells)
    error = refused(put(tmp_path, "b.csv", b"\n".join(data)), "not finite")
    assert "column 3 is empty" in error.reason


def test_a_table_about_motions_is_none(tmp_path: Path):
    about = b'name,text,seconds,place\nwalk,"walks, then turns",2.5,floor\n'
    index = put(tmp_path, "index.csv", about)
    motion = put(tmp_path, "walk.csv", samples.unitree(TRUTH))
    pointer = put(tmp_path, "z.csv", b"version https://git-lfs\noid sha256:1\nsize 2\n")
    assert ingest.find([tmp_path]) == [motion, pointer]
    assert ingest.find([index]) == [index]
    assert "words" in refused(index, "unknown format").reason


# 37 and 38 could hold a motion, but columns of ones do not tell where.
@pytest.mark.parametrize("width", [7, 29, 35, 37, 38, 39, 50])
def test_wrong_column_count(width: int, tmp_path: Path):
    data = samples.csv(np.ones((10, width)))
    assert str(width) in refused(put(tmp_path, "a.csv", data), "columns").reason


def test_zero_and_long_quaternions(tmp_path: Path):
    zero = rows(c3=(6, 0.0), c4=(6, 0.0), c5=(6, 0.0), c6=(6, 0.0))
    assert refused(put(tmp_path, "a.csv", zero), "quaternion").frame == 6
    long = rows(c6=(3, 1.5))
    assert refused(put(tmp_path, "b.csv", long), "quaternion").frame == 3


@pytest.mark.parametrize("fps", [None, 0, -30, np.nan, "thirty"])
def test_missing_frame_rate(fps, tmp_path: Path):
    path = put(tmp_path, "a.pkl", samples.library(TRUTH, fps=fps))
    assert "--fps" in refused(path, "frame rate").reason
    assert read_one(path, fps=30).fps == 30
    path = put(tmp_path, "a.npz", samples.npz(qpos=TRUTH))
    assert "--fps" in refused(path, "frame rate").reason


def test_root_under_the_floor(tmp_path: Path):
    assert refused(put(tmp_path, "a.csv", rows(c2=(8, -0.1))), "under floor").frame == 8


def test_jump(tmp_path: Path):
    assert refused(put(tmp_path, "a.csv", rows(c0=(11, 5.0))), "jump").frame == 11
    assert refused(put(tmp_path, "b.csv", rows(c20=(13, 3.0))), "jump").frame == 13


def test_degrees(tmp_path: Path):
    assert (
        "degrees"
        in refused(put(tmp_path, "a.csv", rows(c20=(5, 40.0))), "units").reason
    )


def test_empty_files(tmp_path: Path):
    for data in (b"", b"\n\n", b"\xef\xbb\xbf"):
        refused(put(tmp_path, "a.csv", data), "empty")
    header = samples.bones_seed(TRUTH).split(b"\n")[0]
    refused(put(tmp_path, "b.csv", header), "empty")
    refused(put(tmp_path, "c.npz", samples.npz(qpos=TRUTH[:0], fps=30)), "empty")


def test_four_gigabytes_are_not_opened(tmp_path: Path):
    path = tmp_path / "huge.csv"
    with path.open("wb") as file:
        file.truncate(4 * 1024**3)
    start = time.perf_counter()
    assert "4.0 GiB" in refused(path, "too large").reason
    assert time.perf_counter() - start < 0.5


def test_not_a_motion_at_all(tmp_path: Path):
    prose = b"Dear reader,\nthis is no motion.\n"
    refused(put(tmp_path, "a.npz", prose), "unknown format")
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    error = refused(put(tmp_path, "b.npz", pointer), "unknown format")
    assert "git lfs pull" in error.reason
    random = np.random.default_rng(0).bytes(5000)
    refused(put(tmp_path, "c.pkl", random), "unknown format")
    npy = io.BytesIO()
    np.save(npy, TRUTH)
    refused(put(tmp_path, "d.npy", npy.getvalue()), "unknown format")
    error = refused(put(tmp_path, "e.npz", samples.npz(image=[1])), "unknown format")
    assert "image" in error.reason


def test_truncated_archives(tmp_path: Path):
    for name in ("own.npz", "gmr4.pkl", "library.pkl", "library_xz.pkl"):
        data = samples.FORMATS[name][0](TRUTH)
        refused(put(tmp_path, name, data[: len(data) // 2]), "truncated")


def test_zip_bomb(tmp_path: Path):
    refused(put(tmp_path, "bomb.npz", samples.zip_bomb(3 * 1024**3)), "too large")


def test_compressed_pickle_bomb(tmp_path: Path, monkeypatch):
    """A claim of a huge byte string, and a stream that goes on and on."""
    monkeypatch.setattr(unpickle, "LIMIT_BYTES", 32 << 20)
    claim = b"\x80\x04\x8e" + struct.pack("<Q", 3 * 1024**3)
    for compress in (zlib.compress, bz2.compress, lzma.compress):
        data = compress(claim + bytes(48 << 20))
        assert len(data) < 100_000
        refused(put(tmp_path, "bomb.pkl", data), "too large")


def test_lying_array_header(tmp_path: Path):
    form = "{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}"
    claim = samples.npz_member(form.format("<f8", (10**9, 36)), bytes(288))
    error = refused(put(tmp_path, "a.npz", claim), "truncated")
    assert "288" in error.reason
    code = samples.npz_member(form.format("<f8", "__import__('os').abort()"), b"")
    refused(put(tmp_path, "b.npz", code), "unreadable")
    objects = samples.npz_member(form.format("|O", (1,)), b"cos\nabort\n(tR.")
    refused(put(tmp_path, "c.npz", objects), "code in pickle")


def test_archive_with_a_million_entries_is_not_listed(tmp_path: Path):
    data = bytearray(samples.own(TRUTH))
    struct.pack_into("<I", data, data.rindex(b"PK\x05\x06") + 12, 50 << 20)
    refused(put(tmp_path, "a.npz", bytes(data)), "too large")


def test_joint_order_that_fits_no_body(tmp_path: Path):
    position, quaternion = samples.bodies(TRUTH, g1.LINKS)
    fields = {"fps": 50, "body_pos_w": position, "body_quat_w": quaternion}
    shuffled = TRUTH[:, 7:][:, ::-1]
    path = put(tmp_path, "a.npz", samples.npz(joint_pos=shuffled, **fields))
    assert "cm" in refused(path, "joints").reason
    fields |= {"body_pos_w": position[:, :1], "body_quat_w": quaternion[:, :1]}
    path = put(tmp_path, "b.npz", samples.npz(joint_pos=TRUTH[:, 7:], **fields))
    assert "1 bodies" in refused(path, "joints").reason
    path = put(tmp_path, "c.npz", samples.npz(joint_pos=TRUTH[:, 7:], fps=50))
    assert "body_pos_w" in refused(path, "unknown format").reason


def test_folders_that_are_no_reference(tmp_path: Path):
    assert "joint_pos.csv" in refused(tmp_path, "unknown format").reason
    folder = samples.write_reference(tmp_path / "wave", TRUTH)
    text = (folder / "metadata.txt").read_text()
    (folder / "metadata.txt").write_text(text.replace("24", "25"))
    assert "25 in metadata.txt" in refused(folder, "truncated").reason
    (folder / "body_pos.csv").unlink()
    assert "body_pos.csv" in refused(folder, "columns").reason


def test_things_that_are_no_files(tmp_path: Path):
    refused(tmp_path / "missing.csv", "unreadable")
    os.mkfifo(tmp_path / "pipe.csv")
    refused(tmp_path / "pipe.csv", "unreadable")


# Finding


def test_find(tmp_path: Path):
    for name in ("b.csv", "a.npz", "notes.txt", "metadata.csv", ".hidden.csv"):
        put(tmp_path, name, b"")
    (tmp_path / "deep" / ".git").mkdir(parents=True)
    put(tmp_path / "deep", "c.PKL", b"")
    put(tmp_path / "deep" / ".git", "d.csv", b"")
    samples.write_reference(tmp_path / "refs" / "wave", TRUTH)
    (tmp_path / "refs" / "loop").symlink_to(tmp_path)
    found = ingest.find([tmp_path])
    relative = [str(path.relative_to(tmp_path)) for path in found]
    assert relative == ["a.npz", "b.csv", "deep/c.PKL", "refs/wave"]
    given = [tmp_path / "notes.txt", tmp_path, tmp_path / "b.csv"]
    assert ingest.find(given) == [tmp_path / "notes.txt", *found]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        ingest.find([tmp_path / "nowhere"])
