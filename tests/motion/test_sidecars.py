"""Where a clip's words come from."""

import pytest

from spectral_skills.motion.intake import Description, Sidecars, read_table
from spectral_skills.motion.motion_sets import text_from_name


@pytest.fixture
def folder(tmp_path):
    """A folder inside a folder, as motion libraries come."""
    inner = tmp_path / "library" / "walks"
    inner.mkdir(parents=True)
    return inner


def describe(folder, name="walk", ending="csv") -> Description:
    return Sidecars().describe(folder / f"{name}.{ending}", name)


def test_nothing_is_an_empty_description(folder):
    """No sidecar, no words."""
    assert describe(folder) == Description()


def test_text_file(folder):
    """NAME.txt: one sentence a line, blank lines dropped."""
    (folder / "walk.txt").write_text("a man walks \n\n  slowly\n")
    assert describe(folder).text == "a man walks\nslowly"
    assert describe(folder, "run") == Description()


def test_text_file_with_byte_order_mark(folder):
    """Windows editors put a BOM there; it is no part of the sentence."""
    (folder / "walk.txt").write_bytes("\ufeffein Mann läuft".encode())
    assert describe(folder).text == "ein Mann läuft"


def test_table_here_or_one_up(folder):
    """metadata.csv beside the motion, or in the folder above; the nearer wins."""
    table = "name,text,source,licence\nwalk,{},me,CC0\n"
    (folder.parent / "metadata.csv").write_text(table.format("far"))
    assert describe(folder) == Description("far", "me", "CC0")
    (folder / "metadata.csv").write_text(table.format("near"))
    assert describe(folder).text == "near"
    (folder.parent.parent / "metadata.csv").write_text(table.format("too far"))
    assert describe(folder, "run") == Description()


def test_nearer_table_without_the_clip_falls_through(folder):
    """A clip missing in the near table may be in the far one."""
    (folder.parent / "metadata.csv").write_text("name,text\nwalk,far\n")
    (folder / "metadata.csv").write_text("name,text\nrun,near\n")
    assert describe(folder).text == "far"


def test_text_file_goes_before_table(folder):
    """Its words win; source and licence of the table stay."""
    (folder / "metadata.csv").write_text("name,text,source,license\nwalk,a,me,MIT\n")
    (folder / "walk.txt").write_text("b")
    assert describe(folder) == Description("b", "me", "MIT")


def test_bones_columns(folder):
    """BONES-SEED: several sentences per clip, repeated ones once."""
    path = folder / "metadata.csv"
    path.write_text(
        "move_name,filename,content_natural_desc_1,content_natural_desc_2,"
        "content_short_description,other\n"
        'jump,jump_001__A057,"He jumps, twice.",He jumps high.,jump,x\n'
        "hop,hop_001__A057,hop,,hop,x\n"
    )
    table = read_table(path)
    sentences = "He jumps, twice.\nHe jumps high.\njump"
    assert table["jump_001__A057"].text == sentences
    assert table["jump"].text == sentences
    assert table["hop_001__A057"].text == "hop"


@pytest.mark.parametrize(
    "written", ["walk", "walk.csv", "walk.npz", "sub/dir/walk.pkl", "sub\\walk.csv"]
)
def test_names_with_endings_and_folders(folder, written):
    """Tables name clips by file, path or plain name."""
    (folder / "metadata.csv").write_text(f"filename,text\n{written},words\n")
    assert describe(folder).text == "words"


def test_table_with_byte_order_mark_and_other_line_ends(folder):
    """As spreadsheets save it."""
    data = "\ufeffname,text\r\nwalk,läuft\r\n".encode()
    (folder / "metadata.csv").write_bytes(data)
    assert describe(folder).text == "läuft"


def test_short_rows_are_tolerated(folder):
    """A row that ends early has no words."""
    (folder / "metadata.csv").write_text("name,text,source\nwalk\nrun,runs\n")
    assert describe(folder) == Description()
    assert describe(folder, "run").text == "runs"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            "id,words\nwalk,walks\n",
            "needs the columns name and text, and has id, words",
        ),
        ("", "has none"),
        ("name,text\nwalk," + "x" * 200_000, "field larger than field limit"),
    ],
)
def test_a_table_that_cannot_be_used_costs_only_its_words(folder, content, reason):
    """It is named with the reason, once; the clip is described by other means."""
    (folder / "metadata.csv").write_text(content)
    sidecars = Sidecars()
    for _ in range(2):
        assert sidecars.describe(folder / "walk.csv", "walk") == Description()
    (problem,) = sidecars.problems
    assert "metadata.csv: not used: " in problem and reason in problem


def test_a_name_that_is_a_path_leads_nowhere(folder):
    """A library's key must not pull other files in, nor break the run."""
    (folder / "secret.txt").write_text("secret")
    for name in (str(folder / "secret"), "../secret", "a/b", "n" * 300):
        assert describe(folder, name) == Description()


def test_words_are_safe_to_print(folder):
    """No control characters reach the terminal."""
    (folder / "walk.txt").write_text("\033[31mred\nblue\x07\n")
    assert describe(folder).text == "[31mred\nblue"


def test_letters_beyond_ascii_stay():
    """And a frame rate is no word."""
    assert text_from_name("wälk_über_60hz") == "wälk über"


def test_tables_are_read_once(folder):
    """Thousands of clips share a table."""
    path = folder / "metadata.csv"
    path.write_text("name,text\nwalk,first\n")
    sidecars = Sidecars()
    sidecars.describe(folder / "walk.csv", "walk")
    path.write_text("name,text\nwalk,second\n")
    assert sidecars.describe(folder / "walk.csv", "walk").text == "first"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fallAndGetUp1_subject4", "fall and get up"),
        ("walk1_subject1", "walk"),
        ("dance2_subject3", "dance"),
        ("jump_and_land_heavy_001__A057", "jump and land heavy"),
        ("jump_and_land_heavy_001__A057_M", "jump and land heavy mirrored"),
        ("B12_-__Walk_turn_right_stageii", "walk turn right"),
        ("walk_50hz_g1", "walk"),
        ("g1", "g1"),
        ("0001", "0001"),
        ("35_22", "35 22"),
        ("cmu_35_22", "cmu 35 22"),
        ("at500m", "at500m"),
    ],
)
def test_words_of_a_name(name, words):
    """Digits, actors and file-format noise go; words stay, else the whole name."""
    assert text_from_name(name) == words


def test_rows_of_the_cmu_index(folder):
    """Files have the number of their row at the end; a date is no such number."""
    table = folder / "index.csv"
    table.write_text("name,text\n35_22,runs\n11_05,walks\n")
    sidecars = Sidecars(table)
    for name, words in (
        ("35_22", "runs"),
        ("cmu_35_22", "runs"),
        ("Subject35_22", "runs"),
        ("studio_2024_11_05", ""),
        ("35_22_take", ""),
    ):
        assert sidecars.describe(folder / f"{name}.bvh", name).text == words
        assert sidecars.knows(name) == bool(words)


def test_a_long_licence_is_kept_whole(folder):
    """A licence cut short would be another licence."""
    licence = "CC BY 4.0; " + "please cite everybody; " * 20
    (folder / "metadata.csv").write_text(f'name,text,licence\nwalk,walks,"{licence}"\n')
    assert describe(folder).licence == licence.strip()
