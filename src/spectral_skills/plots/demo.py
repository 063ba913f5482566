"""`spectral demo`: the embedded corpus, the skill space and an ingest on one page."""

import csv
import io
import tomllib
from pathlib import Path

import numpy as np
from tqdm import tqdm

from spectral_skills.atomic import write_file
from spectral_skills.control.metrics import episodes
from spectral_skills.control.run import follow
from spectral_skills.experiments.corpus_check import groups, summarise
from spectral_skills.models import Models
from spectral_skills.motion.checks import measure_corpus
from spectral_skills.motion.clip import Clip
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.ingest import ingest
from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.plots import film, page
from spectral_skills.plots.corpus import clip_sheet, recorded_table
from spectral_skills.plots.coverage import draw_coverage
from spectral_skills.plots.page import Part, Section, picture, text
from spectral_skills.plots.skills import all_ranks, draw_map, draw_poses
from spectral_skills.robot.render import backend
from spectral_skills.skill.encoder import SkillBank

_DATA = tomllib.loads(Path(__file__).with_name("demo.toml").read_text())
GRIDS, SHEETS, FOLLOWED = _DATA["grids"], _DATA["sheets"], _DATA["followed"]
"""Factors of the motions in rows of pictures, in full, and followed by a robot."""
PANELS = 8
_SENTENCES = 10
_BUSY = 0.3
"""Joint speed, rad/s, above which a clip does more than stand."""


def build(folder: Path, out: Path) -> Path:
    """Draw and measure a generated corpus, ingest a few files; returns the page."""
    corpus, pictures = Corpus.open(folder), out / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    draw_coverage(corpus, pictures / "coverage.png")
    lead = f"{len(corpus):,} motions of a Unitree G1, {corpus.hours:.2f} hours, "
    lead += "generated on this machine. Nothing was downloaded."
    measured = summarise(measure_corpus(corpus), groups(corpus))
    named = {
        **_grids(corpus, pictures),
        "Clips in full": _sheets(corpus, pictures),
        "In words": [
            text("Every motion has several descriptions."),
            page.cells(_sentences(corpus)),
        ],
        **_skills(corpus, pictures),
        **_controller(corpus, pictures),
        "How plausible it is": [
            _text("plausibility"),
            page.cells(recorded_table(measured), "numbers"),
        ],
        "Your own motions": [
            _text("ingest"),
            page.terminal(_ingest(corpus, out)),
            text(f"Pictures drawn by: {backend()}."),
        ],
    }
    parts = enumerate(named.items())
    sections = [Section(title, f"part-{i}", own) for i, (title, own) in parts]
    opening = [picture("pictures/coverage.png", _DATA["text"]["coverage"])]
    path = out / "index.html"
    page.write(path, "Spectral Skills: the embedded corpus", lead, sections, opening)
    return path


def _text(name: str) -> Part:
    return text(_DATA["text"][name])


def example(corpus: Corpus, wanted: str) -> int | None:
    """A clip with exactly these factors, if possible one that begins standing."""
    factors = frozenset(wanted.split("+")) - {""}
    own = [i for i, name in enumerate(corpus.names) if factors_of(name) == factors]

    def first_speed(index: int) -> float:
        rows = corpus.qpos(index)[:2, :2]
        return float(np.linalg.norm(rows[1] - rows[0])) * FPS

    return next((i for i in own if first_speed(i) < 0.05), own[0] if own else None)


def _examples(corpus: Corpus, wanted: list[str]) -> list[int]:
    return [i for i in (example(corpus, w) for w in wanted) if i is not None]


def _active(qpos: np.ndarray) -> np.ndarray:
    """The part of a clip from its first to its last movement of a joint."""
    speed = np.abs(np.diff(qpos[:, 7:], axis=0)).max(axis=1) * FPS
    busy = np.flatnonzero(speed > _BUSY)
    return qpos[busy[0] : busy[-1] + 2] if len(busy) else qpos


def _grids(corpus: Corpus, pictures: Path) -> dict[str, list[Part]]:
    found = {}
    bar = tqdm(GRIDS.items(), desc="drawing", unit="picture", disable=None)
    for number, (heading, wanted) in enumerate(bar):
        motions = [
            film.Still.spread(_active(corpus.qpos(i)), PANELS, _sentence(corpus, i))
            for i in _examples(corpus, wanted)
        ]
        if motions:
            name = f"motions_{number}.png"
            film.strip(pictures / name, motions, tall_px=238, times=False)
            caption = f"{heading}, from left to right in time, in the clips' own words."
            found[heading] = [picture(f"pictures/{name}", caption)]
    return found


def _sheets(corpus: Corpus, pictures: Path) -> list[Part]:
    parts = []
    for index in _examples(corpus, SHEETS):
        name = f"{corpus.names[index]}.png"
        clip_sheet(corpus, index, pictures / name)
        parts.append(picture(f"pictures/{name}", _sentence(corpus, index)))
    return parts


def _skills(corpus: Corpus, pictures: Path) -> dict[str, list[Part]]:
    """The released skill space: where clips lie, and the effects of directions."""
    models = Models.load(directions="base")
    bank = SkillBank.build(models.skill_encoder, corpus)
    draw_map(corpus, bank, pictures / "skills.png")
    all_ranks(models.known_directions, pictures / "directions.png")
    draw_poses(models.known_directions, pictures / "poses.png")
    caption = "Clips as the released encoder sees them."
    rows = "Each row is a direction, from minus to plus."
    ranks = "All 64, and the predicted effect of each."
    return {
        "The skill space": [_text("skills"), picture("pictures/skills.png", caption)],
        "Directions that add": [
            _text("directions"),
            picture("pictures/poses.png", rows),
            picture("pictures/directions.png", ranks),
        ],
    }


def _controller(corpus: Corpus, pictures: Path) -> dict[str, list[Part]]:
    """The released controller at work."""
    chosen = _examples(corpus, FOLLOWED)
    if not chosen:
        return {}
    models, clips = Models.load(), corpus.select(np.array(chosen))
    record = follow(models.controller, models.skill_encoder, clips)
    done = episodes(record)
    parts = [_text("controller")]
    for number, index in enumerate(chosen):
        name = f"followed_{number}.png"
        film.write_strip(record, pictures / name, number)
        outcome = "tracked to the end" if done.success[number] else "fell behind"
        error = f"{done.local_mm[number]:.0f} mm from the reference's pose"
        caption = f"{_sentence(corpus, index)}: {outcome}, {error}."
        parts.append(picture(f"pictures/{name}", caption))
    return {"The controller": parts}


def _sentence(corpus: Corpus, index: int) -> str:
    """The shortest of a clip's sentences."""
    return min(corpus.entry(index).text.split("\n"), key=len)


def _sentences(corpus: Corpus) -> list[tuple[str, str]]:
    """Texts of clips spread over the corpus."""
    count = min(_SENTENCES, len(corpus))
    chosen = np.linspace(0, len(corpus) - 1, count).round().astype(int)
    entries = [corpus.entry(i) for i in chosen.tolist()]
    rows = [(entry.name, entry.text.replace("\n", " / ")) for entry in entries]
    return [("clip", "its description"), *rows]


def _ingest(corpus: Corpus, out: Path) -> str:
    """Read files of two formats, two of them broken; gives what the terminal shows."""
    folder, about = out / "motions", io.StringIO()
    clips = [corpus.clip(i) for i in _examples(corpus, _DATA["ingested"])]
    folder.mkdir(parents=True, exist_ok=True)
    table = csv.writer(about, lineterminator="\n")
    table.writerow(("name", "text", "source", "licence"))
    for index, clip in enumerate(clips):
        if index % 2:
            _write_csv(clip, folder / f"{clip.name}_50hz.csv")
            # A CSV cannot describe itself: a table beside it does.
            words = clip.text.split("\n")[0]
            table.writerow((f"{clip.name}_50hz", words, clip.source, clip.licence))
        else:
            names = ("fps", "text", "source", "licence")
            facts = {name: getattr(clip, name) for name in names}
            np.savez(folder / f"{clip.name}.npz", qpos=clip.qpos(), **facts)
    write_file(folder / "metadata.csv", about.getvalue())
    jump = clips[0].qpos()
    jump[150:, 0] += 3.0
    np.savez(folder / "teleport.npz", qpos=jump, fps=clips[0].fps)
    write_file(folder / "not_a_motion.npz", "this is a text file\n")
    summary = ingest([folder], out / "corpus", workers=1)
    return "\n".join([*map(str, summary.refusals), "", *summary.lines()])


def _write_csv(clip: Clip, path: Path) -> None:
    """Write Unitree's layout: no header, the quaternion's w last."""
    xyzw = clip.root_quaternion[:, [1, 2, 3, 0]]
    rows = np.concatenate((clip.root_position, xyzw, clip.joints), axis=1)
    np.savetxt(path, rows, delimiter=",", fmt="%.6f")
