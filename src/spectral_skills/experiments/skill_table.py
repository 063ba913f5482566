"""What skill models tell, and how far drift moves their skills: a row for each."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from spectral_skills.experiments.drift import drift
from spectral_skills.experiments.readout import Windows, readout
from spectral_skills.motion.corpus import Corpus
from spectral_skills.results import Result, hardware
from spectral_skills.runs import read_about
from spectral_skills.skill.model import SkillModel
from spectral_skills.skill.pretrain import split

_DRIFT_WINDOWS = 8192
"""Each is encoded eight times."""
READOUT, DRIFT = "Linear readout: held-out R^2", "Skills of a robot that is off"
_WAYS = {
    "length": "length",
    "moved": "way at 10 cm",
    "turned": "way at 0.1 rad",
    "both": "way at both",
    "moved_share": "10 cm / length",
    "turned_share": "0.1 rad / length",
    "both_share": "both / length",
    "one_step_later": "way in 0.02 s",
    "ten_steps_later": "way in 0.2 s",
    "another_window": "way to another window",
    "offset_read": "R^2 of the offset",
}


def tables(
    folders: Sequence[Path],
    corpora: Sequence[Corpus],
    held_out: float,
    seed: int,
    device: str,
    count: int = 1 << 16,
) -> tuple[list[Result], list[Result]]:
    """Two tables, each with a row for every skill model: held-out variance that is
    linearly readable, and how far skills move when the robot is off. What held-out
    clips cannot tell, as the travel of those that stand still, has no cell."""
    if not folders:
        raise ValueError("no skill model to evaluate")
    for folder in folders:
        _check_split(folder, held_out, seed)
    # A model in a run folder is called as the run.
    names = [f.parent.name if f.name == "model" else f.name for f in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    sides = split(corpora, held_out, seed, mirror=False, device=device)
    fit, score = (Windows.draw(motions, count, seed) for motions in sides)
    fewer = min(count, _DRIFT_WINDOWS)
    few_fit, few = (Windows.draw(motions, fewer, seed) for motions in sides)
    data = "+".join(corpus.hash for corpus in corpora)[:8]
    read: list[Result] = []
    moved: list[Result] = []

    def add(
        to: list[Result], n: int, table: str, row: str, metric: str, value: float
    ) -> None:
        if math.isnan(value):
            return
        to.append(
            Result(
                *(table, row, metric, value),
                n=n,
                seed=seed,
                run=data,
                command="spectral evaluate readout",
                hardware=hardware(device),
            )
        )

    rows = list(zip(names, folders, strict=True))
    for row, folder in tqdm(rows, unit=" models", leave=False):
        encoder = SkillModel.load(folder, device).encoder
        for name, value in asdict(readout(encoder, fit, score)).items():
            add(read, count, READOUT, row, name.replace("_", " "), value)
        for name, value in asdict(drift(encoder, few_fit, few, seed)).items():
            add(moved, fewer, DRIFT, row, _WAYS[name], value)
    return read, moved


def _check_split(folder: Path, held_out: float, seed: int) -> None:
    """Refuse to score a run on clips that it was trained on, where it says which."""
    run = folder.parent if folder.name == "model" else folder
    if (run / "log.jsonl").is_file():
        config = read_about(run)["config"]
        if (config["held_out"], config["seed"]) != (held_out, seed):
            raise ValueError(
                f"{folder}: trained with --held-out {config['held_out']:g} --seed "
                f"{config['seed']}; with others it is scored on what it knows"
            )
