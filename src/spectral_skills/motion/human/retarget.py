"""Human motion in, a corpus of the robot's out.

Every motion is read, fitted whole and measured by one worker; clips that come out bad
are refused with the reason. The corpus keeps the person beside the robot.
"""

import hashlib
import json
import re
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from spectral_skills import cache
from spectral_skills.motion.clip import Clip, ClipError
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.human import cmu_pack, sources
from spectral_skills.motion.human.conditions import HumanOptions
from spectral_skills.motion.human.fit import fit
from spectral_skills.motion.human.quality import judge, measure, pooled
from spectral_skills.motion.human.recording import Recording
from spectral_skills.motion.human.rows import HumanRows
from spectral_skills.motion.human.skeletons import load_map
from spectral_skills.motion.intake import (
    Intake,
    Made,
    Sidecars,
    Summary,
    build,
    key,
    stamp,
)
from spectral_skills.motion.readers.assemble import attempted
from spectral_skills.workers import one_torch_thread

_HEADER_BYTES = 1 << 16
_BVH_FRAMES = re.compile(rb"Frames:\s*(\d+)\s+Frame Time:\s*([\d.eE+-]+)", re.I)
_BYTES_A_FRAME = 500


def retarget(
    paths: list[Path],
    out: Path,
    *,
    text: Path | None = None,
    map: Path | None = None,
    fps: float | None = None,
    units: str | None = None,
    up: str | None = None,
    body_model: Path | None = None,
    balance: bool = False,
    workers: int | None = None,
) -> Summary:
    """Bring human motion onto the robot, as the corpus `out`, which is replaced.

    A killed run is continued. If nothing was usable, an older corpus at `out` stays.
    """
    if body_model is not None and not body_model.exists():
        raise FileNotFoundError(f"{body_model}: no such file or folder")
    mapping = None if map is None else load_map(map)
    model = None if body_model is None else str(body_model)
    options = HumanOptions(fps, units, up, mapping, model)
    inputs = {key(path, *_parts(path)): path for path in sources.find(paths)}
    if not inputs:
        return Summary()
    job = Intake(
        "retarget",
        asdict(options)
        | {"body_model": _state(body_model), "balance": balance}
        | {"text": _state(text), "code": code_hash()},
        partial(make, options=options, balance=balance),
        unit="frame",
        size=about_frames,
        human=True,
    )
    return build(out, job, inputs, _words(text, inputs), workers)


def code_hash() -> str:
    """Names the code that decides the motions: two versions of it are never mixed."""
    return cache.code_hash("motion/human/retarget.py")


def _state(file: Path | None) -> str:
    return "" if file is None else f"{file.resolve()}|{stamp(file)}"


def _parts(path: Path) -> list[Path]:
    """Files that a recording of a pack is made of."""
    return cmu_pack.files(path) if cmu_pack.is_clip(path) else []


def _words(table: Path | None, inputs: dict[str, Path]) -> Sidecars:
    """Where words come from; how much of it a table describes is told."""
    sidecars = Sidecars(table)
    names = [path.stem for path in inputs.values()]
    if table is not None:
        without = [name for name in names if not sidecars.knows(name)]
        known = f"{len(names) - len(without):,} of {len(names):,} motions"
        lack = f"; {without[0]!r} has no row of that name" if without else ""
        print(f"{table}: describes {known}{lack}", file=sys.stderr)
    return sidecars


def about_frames(path: Path) -> int:
    """About how many frames at 50 Hz a file will give, without reading all of it."""
    if cmu_pack.is_clip(path):
        return 1 + round(FPS * cmu_pack.seconds(path))
    try:
        with path.open("rb") as file:
            stated = _BVH_FRAMES.search(file.read(_HEADER_BYTES))
        if stated:
            seconds = int(stated[1]) * float(stated[2])
            return 1 + round(FPS * min(max(seconds, 0.0), 1e5))
        return 1 + path.stat().st_size // _BYTES_A_FRAME
    except (OSError, ValueError, OverflowError):
        return 1  # whoever reads it will say why


def make(
    path: Path, options: HumanOptions, balance: bool = False
) -> list[Made | ClipError]:
    """Clips of one file, and why others are refused. It does not raise."""
    found: list[Made | ClipError] = []
    for item in sources.read(path, options):
        if isinstance(item, ClipError):
            found.append(item)
            continue
        with one_torch_thread():
            found += attempted(partial(_made, item, balance), "not fitted")
    return found


def _made(person: Recording, balance: bool) -> list[Made]:
    """The robot's clip of a person; ClipError if it is not good enough."""
    found = fit(person, balance)
    clip = Clip.from_qpos(
        found.qpos,
        name=person.name,
        fps=float(FPS),
        text=person.text,
        source=person.source or _whose(person),
        licence=person.licence,
        notes=person.notes,
    )
    quality = measure(found)
    if refused := judge(quality):
        raise refused
    human = HumanRows(found.human, found.contacts, person.skeleton)
    about = {"quality": quality.to_json(), "person": fingerprint(person)}
    return [Made(clip, human, about)]


def _whose(person: Recording) -> str:
    known = person.skeleton != "other"
    return f"a person, {person.skeleton} skeleton" if known else "a person"


def fingerprint(person: Recording) -> str:
    """The same for recordings whose points are the same to the millimetre."""
    points = np.rint(1000 * person.points).astype("<i4")
    return hashlib.blake2b(points.tobytes(), digest_size=16).hexdigest()


def measured(corpus: Corpus) -> list[str]:
    """What the quality rows of a corpus say about all of it, a line each."""
    rows = [json.loads(corpus.entry(i).quality) for i in range(len(corpus))]
    mean = partial(pooled, rows)
    return [
        f"{mean('floor_share'):.2%} of frames are over 1 cm under the floor",
        f"{mean('planted_fast_share'):.2%} of planted feet are faster than 2 cm/s",
        f"{mean('self_share'):.2%} of frames have links over 1 cm inside each other",
        f"{mean('joint_acceleration_95'):.0f} rad/s^2: 95th percentile of the joints' "
        "accelerations, mean over clips",
        f"{mean('bone_error_deg'):.1f} degrees between limbs of robot and person",
    ]
