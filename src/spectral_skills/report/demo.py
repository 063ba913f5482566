"""`spectral demo`: the pipeline from nothing to a page with pictures."""

from pathlib import Path

import numpy as np
from tqdm import tqdm

from spectral_skills.atomic import write_file
from spectral_skills.motion.clip import Clip
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.ingest import ingest
from spectral_skills.motion.synthetic import motions
from spectral_skills.report import html
from spectral_skills.report.corpus import sheet
from spectral_skills.report.figures import motion_grid
from spectral_skills.robot.render import backend


def build(out: Path) -> Path:
    """Generate motions, ingest them, draw them; returns the page."""
    inputs, pictures = out / "motions", out / "pictures"
    _write_inputs(inputs)
    pictures.mkdir(parents=True, exist_ok=True)
    summary = ingest([inputs], out / "corpus", workers=1)
    corpus = Corpus.open(out / "corpus")
    clips = range(len(corpus))
    rows = [(corpus.entry(i).text, np.array(corpus.qpos(i))) for i in clips]
    motion_grid(rows, pictures / "overview.png")
    for index in tqdm(clips, desc="drawing", unit="clip", disable=None):
        sheet(corpus, index, pictures / f"{corpus.names[index]}.png")
    report = [*map(str, summary.refusals), "", *summary.lines()]
    parts = [
        html.paragraph(
            "Motions of a Unitree G1, generated here, written as files people have, "
            "read back into one corpus. Nothing was downloaded.",
            "lead",
        ),
        html.figure("pictures/overview.png", "Every clip, left to right in time."),
        html.heading("What was read"),
        html.terminal("\n".join(report)),
        html.heading("Clip by clip"),
    ]
    for index in clips:
        entry = corpus.entry(index)
        caption = f"{entry.text} (read from {entry.file})"
        parts.append(html.figure(f"pictures/{entry.name}.png", caption))
    parts.append(html.paragraph(f"Pictures drawn by: {backend()}."))
    page = out / "index.html"
    html.write_page(page, "Spectral Skills: a first corpus", parts)
    return page


def _write_inputs(folder: Path) -> None:
    """Write the generated motions in two formats, and two files that are broken."""
    folder.mkdir(parents=True, exist_ok=True)
    clips = motions()
    texts = ["name,text,source,licence"]
    for index, clip in enumerate(clips):
        if index % 2:
            _write_csv(clip, folder / f"{clip.name}_50hz.csv")
            # A CSV cannot say what it is: a table beside it does.
            about = (f"{clip.name}_50hz", clip.text, clip.source, clip.licence)
            texts.append(",".join(about))
        else:
            _write_npz(clip, folder / f"{clip.name}.npz")
    write_file(folder / "metadata.csv", "\n".join(texts) + "\n")
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
