"""What a corpus holds, as text and pictures."""

import json
from collections import Counter
from pathlib import Path

import numpy as np

from spectral_skills.motion.clip import mirror_name
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.plots.groups import groups


def describe(corpus: Corpus) -> dict:
    """Counts of a corpus, by source, licence and kind."""
    seconds = corpus.lengths / FPS
    entries = [corpus.entry(i) for i in range(len(corpus))]

    def hours_by(values: list[str]) -> dict[str, dict[str, float]]:
        clips, hours = Counter(values), Counter()
        for value, length in zip(values, seconds.tolist(), strict=True):
            hours[value] += length / 3600
        return {
            value: {"clips": clips[value], "hours": round(total, 4)}
            for value, total in hours.most_common()
        }

    return {
        "clips": len(corpus),
        "frames": corpus.frames,
        "hours": round(corpus.hours, 4),
        "fps": FPS,
        "shortest_s": round(float(seconds.min()), 2),
        "median_s": round(float(np.median(seconds)), 2),
        "longest_s": round(float(seconds.max()), 2),
        "noted": sum(bool(e.notes) for e in entries),
        "hash": corpus.hash,
        "sources": hours_by([e.source for e in entries]),
        "licences": hours_by([e.licence for e in entries]),
        "kinds": hours_by(groups(corpus)),
    }


def print_info(folder: Path, *, as_json: bool) -> None:
    """Print the counts of a corpus."""
    facts = describe(Corpus.open(folder))
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    print(
        f"{folder}: {facts['clips']:,} clips, {facts['frames']:,} frames at {FPS} Hz, "
        f"{facts['hours']:.2f} h; clips last {facts['shortest_s']} to "
        f"{facts['longest_s']} s (median {facts['median_s']})"
    )
    for group in ("sources", "licences", "kinds"):
        print(f"\n{group}")
        for name, counts in facts[group].items():
            print(f"  {counts['hours']:8.3f} h {counts['clips']:7,} clips  {name}")
    if facts["noted"]:
        print(f"\n{facts['noted']:,} clips have notes: spectral corpus list --notes")


def print_list(folder: Path, *, match: str, limit: int | None, notes: bool) -> None:
    """Print one line a clip."""
    corpus = Corpus.open(folder)
    shown = 0
    for index in range(len(corpus)):
        entry = corpus.entry(index)
        if match.lower() not in f"{entry.name}\n{entry.text}".lower():
            continue
        if limit is not None and shown >= limit:
            print("...")
            break
        shown += 1
        text = entry.text.replace("\n", " / ")
        print(f"{entry.name:<40} {entry.length / FPS:8.2f} s  {entry.source}  {text}")
        if notes:
            for note in filter(None, entry.notes.split("\n")):
                print(f"{'':<40}   {note}")


def draw_clip(folder: Path, name: str, picture: Path) -> None:
    """Draw the sheet of one clip."""
    corpus = Corpus.open(folder)
    if name not in corpus.names and name.endswith(mirror_name("")):
        corpus = corpus.with_mirror()
    sheet(corpus, corpus.index(name), picture)
    print(f"wrote {picture}")


def sheet(corpus: Corpus, index: int, picture: Path) -> None:
    """Contact sheet, foot heights, root and joint curves of one clip."""
    import torch

    from spectral_skills.motion.kinematics import Kinematics, sole_heights
    from spectral_skills.plots.figures import clip_sheet
    from spectral_skills.robot import g1

    entry, qpos = corpus.entry(index), np.array(corpus.qpos(index))
    feet = Kinematics(g1.FEET)(torch.from_numpy(qpos))
    facts = [f"{entry.length / FPS:.1f} s", entry.source, entry.licence]
    clip_sheet(
        qpos,
        picture,
        title=f"{entry.name}: {entry.text.splitlines()[0] if entry.text else ''}",
        subtitle="  |  ".join(filter(None, facts)),
        foot_heights_m=sole_heights(feet).numpy(),
        fps=FPS,
    )
