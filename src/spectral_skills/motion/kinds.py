"""What a clip is called in words: from a sidecar file, or from its file name."""

import csv
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spectral_skills.motion.readers.assemble import TEXT_LENGTH, plain, sentences

TABLE = "metadata.csv"
_NAME_COLUMNS = ("name", "filename", "file_name", "move_name")
_TEXT_COLUMNS = (
    "text",
    *(f"content_natural_desc_{i}" for i in range(1, 5)),
    "content_short_description",
)


@dataclass(frozen=True)
class Description:
    """What a sidecar says about a clip; empty where it is silent."""

    text: str = ""
    source: str = ""
    licence: str = ""


class Sidecars:
    """Looks for NAME.txt beside a motion and metadata.csv there or one folder up."""

    def __init__(self):
        self._tables: dict[Path, dict[str, Description]] = {}
        self.problems: list[str] = []
        """Sidecars that could not be used, and why."""

    def describe(self, path: Path, name: str) -> Description:
        """The description of clip `name` that was read from `path`."""
        for folder in (path.parent, path.parent.parent):
            if (found := self._table(folder).get(_key(name))) is not None:
                break
        else:
            found = Description()
        text = self._note(path.parent, name) or found.text
        return Description(text, found.source, found.licence)

    def _note(self, folder: Path, name: str) -> str:
        # A name from inside a library may look like a path: it must not lead away.
        if Path(name).name != name:
            return ""
        try:
            text = (folder / f"{name}.txt").read_text("utf-8-sig", "replace")
        except OSError:
            return ""
        return sentences([text])

    def _table(self, folder: Path) -> dict[str, Description]:
        if folder not in self._tables:
            path = folder / TABLE
            self._tables[folder] = {}
            try:
                if path.is_file():
                    self._tables[folder] = read_table(path)
            except (OSError, ValueError, csv.Error) as error:
                self.problems.append(f"{path}: not used: {plain(error, 200)}")
        return self._tables[folder]


def read_table(path: Path) -> dict[str, Description]:
    """Rows of a metadata table by clip name; BONES-SEED's columns are known too."""
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        reader = csv.DictReader(file)
        columns = reader.fieldnames or []
        keys = [c for c in _NAME_COLUMNS if c in columns]
        texts = [c for c in _TEXT_COLUMNS if c in columns]
        if not keys or not texts:
            has = ", ".join(columns) or "none"
            raise ValueError(f"it needs the columns name and text, and has {has}")
        table = {}
        for row in reader:
            description = Description(
                text=sentences(dict.fromkeys(row[c] or "" for c in texts)),
                source=plain(row.get("source") or "", TEXT_LENGTH),
                licence=plain(
                    row.get("licence") or row.get("license") or "", TEXT_LENGTH
                ),
            )
            for key in keys:
                if row[key]:
                    table.setdefault(_key(row[key]), description)
    return table


def _key(name: str) -> str:
    """Table rows name clips with or without an ending or folders."""
    stem = name.replace("\\", "/").rsplit("/", 1)[-1]
    return re.sub(r"\.(csv|npz|pkl|joblib)$", "", stem)


_NOISE = {
    *("subject", "poses", "stageii", "retargeted", "amass", "bvh", "level"),
    *("filter", "smpl", "video", "motions", "raw", "mj", "dof", "hz", "fps", "g1"),
    *("mirror", "v"),
}


def text_from_name(name: str) -> str:
    """Words hidden in a file name: `fallAndGetUp1_subject4` is `fall and get up`."""
    name = re.sub(r"__A\d+", "", name)  # BONES-SEED: the actor
    name = re.sub(r"(?i)\d+[ _-]?(hz|fps)", "", name)
    name = re.sub(r"_M$", " mirrored", name)
    name = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    words = [w.lower() for w in re.findall(r"[^\W\d_]+", name)]
    kept = [w for w in words if w not in _NOISE and len(w) > 1]
    return " ".join(dict.fromkeys(kept)) or " ".join(words)


# What a clip's name tells: its kind, what it needs around it, whose twin it is.
#
# Names are read word by word: camelCase, digits and underscores separate words, and
# `jumps`, `jumped` and `jumping` are all `jump`. A name with several kinds has the
# first one of `_WORDS`: how the motion is special comes first, what the whole body
# does comes next, what only the arms do comes last.

_WORDS = {
    "injured": "injured injury inj limp hurt wounded hobble crippled painful",
    "dance": "dance waltz hiphop ballet salsa disco breakdance gangnam tango",
    "boxing": "boxing boxer jab uppercut punch kickboxing kickboxer",
    "fight": "fight karate combat attack sword fence fencing chop taekwondo judo "
    "kungfu martial wrestle duel",
    "fall": "fall fell stumble collapse faint trip",
    "crawl": "crawl creep",
    "kneel": "kneel knelt",
    "lie": "lie lying laying prone supine pushup situp plank roll somersault",
    "kick": "kick airkick sidekick",
    "jump": "jump hop leap vault backflip frontflip flip",
    "squat": "squat crouch crouchwalk lunge stoop",
    "sports": "sport soccer football basketball baseball tennis golf volleyball "
    "bowling throw shoot swim exercise workout skate",
    "carry": "carry lift crate box boxpick heavy pick put hold push pull",
    "sprint": "sprint",
    "run": "run ran jog dash",
    "walk": "walk stroll march stride strut sneak tiptoe sidestep sideway strafe "
    "shuffle step gait",
    "turn": "turn pivot spin rotate",
    "gesture": "gesture wave point clap greet greeting bow nod shrug salute talk "
    "look listen itch scratch rub yawn stretch reach drink eat sip phone cellphone "
    "read show triumph surrender confusion cheer pray think pour brush wipe hug",
    "balance": "balance singleleg",
    "idle": "idle stand still rest wait",
}
_WORDS_OF_KIND = {kind: frozenset(words.split()) for kind, words in _WORDS.items()}
OTHER = "other"
KINDS: tuple[str, ...] = (*_WORDS, OTHER)

_KINDS_OF_GROUP = {
    "locomotion": ("walk", "run", "sprint", "turn"),
    "gesture": ("gesture",),
    "dance": ("dance",),
    "jump or kick": ("jump", "kick"),
    "injured": ("injured",),
    "ground": ("fall", "crawl", "kneel", "lie"),
    "boxing": ("boxing",),
}
GROUPS: tuple[str, ...] = (*_KINDS_OF_GROUP, OTHER)
_GROUP_OF_KIND = {kind: g for g, kinds in _KINDS_OF_GROUP.items() for kind in kinds}


def kind(name: str, text: str = "") -> str:
    """The kind of a clip, one of KINDS; its text counts where its name is silent."""
    return _kind(text_from_name(name)) or _kind(text) or OTHER


def group(kind: str) -> str:
    """The coverage group of a kind, one of GROUPS."""
    return _GROUP_OF_KIND.get(kind, OTHER)


def _kind(text: str) -> str:
    words = re.findall("[a-z]+", text.lower())
    found = {form for word in words for form in _base_forms(word)}
    return next((k for k, known in _WORDS_OF_KIND.items() if known & found), "")


def _base_forms(word: str) -> Iterator[str]:
    """What the word may be an inflection of, among words that do not exist."""
    yield word
    for ending in ("s", "es", "ed", "er", "ing"):
        root = word.removesuffix(ending)
        if root != word and len(root) > 1:
            yield root
            yield root + "e"  # dancing
            if root[-1] == root[-2]:
                yield root[:-1]  # running


# Parts of `_word_word_`: an underscore is a border between words, so that `_table`
# is not found in `stable`, nor `_door` in `outdoor`, nor `_box_` in `boxing`. Listed
# is what carries, blocks or loads the body; props that can be mimed (a phone, a
# ball, a rope) are not.
ABSENT_OBJECTS: tuple[str, ...] = (
    # to sit, lie or ride on
    *("chair", "sofa", "couch", "_bench", "_stool", "_seat", "_sit_", "_sits_"),
    *("_sitting_", "_bed_", "_table", "_desk_", "bike_", "bicycle", "scooter"),
    *("_ride_", "_riding_", "_vehicle", "skateboard", "crutch"),
    # to climb, step on or go around
    *("ladder", "stair", "climb", "vault_", "platform", "_ledge_", "_edge_", "_ramp_"),
    *("_slope_", "_curb_", "terrain", "obstacle", "hurdle", "_wall_", "railing"),
    *("_step_on_", "_step_up_", "_step_down_", "stepdown", "_pull_up", "pullup"),
    *("_fall_from_", "_jump_over_", "_jump_off_", "_monkey_bar", "_treadmill"),
    # to lift, push or open
    *("crate", "_door", "cupboard", "drawer", "cabinet", "wardrobe", "fridge"),
    *("_box_", "_boxes_", "smallbox", "largebox", "boxpick", "suitcase", "barrel"),
    *("_cart_", "trolley", "clothesstand", "tripod", "floorlamp"),
)

SONIC_NAME_FILTER: tuple[str, ...] = (
    *("bed", "bike", "chair", "climb", "com_up_50cm", "sitting", "step_on", "seat"),
    *("table", "_sit_", "sit_", "ladder", "crutch", "_bed_", "_ride_", "scooter"),
    *("stepdown", "acrobatics_", "box_HSPU", "cartwheel", "50cm_box_", "on_box"),
    *("fall_from", "handstand_ff_", "on_1m", "form_box", "off_1m", "230m"),
    *("jump_over_obstacle_", "lift_crate_come_up_", "jump_to_shoulder_roll"),
    *("kozak_dance", "stair", "handstand", "box_jump", "monkey_jump", "safety_roll"),
    *("box_dips", "walking_on_edge", "push_obstacle"),
)
"""SONIC's list, as released: it made 129,785 of BONES-SEED's 142,220 clips."""

_SONIC_PARTS = tuple(part.lower() for part in SONIC_NAME_FILTER)


def needs_absent_object(name: str) -> bool:
    """Whether a clip's name speaks of things or ground that an empty scene lacks."""
    words = f"_{'_'.join(text_from_name(name).split())}_"
    return any(part in words for part in ABSENT_OBJECTS)


def passes_sonic_filter(name: str) -> bool:
    """Whether SONIC's training library would have the clip, by its name."""
    lower = name.lower()
    return not any(part in lower for part in _SONIC_PARTS)


def base_name(name: str) -> str:
    """The name without what marks twins of one motion.

    `_mirror` is our mirror image, `_M` that of BONES-SEED, `~2` a second clip of
    the same name.
    """
    return re.sub(r"(_mirror|_M|~\d+)+$", "", name)


def name_hash(name: str, seed: int) -> float:
    """A number in [0, 1) that depends on nothing but the base name and the seed."""
    key = f"{seed}/{base_name(name)}".encode()
    # 53 bits are what a float can tell apart below one.
    return (int.from_bytes(hashlib.blake2b(key, digest_size=8).digest()) >> 11) / 2**53


_LAFAN1_SUBJECTS = {
    **{"dance1": (1, 2, 3), "dance2": (1, 2, 3, 4, 5)},
    **{"fallAndGetUp1": (1, 4, 5), "fallAndGetUp2": (2, 3), "fallAndGetUp3": (1,)},
    **{"fight1": (2, 3, 5), "fightAndSports1": (1, 4), "jumps1": (1, 2, 5)},
    **{"run1": (2, 5), "run2": (1, 4), "sprint1": (2, 4)},
    **{"walk1": (1, 2, 5), "walk2": (1, 3, 4), "walk3": (1, 2, 3, 4, 5), "walk4": (1,)},
}
LAFAN1_CLIPS: tuple[str, ...] = tuple(
    f"{take}_subject{subject}"
    for take, subjects in _LAFAN1_SUBJECTS.items()
    for subject in subjects
)
"""Names of LAFAN1's 40 clips as retargeted to the G1."""
