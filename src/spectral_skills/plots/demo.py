"""The page of `spectral demo`: a generated corpus, its skills and the controller."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from spectral_skills.atomic import write_file
from spectral_skills.config import read_table
from spectral_skills.control.metrics import episodes
from spectral_skills.control.run import follow
from spectral_skills.experiments.corpus_check import groups, summarise
from spectral_skills.models import Models
from spectral_skills.motion.checks import measure_corpus
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.ingest import ingest
from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.plots import film
from spectral_skills.plots.corpus import clip_sheet, group_table
from spectral_skills.plots.coverage import draw_coverage
from spectral_skills.plots.page import Part, Section, cells, picture, text, write
from spectral_skills.plots.skills import all_ranks, draw_map, draw_poses
from spectral_skills.robot.render import backend
from spectral_skills.skill.encoder import SkillBank

_DATA = read_table(__file__, "page.toml")
_TEXTS = _DATA["text"]
GRIDS, SHEETS, FOLLOWED = _DATA["grids"], _DATA["sheets"], _DATA["followed"]
"""Factors of the motions in rows of pictures, in full, and followed by a robot."""
PANELS = 8
_SENTENCES = 10
_BUSY = 0.3
"""Joint speed, rad/s, above which a clip does more than stand."""


def demo_page(folder: Path, out: Path) -> Path:
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
        "In words": [text(_TEXTS["words"]), cells(_sentences(corpus))],
        **_skills(corpus, pictures),
        **_controller(corpus, pictures),
        "How plausible it is": [
            text(_TEXTS["plausibility"]),
            cells(group_table(measured), "numbers"),
        ],
        "Your own motions": [
            text(_TEXTS["ingest"]),
            {"kind": "terminal", "text": _ingest(corpus, out)},
            text(f"Pictures drawn by: {backend()}."),
        ],
    }
    parts = enumerate(named.items())
    sections = [Section(title, f"part-{i}", own) for i, (title, own) in parts]
    opening = [picture("pictures/coverage.png", _TEXTS["coverage"])]
    title = "Spectral Skills: the embedded corpus"
    given = {"title": title, "lead": lead, "sections": sections, "opening": opening}
    write(out / "index.html", **given)
    return out / "index.html"


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
    for place, (heading, wanted) in enumerate(bar):
        motions = [
            film.Still.spread(_active(corpus.qpos(i)), PANELS, _sentence(corpus, i))
            for i in _examples(corpus, wanted)
        ]
        if motions:
            name = f"motions_{place}.png"
            film.strip(pictures / name, motions)
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
    return {
        "The skill space": [
            text(_TEXTS["skills"]),
            picture("pictures/skills.png", "Clips as the released encoder sees them."),
        ],
        "Directions that add": [
            text(_TEXTS["directions"]),
            picture("pictures/poses.png", _TEXTS["poses"]),
            picture("pictures/directions.png", _TEXTS["ranks"]),
        ],
    }


def _controller(corpus: Corpus, pictures: Path) -> dict[str, list[Part]]:
    chosen = _examples(corpus, FOLLOWED)
    if not chosen:
        return {}
    models, clips = Models.load(), corpus.select(np.array(chosen))
    record = follow(models.controller, models.skill_encoder, clips)
    done = episodes(record)
    parts = [text(_TEXTS["controller"])]
    for robot, index in enumerate(chosen):
        name = f"followed_{robot}.png"
        film.write_strip(record, pictures / name, robot)
        outcome = "tracked to the end" if done.success[robot] else "fell behind"
        error = f"{done.local_mm[robot]:.0f} mm from the reference's pose"
        caption = f"{_sentence(corpus, index)}: {outcome}, {error}."
        parts.append(picture(f"pictures/{name}", caption))
    return {"The controller": parts}


def _sentence(corpus: Corpus, index: int) -> str:
    return min(corpus.entry(index).text.split("\n"), key=len)


def _sentences(corpus: Corpus) -> list[tuple[str, str]]:
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
        names = ("text", "source", "licence")
        facts: Any = {name: getattr(clip, name) for name in names}
        if index % 2:
            # Unitree's layout: no header, the quaternion's w last. Such a file cannot
            # describe itself: a table beside it does.
            name, (words, *others) = f"{clip.name}_50hz", facts.values()
            xyzw = clip.root_quaternion[:, [1, 2, 3, 0]]
            rows = np.concatenate((clip.root_position, xyzw, clip.joints), axis=1)
            np.savetxt(folder / f"{name}.csv", rows, delimiter=",", fmt="%.6f")
            table.writerow((name, words.split("\n")[0], *others))
        else:
            path = folder / f"{clip.name}.npz"
            np.savez(path, qpos=clip.qpos(), fps=clip.fps, **facts)
    write_file(folder / "metadata.csv", about.getvalue())
    jump = clips[0].qpos()
    jump[150:, 0] += 3.0
    np.savez(folder / "teleport.npz", qpos=jump, fps=clips[0].fps)
    write_file(folder / "not_a_motion.npz", "this is a text file\n")
    summary = ingest([folder], out / "corpus", workers=1)
    return "\n".join([*map(str, summary.refusals), "", *summary.lines()])
