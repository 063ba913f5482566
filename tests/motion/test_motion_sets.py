"""Motion sets: kinds by name, the three filters, seeded sets and splits."""

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectral_skills.motion import motion_sets
from spectral_skills.motion.clip import Clip
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.corpus_writer import CorpusWriter
from spectral_skills.motion.motion_sets import (
    GROUPS,
    KINDS,
    base_name,
    group,
    kind,
    name_hash,
    needs_absent_object,
)
from spectral_skills.robot import g1

MOTIONS = Path(
    os.environ.get("SPECTRAL_MOTIONS")
    or Path(__file__).resolve().parents[3] / "shared" / "motions"
)


def motion(name: str, frames: int = 120, effort: float = 0.1, text: str = "") -> Clip:
    """Joints swing, the pelvis sways and dips, all in proportion to `effort`."""
    phase = 2 * np.pi * np.arange(frames)[:, None] / 50
    qpos = np.tile(g1.DEFAULT_QPOS, (frames, 1))
    qpos[:, 7:] += effort * np.sin(phase + np.arange(g1.NUM_JOINTS))
    qpos[:, :1] += effort * np.sin(phase)
    qpos[:, 2:3] -= 0.2 * effort * (1 - np.cos(phase))
    return Clip.from_qpos(qpos, name=name, fps=float(FPS), text=text)


def build(folder: Path, clips: list[Clip]) -> Corpus:
    """A corpus of the clips, one input each, in the given order."""
    keys = [str(number) for number in range(len(clips))]
    writer = CorpusWriter(folder, {}, keys)
    for key, clip in zip(keys, clips, strict=True):
        writer.add(key, clip.name, [clip], [])
    writer.finish()
    return Corpus.open(folder)


def names_of(corpus: Corpus, indices: np.ndarray) -> list[str]:
    return [corpus.names[i] for i in indices]


NAMES_OF_GROUP = {
    "locomotion": "walk_forward_loop",
    "gesture": "wave_hand",
    "dance": "dance_basic_step",
    "jump or kick": "jump_ff",
    "injured": "walk_injured_leg",
    "ground": "crawl_ff_loop",
    "boxing": "shadow_boxing",
    "other": "mystery",
}


def library(counts: dict[str, int]) -> list[Clip]:
    return [
        motion(f"{NAMES_OF_GROUP[name]}_{i:03d}__A{i:03d}", effort=0.05 + 0.001 * i)
        for name, count in counts.items()
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def efforts(tmp_path_factory) -> Corpus:
    """Forty clips, clip i with the i-th effort."""
    clips = [motion(f"walk_{i:02d}", effort=0.02 + 0.005 * i) for i in range(40)]
    return build(tmp_path_factory.mktemp("efforts"), clips)


# Kinds


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fallAndGetUp1_subject4", "fall"),
        ("fightAndSports1_subject1", "fight"),
        ("sprint1_subject2", "sprint"),
        ("jumps1_subject1", "jump"),
        ("J_Dance11_Gnarly", "dance"),
        ("J_ShortDance14_Disco", "dance"),
        ("B_SpinKarate", "fight"),
        ("walk_injured_leg_001__A123", "injured"),
        ("inj_torso_idle_turn_360_002__A104", "injured"),
        ("neutral_jump_kick_002__A045_M", "kick"),
        ("Loop_Forward_Jog_001__A017", "run"),
        ("RunningManDance", "dance"),
        ("walk_turn_left", "walk"),
        ("idle_turn_270", "turn"),
        ("kneeling_start_002__A023_M", "kneel"),
        ("shadow_boxing_R_001__A360", "boxing"),
        ("squat", "squat"),
        ("soccer-standard-001_right", "sports"),
        ("return_home", "other"),
        ("M_Move1", "other"),
        ("01_01_poses", "other"),
        ("", "other"),
    ],
)
def test_kind_by_name(name, expected):
    assert kind(name) == expected


def test_text_counts_only_where_the_name_is_silent():
    assert kind("M_Move1", "A person is crawling forward.") == "crawl"
    assert kind("walk_001", "A person is crawling forward.") == "walk"


@given(st.text(max_size=40), st.text(max_size=40))
@settings(max_examples=50, deadline=None)
def test_every_clip_has_a_kind_and_a_group(name, text):
    assert kind(name, text) in KINDS
    assert group(kind(name, text)) in GROUPS


def test_groups_cover_the_quotas():
    assert set(motion_sets.CAPABILITY_QUOTAS) == set(GROUPS) - {"other"}
    for name, example in NAMES_OF_GROUP.items():
        assert group(kind(example)) == name


@pytest.mark.skipif(not (MOTIONS / "lafan1").is_dir(), reason=f"no LAFAN1 in {MOTIONS}")
def test_lafan1_file_names_have_the_right_kinds():
    names = sorted(path.stem for path in (MOTIONS / "lafan1").glob("*.npz"))
    assert sorted(motion_sets.LAFAN1_CLIPS) == names
    # Three fights and two of fight and sports.
    expected = {"walk": 12, "run": 4, "sprint": 2, "dance": 8, "fight": 5}
    assert Counter(map(kind, names)) == {**expected, "jump": 3, "fall": 6}
    assert not any(needs_absent_object(name) for name in names)


# Filters


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("lift_crate_walk_ff_start_180_R_001__A140", True),
        ("inside_door_handle_left_side_open_R_001__A513", True),
        ("ladder_climbing_down_loop_R_003__A300", True),
        ("WalkUpStairs2", True),
        ("read_book_sitting_R_001", True),
        ("sub3_largebox_003", True),
        ("boxing_R_001", False),
        ("shadowBoxing2", False),
        ("stable_stance", False),
        ("outdoor_walk", False),
        ("visit_001", False),
        *((name, False) for name in ("squat", "kneeling_loop", "crawl_ff", "B_Fence1")),
    ],
)
def test_absent_objects_by_name(name, needs):
    assert needs_absent_object(name) == needs


def test_length_limits_are_inclusive(tmp_path):
    lengths = (99, 100, 1500, 1501)
    corpus = build(tmp_path / "c", [motion(f"walk_{n}", frames=n) for n in lengths])
    _, keep = motion_sets.usable(corpus)
    assert keep.tolist() == [False, True, True, False]


def test_pelvis_under_the_floor_in_one_frame_is_enough(tmp_path):
    good, bad, touching = (motion(name) for name in ("walk_a", "walk_b", "walk_c"))
    bad.root_position[60, 2] = -0.001  # a clip that ingest would refuse
    touching.root_position[60, 2] = 0.0
    corpus = build(tmp_path / "c", [good, bad, touching])
    filtered = motion_sets.apply_filters(corpus)
    assert filtered.dropped["under the floor"] == 1 and not filtered.keep[1]


def test_measures_against_a_plain_loop(efforts, monkeypatch):
    monkeypatch.setattr(motion_sets, "_GROUP_FRAMES", 500)  # several groups
    measured = motion_sets.measure_difficulty(efforts)
    for i in range(len(efforts)):
        qpos = np.asarray(efforts.qpos(i), dtype=np.float64)
        velocity = np.diff(qpos, axis=0) * 50
        speed = np.linalg.norm(velocity[:, :3], axis=1).max()
        joint = np.percentile(np.abs(velocity[:, 7:]), 99)
        assert -measured[0, i] == pytest.approx(qpos[:, 2].min())
        assert measured[1, i] == pytest.approx(speed, abs=1e-4)
        assert measured[2, i] == pytest.approx(joint, abs=1e-3)


def test_foot_height_of_the_default_pose_and_of_a_raised_one(tmp_path):
    standing, raised = motion("stand", effort=0.0), motion("stand_up", effort=0.0)
    raised.root_position[10, 2] += 0.3
    corpus = build(tmp_path / "c", [standing, raised])
    low, high = motion_sets.measure_difficulty(corpus)[3]
    assert 0.0 < low < 0.1
    assert high - low == pytest.approx(0.3, abs=1e-5)


def test_a_jump_between_clips_is_no_speed(tmp_path):
    far = motion("walk_far", effort=0.0)
    far.root_position[:, 0] += 100.0
    corpus = build(tmp_path / "c", [motion("walk_near", effort=0.0), far])
    assert motion_sets.measure_difficulty(corpus)[1].max() == 0.0


def test_a_mirror_image_is_as_hard_as_its_original(efforts):
    measured = motion_sets.measure_difficulty(efforts.with_mirror())
    half = len(efforts)
    np.testing.assert_allclose(measured[:, :half], measured[:, half:], atol=1e-4)


def test_the_dropped_quarter_is_the_easiest(efforts):
    keep = motion_sets.harder_part(efforts, motion_sets.measure_difficulty(efforts))
    assert keep.tolist() == [False] * 10 + [True] * 30


def test_a_low_pelvis_is_hard():
    same = np.ones(2)
    difficulty = np.stack((-np.array([0.7, 0.2]), same, same, same))
    easy, hard = motion_sets.mean_percentile(difficulty)
    assert easy < hard


def test_names_break_ties(tmp_path):
    names = ("walk_d", "walk_b", "walk_c", "walk_a")
    corpus = build(tmp_path / "c", [motion(name) for name in names])
    keep = motion_sets.harder_part(corpus, motion_sets.measure_difficulty(corpus))
    assert names_of(corpus, np.flatnonzero(~keep)) == ["walk_a"]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.randoms())
@settings(max_examples=30, deadline=None)
def test_percentiles_follow_the_clip_and_respect_order(values, random):
    def percentile(numbers):
        return motion_sets.mean_percentile(np.array([numbers] * 4, dtype=float))

    score = percentile(values)
    order = random.sample(range(len(values)), len(values))
    assert (percentile([values[i] for i in order]) == score[order]).all()
    assert ((score > 0) & (score < 1)).all()
    for a, b in zip(range(len(values)), order, strict=True):
        assert np.sign(score[a] - score[b]) == np.sign(values[a] - values[b])


def test_filters_count_what_each_drops(tmp_path):
    clips = [motion(f"walk_{i}", effort=0.1 + 0.01 * i) for i in range(8)]
    clips += [motion("lift_crate"), motion("walk_short", frames=50)]
    clips += [motion("door_long", frames=1600), motion("walk_deep")]
    clips[-1].root_position[3, 2] = -0.1
    corpus = build(tmp_path / "c", clips)
    filtered = motion_sets.apply_filters(corpus)
    assert list(filtered.dropped.values()) == [2, 1, 1, 2]
    assert np.flatnonzero(filtered.keep).tolist() == [2, 3, 4, 5, 6, 7]
    assert "6 of 12 clips" in str(filtered)


# Evaluation set


@given(st.permutations(range(12)), st.integers(0, 3))
@settings(max_examples=8, deadline=None)
def test_same_evaluation_set_whatever_the_order(tmp_path_factory, order, seed):
    clips = [motion(f"walk_{i}", effort=0.1 + 0.02 * i) for i in range(10)]
    # Two different motions of one name: ingestion numbers them in its order.
    clips += [motion("wave", effort=0.5), motion("wave", effort=0.55)]
    one = build(tmp_path_factory.mktemp("one"), clips)
    other = build(tmp_path_factory.mktemp("other"), [clips[i] for i in order])
    hashes = [
        [
            corpus.entry(i).hash
            for i in motion_sets.evaluation_set(corpus, 5, seed).indices
        ]
        for corpus in (one, other)
    ]
    assert hashes[0] == hashes[1]
    assert len(set(hashes[0])) == 5


def test_seed_changes_the_evaluation_set(efforts):
    draws = [motion_sets.evaluation_set(efforts, 10, s) for s in (0, 0, 1)]
    same, again, other = (set(draw.indices.tolist()) for draw in draws)
    assert same == again != other
    assert len(same) == 10
    assert not same & set(range(10))  # the easiest quarter


def test_a_small_library_gives_all_and_says_so(efforts):
    chosen = motion_sets.evaluation_set(efforts)
    assert len(chosen.indices) < 4096
    assert names_of(efforts, chosen.indices) == efforts.names[10:]
    assert "30 of 40" in chosen.note and "fewer than the 4,096" in chosen.note


def test_nothing_usable_gives_an_empty_set(tmp_path):
    corpus = build(tmp_path / "c", [motion("walk", frames=20)])
    chosen = motion_sets.evaluation_set(corpus)
    assert len(chosen.indices) == 0


# Capability set

PLENTY = {"locomotion": 22, "gesture": 12, "dance": 7, "jump or kick": 7}
PLENTY |= {"injured": 7, "ground": 7, "boxing": 7, "other": 3}


@pytest.fixture(scope="module")
def plenty(tmp_path_factory) -> Corpus:
    return build(tmp_path_factory.mktemp("plenty"), library(PLENTY))


@pytest.mark.parametrize("size", [31, 62])
def test_capability_set_meets_the_quotas(plenty, size):
    chosen = motion_sets.capability_set(plenty, size)
    assert len(set(chosen.indices.tolist())) == size
    found = Counter(group(kind(name)) for name in names_of(plenty, chosen.indices))
    for name, quota in motion_sets.CAPABILITY_QUOTAS.items():
        assert found[name] >= quota * size / 124


def test_the_only_boxing_clip_is_always_chosen(tmp_path):
    corpus = build(tmp_path / "c", library({**PLENTY, "boxing": 1}))
    chosen = [motion_sets.capability_set(corpus, 31, seed=s) for s in range(8)]
    for draw in chosen:
        assert "shadow_boxing_000__A000" in names_of(corpus, draw.indices)
    assert any(draw.note != f"draw 1, seed {s}" for s, draw in enumerate(chosen))


def test_a_set_that_is_too_unlikely_is_refused(plenty, monkeypatch):
    monkeypatch.setattr(motion_sets, "_MAX_DRAWS", 0)
    with pytest.raises(ValueError, match="none of 0 random subsets"):
        motion_sets.capability_set(plenty, 31)


def test_impossible_quotas_are_named(tmp_path):
    counts = {**PLENTY, "dance": 1, "boxing": 0}
    corpus = build(tmp_path / "c", library(counts))
    lacking = r"dance clips \(have 1, need 2\), boxing clips \(have 0, need 1\)$"
    with pytest.raises(ValueError, match=lacking):
        motion_sets.capability_set(corpus, 31)
    with pytest.raises(ValueError, match=r"usable clips in all \(have 59, need 124\)"):
        motion_sets.capability_set(corpus)


def test_too_few_clips_for_the_quotas(plenty):
    with pytest.raises(ValueError, match="4 clips cannot meet quotas of 7"):
        motion_sets.capability_set(plenty, 4)


# LAFAN1


def test_missing_lafan1_clips_are_named(tmp_path):
    clips = [motion(name) for name in motion_sets.LAFAN1_CLIPS[:-2]]
    corpus = build(tmp_path / "c", clips)
    with pytest.raises(ValueError, match="missing: walk3_subject5, walk4_subject1$"):
        motion_sets.lafan1(corpus)


def test_lafan1_windows(tmp_path):
    names = motion_sets.LAFAN1_CLIPS
    clips = [motion("extra"), *(motion(n, frames=101 + i) for i, n in enumerate(names))]
    corpus = build(tmp_path / "c", clips[::-1])
    assert names_of(corpus, motion_sets.lafan1(corpus)) == list(names)
    windows = motion_sets.lafan1_windows(corpus, per_clip=3, seconds=2)
    assert windows[:, 0].tolist() == np.repeat(motion_sets.lafan1(corpus), 3).tolist()
    assert (windows[:, 1] >= 0).all()
    assert (windows[:, 1] + 100 <= corpus.lengths[windows[:, 0]]).all()
    again = motion_sets.lafan1_windows(corpus, per_clip=3, seconds=2)
    other = motion_sets.lafan1_windows(corpus, per_clip=3, seconds=2, seed=1)
    assert (windows == again).all() and (windows != other).any()
    with pytest.raises(ValueError, match="dance1_subject1 is shorter than 10 s"):
        motion_sets.lafan1_windows(corpus)


# Split


def sides(corpus: Corpus, **arguments) -> tuple[set[str], set[str]]:
    train, held_out = motion_sets.split(corpus, **arguments)
    assert sorted((*train, *held_out)) == list(range(len(corpus)))
    return set(names_of(corpus, train)), set(names_of(corpus, held_out))


@pytest.mark.parametrize(
    "name", ["a_M", "a~2", "a_mirror", "a_M~3_mirror", "a~2_mirror", "a"]
)
def test_twins_have_one_base_name(name):
    assert base_name(name) == "a"


def test_added_clips_move_no_other(tmp_path):
    clips = [motion(f"walk_{i}") for i in range(24)]
    few, many = build(tmp_path / "few", clips[::2]), build(tmp_path / "many", clips)
    train, held_out = sides(few, share=0.3, seed=1)
    more_train, more_held_out = sides(many, share=0.3, seed=1)
    assert train < more_train and held_out < more_held_out


def test_twins_are_on_one_side(tmp_path):
    names = [f"{name}{end}" for name in "abcdefgh" for end in ("", "_M")]
    clips = [motion(name) for name in (*names, *"abc")]  # the last become ~2
    corpus = build(tmp_path / "c", clips).with_mirror()
    for share in (0.4, 3):
        train, held_out = sides(corpus, share=share)
        assert not set(map(base_name, train)) & set(map(base_name, held_out))


@given(st.integers(1, 39), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_exactly_so_many_clips_of_lowest_hash(efforts, count, seed):
    train, held_out = sides(efforts, share=count, seed=seed)
    assert len(held_out) == count
    highest = max(name_hash(name, seed) for name in held_out)
    assert highest < min(name_hash(name, seed) for name in train)


def test_fraction_is_met_on_average():
    held_out = [name_hash(f"clip_{i}", seed=0) < 0.2 for i in range(5000)]
    assert np.mean(held_out) == pytest.approx(0.2, abs=0.02)


def test_the_hash_never_changes():
    """Held-out clips of published runs must stay held out."""
    assert name_hash("walk1_subject1", 0) == 0.08469646242759876


def test_split_seed_matters(efforts):
    first, second = (sides(efforts, share=10, seed=s) for s in (0, 1))
    assert first != second


@pytest.mark.parametrize("share", [0.0, 1e-9, 40])
def test_a_split_needs_two_sides(efforts, share):
    with pytest.raises(ValueError, match="held"):
        motion_sets.split(efforts, share)


def test_corpora_hold_out_clips_together(tmp_path):
    """A small one may hold out none or all of its clips; no view is empty."""
    hashes = {f"clip_{i}": name_hash(f"clip_{i}", 0) for i in range(60)}
    low = [motion(name) for name, value in hashes.items() if value < 0.2]
    high = [motion(name) for name, value in hashes.items() if value >= 0.2]
    mixed = build(tmp_path / "mixed", [low[0], *high[:3]])
    none = build(tmp_path / "none", high[3:5])
    every = build(tmp_path / "all", low[1:3])
    trained_on, unseen = motion_sets.hold_out([mixed, none, every], 0.2)
    assert [len(view) for view in trained_on] == [3, 2]
    assert [len(view) for view in unseen] == [1, 2]
    assert unseen[0].names == [low[0].name] and unseen[1].names == every.names
    assert motion_sets.hold_out([none, every], 0) == ([none, every], [])
    with pytest.raises(ValueError, match="0.2, none of 2 clips would be held out"):
        motion_sets.hold_out([none], 0.2)
    with pytest.raises(ValueError, match="0.2, every one of 2 clips"):
        motion_sets.hold_out([every], 0.2)
    # A number is of each corpus, and leaves each something.
    assert [len(v) for v in motion_sets.hold_out([mixed, none], 1)[1]] == [1, 1]
    with pytest.raises(ValueError, match="2 of 2 clips would be held out"):
        motion_sets.hold_out([mixed, none], 2)
