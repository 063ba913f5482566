"""`spectral demo`: embedded corpus, skill space, an ingest, in pictures and numbers."""

import csv
import io
from pathlib import Path

import numpy as np
from tqdm import tqdm

from spectral_skills.atomic import write_file
from spectral_skills.control.metrics import episodes
from spectral_skills.control.run import follow
from spectral_skills.motion.checks import measure_corpus
from spectral_skills.motion.clip import Clip
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.ingest import ingest
from spectral_skills.motion.synthetic.factors import (
    BODY,
    GESTURES,
    TRAVELS,
    factors_of,
)
from spectral_skills.plots import film, html
from spectral_skills.plots.corpus import sheet
from spectral_skills.plots.coverage import coverage
from spectral_skills.plots.direction_poses import draw_poses
from spectral_skills.plots.directions import all_ranks
from spectral_skills.plots.groups import groups
from spectral_skills.plots.plausibility import recorded_table, summarise
from spectral_skills.plots.skill_map import draw_map
from spectral_skills.robot.render import backend
from spectral_skills.skill.codes import SkillBank
from spectral_skills.skill.model import SkillModel
from spectral_skills.spectral.direction_file import Directions
from spectral_skills.tracking.policy import Controller

GRIDS: dict[str, tuple[str, ...]] = {
    "Standing and travelling": ("", *TRAVELS),
    "What the body does": BODY,
    "What the arms do": GESTURES,
    "Several at once": (
        *("forward+raise", "forward+spread", "backward+carry", "turn+punch"),
        *("sideways+reach", "crouch+carry", "forward+squat"),
    ),
}
"""Headings and the factors of each row of pictures below them."""
SHEETS = ("forward", "jog", "forward+raise")
FOLLOWED = ("forward+spread", "jog", "squat")
"""Motions that the controller is shown following."""
_READ = ("forward", "squat", "turn", "wave")
_TOLD = 10
_PANELS = 8
_BUSY = 0.3
"""Joint speed, rad/s, above which a clip does more than stand."""


def build(folder: Path, out: Path) -> Path:
    """Draw and measure a generated corpus, ingest a few files; returns the page."""
    corpus, pictures = Corpus.open(folder), out / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    coverage(corpus, pictures / "coverage.png")
    parts = [
        html.paragraph(
            f"{len(corpus):,} motions of a Unitree G1, {corpus.hours:.2f} hours, "
            "generated on this machine. Nothing was downloaded.",
            "lead",
        ),
        html.figure("pictures/coverage.png", _COVERAGE_CAPTION),
        *_grids(corpus, pictures),
        *_sheets(corpus, pictures),
        html.heading("In words"),
        html.paragraph("Every motion says in several ways what it does."),
        _sentences(corpus),
        *_skills(corpus, pictures),
        *_controller(corpus, pictures),
        html.heading("How plausible it is"),
        html.paragraph(_PLAUSIBILITY),
        html.table(*_plausibility(corpus), "numbers"),
        html.heading("Your own motions"),
        html.paragraph(
            "Files people have are read into a corpus like this one, whatever their "
            "format. Here, some good ones and two that are broken."
        ),
        html.terminal(_ingest(corpus, out)),
        html.paragraph(f"Pictures drawn by: {backend()}."),
    ]
    page = out / "index.html"
    html.write_page(page, "Spectral Skills: the embedded corpus", parts)
    return page


_COVERAGE_CAPTION = (
    "Measured from the motions. Pairs with a ring are left out on purpose: whoever "
    "composes them does what the data has no example of."
)
_PLAUSIBILITY = (
    "Forces are computed backwards from each motion with MuJoCo. What the floor cannot "
    "give at the soles is unexplained; a real motion has none of it. The zero-moment "
    "point (ZMP) is where the floor's force acts: in balance it is under the soles."
)


_SKILLS = (
    "An encoder turns ten poses into 64 numbers, a skill. It was trained to tell what "
    "follows, not what it saw."
)
_DIRECTIONS = (
    "What follows is predicted by a map that is affine in the skill, so a step in "
    "skill space changes the prediction by the same amount whatever the skill. These "
    "are predictions, on a standing robot."
)
_CONTROLLER = (
    "One controller executes every skill. It sees its own senses and the skill of the "
    "next tenths of a second, and nothing else of the motion it follows. Simulated "
    "here by MuJoCo on the CPU; the reference is blue."
)


def example(corpus: Corpus, wanted: str) -> int | None:
    """A clip with just these factors, if possible one that begins standing."""
    factors = frozenset(wanted.split("+")) - {""}
    own = [i for i, name in enumerate(corpus.names) if factors_of(name) == factors]
    starts = [i for i in own if _first_speed(corpus.qpos(i)) < 0.05]
    return next(iter(starts or own), None)


def _first_speed(qpos: np.ndarray) -> float:
    return float(np.linalg.norm(qpos[1, :2] - qpos[0, :2])) * FPS


def action(qpos: np.ndarray) -> np.ndarray:
    """The part of a clip in which something moves: from the first to the last of it."""
    speed = np.abs(np.diff(qpos[:, 7:], axis=0)).max(axis=1) * FPS
    busy = np.flatnonzero(speed > _BUSY)
    return qpos[busy[0] : busy[-1] + 2] if len(busy) else qpos


def _grids(corpus: Corpus, pictures: Path) -> list[str]:
    parts = []
    for number, (heading, wanted) in enumerate(
        tqdm(GRIDS.items(), desc="drawing", unit="picture", disable=None)
    ):
        chosen = [i for i in (example(corpus, w) for w in wanted) if i is not None]
        if not chosen:
            continue
        picture = f"motions_{number}.png"
        motions = [
            film.Motion.spread(action(corpus.qpos(i)), _PANELS, _sentence(corpus, i))
            for i in chosen
        ]
        film.strip(pictures / picture, motions, tall_px=238, times=False)
        parts.append(html.heading(heading))
        caption = f"{heading}, from left to right in time, in the clips' own words."
        parts.append(html.figure(f"pictures/{picture}", caption))
    return parts


def _sheets(corpus: Corpus, pictures: Path) -> list[str]:
    chosen = [i for i in (example(corpus, w) for w in SHEETS) if i is not None]
    parts = [html.heading("Clips in full")]
    for index in chosen:
        name = corpus.names[index]
        sheet(corpus, index, pictures / f"{name}.png")
        parts.append(html.figure(f"pictures/{name}.png", _sentence(corpus, index)))
    return parts


def _skills(corpus: Corpus, pictures: Path) -> list[str]:
    """The released skill space: where clips lie, and what directions do."""
    model = SkillModel.load("base")
    directions = Directions.load("base")
    directions.check(model.encoder.fingerprint())
    draw_map(corpus, SkillBank.build(model.encoder, corpus), pictures / "skills.png")
    all_ranks(directions, pictures / "directions.png")
    draw_poses(directions, pictures / "poses.png")
    return [
        html.heading("The skill space"),
        html.paragraph(_SKILLS),
        html.figure("pictures/skills.png", "Clips as the released encoder sees them."),
        html.heading("Directions that add"),
        html.paragraph(_DIRECTIONS),
        html.figure("pictures/poses.png", "Each row a direction, from minus to plus."),
        html.figure("pictures/directions.png", "All 64, and what each would move."),
    ]


def _controller(corpus: Corpus, pictures: Path) -> list[str]:
    """The released controller at work."""
    chosen = [i for i in (example(corpus, w) for w in FOLLOWED) if i is not None]
    if not chosen:
        return []
    encoder = SkillModel.load("base").encoder
    record = follow(Controller.load("base"), encoder, corpus.select(np.array(chosen)))
    done = episodes(record)
    parts = [html.heading("The controller"), html.paragraph(_CONTROLLER)]
    for number, index in enumerate(chosen):
        picture = f"followed_{number}.png"
        film.write_strip(record, pictures / picture, number)
        told = "tracked to the end" if done.success[number] else "fell behind"
        error = f"{done.local_mm[number]:.0f} mm from the reference's pose"
        caption = f"{_sentence(corpus, index)}: {told}, {error}."
        parts.append(html.figure(f"pictures/{picture}", caption))
    return parts


def _sentence(corpus: Corpus, index: int) -> str:
    """The shortest of a clip's sentences."""
    return min(corpus.entry(index).text.split("\n"), key=len)


def _sentences(corpus: Corpus) -> str:
    """Texts of clips spread over the corpus."""
    count = min(_TOLD, len(corpus))
    chosen = np.linspace(0, len(corpus) - 1, count).round().astype(int)
    entries = [corpus.entry(i) for i in chosen.tolist()]
    rows = [(e.name, e.text.replace("\n", " / ")) for e in entries]
    return html.table(("clip", "what it says it does"), rows)


def _plausibility(corpus: Corpus) -> tuple[list[str], list[list[str]]]:
    return recorded_table(summarise(measure_corpus(corpus), groups(corpus)))


def _ingest(corpus: Corpus, out: Path) -> str:
    """Read files of two formats, two of them broken; what the terminal says."""
    chosen = [i for i in (example(corpus, w) for w in _READ) if i is not None]
    _write_inputs([corpus.clip(i) for i in chosen], out / "motions")
    summary = ingest([out / "motions"], out / "corpus", workers=1)
    return "\n".join([*map(str, summary.refusals), "", *summary.lines()])


def _write_inputs(clips: list[Clip], folder: Path) -> None:
    """Write motions in two formats, and two files that are broken."""
    folder.mkdir(parents=True, exist_ok=True)
    about = io.StringIO()
    table = csv.writer(about, lineterminator="\n")
    table.writerow(("name", "text", "source", "licence"))
    for index, clip in enumerate(clips):
        if index % 2:
            name = f"{clip.name}_50hz"
            _write_csv(clip, folder / f"{name}.csv")
            # A CSV cannot say what it is: a table beside it does.
            text = clip.text.split("\n")[0]
            table.writerow((name, text, clip.source, clip.licence))
        else:
            _write_npz(clip, folder / f"{clip.name}.npz")
    write_file(folder / "metadata.csv", about.getvalue())
    jump = clips[0].qpos()
    jump[150:, 0] += 3.0
    np.savez(folder / "teleport.npz", qpos=jump, fps=clips[0].fps)
    write_file(folder / "not_a_motion.npz", "this is a text file\n")


def _write_npz(clip: Clip, path: Path) -> None:
    np.savez(
        path,
        qpos=clip.qpos(),
        fps=clip.fps,
        text=clip.text,
        source=clip.source,
        licence=clip.licence,
    )


def _write_csv(clip: Clip, path: Path) -> None:
    """Unitree's layout: no header, the quaternion's w last."""
    xyzw = clip.root_quaternion[:, [1, 2, 3, 0]]
    rows = np.concatenate((clip.root_position, xyzw, clip.joints), axis=1)
    np.savetxt(path, rows, delimiter=",", fmt="%.6f")
