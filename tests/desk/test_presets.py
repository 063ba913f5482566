"""Presets: the desk as it was, or nothing changed and one clear message."""

import json

import pytest

from spectral_skills.control.steering import RAMP_STEPS
from spectral_skills.desk.engine import Engine
from spectral_skills.desk.files import Keeper, Preset, safe_stem

ARM = "right_arm"


@pytest.fixture(scope="module")
def engine(bundle) -> Engine:
    return Engine(bundle)


@pytest.fixture
def mixed(engine) -> Engine:
    """A desk that is not as it was at first."""
    Preset(1, engine.bundle.manifest.encoder, "jog", "squat").apply(engine)
    engine.mixer.move(ARM, 1.75)
    engine.mixer.ramp(ARM, 50)
    engine.mixer.hear("turn", mute=True)
    engine.cross("b")
    engine.fade(20)
    engine.loop(False)
    return engine


def test_a_desk_is_as_it_was(mixed, tmp_path):
    """Faders, ramps, mutes, decks, fade and loop; unused faders are omitted."""
    path = tmp_path / "mine.json"
    Preset.of(mixed).save(path)
    stored = json.loads(path.read_text())
    assert len(stored["strips"]) == 2
    mixed.mixer.release()
    mixed.mixer.move("speed", 3.0)
    mixed.cross("a")
    Preset.load(path, mixed.bundle).apply(mixed)
    arm = mixed.mixer.channel(ARM)
    assert (arm.position, arm.fader.ramp) == (1.75, 50)
    assert (
        mixed.mixer.channel("turn").mute and not mixed.mixer.channel("speed").position
    )
    assert mixed.mixer.channel("speed").fader.ramp == RAMP_STEPS
    assert mixed.mixer.playing == "squat" and mixed.decks.live == "b"
    assert mixed.decks.fade == 20 and mixed.mixer.loop is False


def strip(**values):
    def change(stored):
        name = next(iter(stored["strips"]))
        stored["strips"][name] |= values

    return change


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda s: s.update(encoder="other"), "made for the encoder other"),
        (lambda s: s.update(a="fly"), "no base 'fly' here; there are"),
        (lambda s: s.update(fade=31), "must be 2 to 30"),
        (lambda s: s.update(version=2), "version 2"),
        (lambda s: s.update(live="c"), "live"),
        (lambda s: s.update(colour="red"), "unknown key 'colour'"),
        (lambda s: s.pop("a"), "missing key 'a'"),
        (lambda s: s["strips"].update(sideways={}), "no direction 'sideways'"),
        (strip(position=float("nan")), "nan, must be within"),
        (strip(position=1e9), "must be within"),
        (strip(position="up"), "expected float"),
        (strip(ramp=0), "ramp of 0 steps"),
        (strip(ramp=10**9), "ramp of 1000000000"),
        (strip(mute="yes"), "expected bool"),
    ],
)
def test_a_wrong_preset_changes_nothing(mixed, tmp_path, wrong, message):
    """And says what is wrong, with the file's name."""
    before = Preset.of(mixed)
    path = tmp_path / "wrong.json"
    before.save(path)
    stored = json.loads(path.read_text())
    wrong(stored)
    path.write_text(json.dumps(stored))
    said: list[str] = []
    Keeper(mixed, tmp_path, said.append).load_preset("wrong")
    mixed.do_posted()
    assert "wrong.json" in said[0] and message in said[0] and len(said) == 1
    assert Preset.of(mixed) == before


@pytest.mark.parametrize("text", ["", "[]", "{", "7", "[" * 5000, "\x00"])
def test_what_is_no_preset_is_told(mixed, tmp_path, text):
    path = tmp_path / "none.json"
    path.write_text(text)
    said: list[str] = []
    keeper = Keeper(mixed, tmp_path, said.append)
    keeper.load_preset("none")
    path.write_bytes(b"\xff\xfe\x00")
    keeper.load_preset("none")
    keeper.load_preset("not there")
    assert len(said) == 3 and all("Nothing was changed" in one for one in said)


@pytest.mark.parametrize(
    ("typed", "stem"),
    [
        ("my take", "my-take"),
        ("../../x", "x"),
        ("/etc/passwd", "etc-passwd"),
        ("..\\..\\x", "x"),
        ("C:\\x", "C-x"),
        ("", "untitled"),
        ("...", "untitled"),
        ("-", "untitled"),
        ("a\x00b", "a-b"),
        (".hidden", "hidden"),
        ("x" * 999, "x" * 60),
        ("NUL", "NUL-file"),
        ("com1", "com1-file"),
        ("arm.json", "arm-json"),
        ("ärm ↑", "rm"),
        ("$(rm)", "rm"),
    ],
)
def test_file_names_stay_in_the_folder(engine, tmp_path, typed, stem):
    """Whatever is typed is one file of the run folder."""
    assert safe_stem(typed) == stem
    path = Keeper(engine, tmp_path, print).file(typed, ".json")
    assert path.resolve().parent == tmp_path.resolve()


def test_files_are_kept_and_numbered(mixed, tmp_path):
    """Presets are replaced, takes are not; takes bring their automation along."""
    said: list[str] = []
    keeper = Keeper(mixed, tmp_path / "new", said.append)
    for _ in range(2):
        keeper.save_preset("../mine")
        mixed.do_posted()
    assert keeper.presets == ("mine",)
    (tmp_path / "take.npz").touch()
    keeper = Keeper(mixed, tmp_path, said.append)
    assert keeper.free("take", ".npz").name == "take-2.npz"
    (tmp_path / "a-file").touch()
    with pytest.raises(ValueError, match="name a folder"):
        Keeper(mixed, tmp_path / "a-file", said.append)
