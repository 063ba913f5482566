"""Skill spaces as results: what a linear map reads from skills, how far skills move
with a robot's error, and what training runs and directions say of themselves.

The read-out is a ridge regression from skills to poses, fitted on clips that the model
was trained on and scored on held-out clips; all models see the same windows. For the
drift, the encoder sees the reference from a robot that is 10 cm or 0.1 rad away from
it: the skill should hardly change, and the error should still be readable from it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from spectral_skills import rotation
from spectral_skills.experiments.findings import Draft, MeasuredWith, grid
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.windows import (
    MotionTensors,
    WindowConfig,
    WindowSampler,
    anchor_poses,
    reference_poses,
)
from spectral_skills.results import Result, hardware, model_hashes
from spectral_skills.robot import g1
from spectral_skills.runs import read_about, read_log
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.skill.model import SkillModel
from spectral_skills.skill.pretrain import split
from spectral_skills.spectral.direction_file import Directions

TRAINING = grid("training")
READOUT, DRIFT = "Linear readout: held-out R^2", "Skills of a robot that is off"
CHUNK, LAST = 10, 20
"""The paper's windows: a chunk is frames 0 to 9, the future is frames 10 to 20."""
METRES, RADIANS = 0.1, 0.1
"""Errors of a robot that tracks as it should."""
_WINDOWS, _DRIFT_WINDOWS = 1 << 16, 8192
"""Number of windows of each table; drift encodes each window eight times."""
_STILL = 0.01
"""Deviation below which a coordinate hardly moves, m or rad."""
_JOINTS, _ROOT = slice(0, g1.NUM_JOINTS), slice(g1.NUM_JOINTS, None)
# Clips must have all frames that any encoder of the ablations looks at.
_ROOM = WindowConfig(context=26, chunk=50, future=1)
_AT_ONCE = 8192


def quantities(poses: Tensor) -> dict[str, Tensor]:
    """What is read, from poses (n, 21, 38) at frames 0 to 20.

    Poses are in the frame of the chunk; the travel is the path along and across, and
    the turn, from the first pose to the last one of the future.
    """
    end = poses[:, LAST, _ROOT]
    turn = rotation.yaw(rotation.from_rot6d(end[:, 3:]))
    return {
        "joints now": poses[:, 0, _JOINTS],
        "joints chunk end": poses[:, CHUNK - 1, _JOINTS],
        "joints future": poses[:, CHUNK:, _JOINTS].flatten(1),
        "root future": poses[:, CHUNK:, _ROOT].flatten(1),
        "travel": torch.cat((end[:, :2], turn[:, None]), dim=1),
    }


@dataclass(frozen=True)
class ReadoutWindows:
    """Places in motions, and the quantities to read there."""

    motions: MotionTensors
    clips: Tensor
    times: Tensor
    values: dict[str, Tensor]

    @classmethod
    def draw(cls, motions: MotionTensors, count: int, seed: int) -> "ReadoutWindows":
        """Draw random windows with room for every encoder."""
        sampler = WindowSampler(motions, _ROOM)
        generator = torch.Generator(motions.device).manual_seed(seed)
        numbers = torch.randint(
            sampler.total, (count,), generator=generator, device=motions.device
        )
        clips, times = sampler.locate(numbers)
        steps = torch.arange(LAST + 1, device=motions.device)
        poses = reference_poses(motions, clips, times, steps, "heading")
        return cls(motions, clips, times, quantities(poses))

    def skills(self, encoder: SkillEncoder) -> Tensor:
        return encoder.encode_at(self.motions, self.clips, self.times)


def explained(fit: tuple[Tensor, Tensor], score: tuple[Tensor, Tensor]) -> float:
    """R^2 on `score` of the ridge regression fitted on `fit`; pairs (inputs, values).

    Values are scaled to unit variance, so that each coordinate counts alike; one that
    hardly moves does not count. The result is not a number where nothing in `score`
    moves: there is no variance to explain.
    """
    (x, y), (x_new, y_new) = fit, score
    mean, deviation = y.double().mean(0), y.double().std(0)
    moves = deviation > _STILL
    if not (y_new.double().std(0, correction=0) > _STILL)[moves].any():
        return math.nan
    y = ((y.double() - mean) / deviation)[:, moves]
    y_new = ((y_new.double() - mean) / deviation)[:, moves]
    centre = x.double().mean(0)
    x, x_new = x.double() - centre, x_new.double() - centre
    gram = x.T @ x
    # All skills may be equal: then nothing is explained, and nothing fails.
    gram.diagonal().add_(1e-6 * gram.diagonal().mean().clamp_min(1e-9))
    weights = torch.linalg.solve(gram, x.T @ y)
    rest = (y_new - x_new @ weights).square().mean(0)
    spread = y_new.var(0, correction=0)
    return float(1 - rest.sum() / spread.sum())


def readout(
    encoder: SkillEncoder, fit: ReadoutWindows, score: ReadoutWindows
) -> dict[str, float]:
    """Share of the held-out variance of each quantity that a linear map explains."""
    x, x_new = fit.skills(encoder), score.skills(encoder)
    return {
        name: explained((x, y), (x_new, score.values[name]))
        for name, y in fit.values.items()
    }


def displaced_skills(
    encoder: SkillEncoder, windows: ReadoutWindows, offset: Tensor
) -> Tensor:
    """Skills (n, width) of robots displaced by (n, 3): metres ahead and to the left of
    the reference, in its heading, and a turn to the left."""
    parts = []
    for clips, times, off in zip(
        *(x.split(_AT_ONCE) for x in (windows.clips, windows.times, offset)),
        strict=True,
    ):
        now = windows.motions.gather(clips, times[:, None])[:, 0]
        rows = windows.motions.gather(clips, times[:, None] + encoder.steps)
        shift = torch.nn.functional.pad(off[:, :2], (0, 1))
        position = now[:, :3] + rotation.rotate(rotation.heading(now[:, 3:7]), shift)
        turned = rotation.multiply(rotation.from_yaw(off[:, 2]), now[:, 3:7])
        poses = anchor_poses(rows, position, turned, encoder.windows.anchor)
        parts.append(encoder.encode(poses))
    return torch.cat(parts)


def drift(
    encoder: SkillEncoder, fit: ReadoutWindows, score: ReadoutWindows, seed: int
) -> dict[str, float]:
    """Mean distances in skill space over the windows `score`.

    Robots are 10 cm off in any horizontal direction, 0.1 rad off to either side, or
    both. Distances over time are of the windows with room for it, and not a number if
    there are none. The R^2 is of a linear map, fitted on `fit`, from the skill to
    normal offsets with deviations of 10 cm each way and 0.1 rad.
    """
    device, count = score.motions.device, len(score.clips)
    generator = torch.Generator(device).manual_seed(seed)
    random = {"generator": generator, "device": device}
    angle = 2 * math.pi * torch.rand(count, **random)
    side = torch.rand(count, **random).sub(0.5).sign()
    ahead, left, turn = METRES * angle.cos(), METRES * angle.sin(), RADIANS * side
    other = torch.randperm(count, **random)
    scale = torch.tensor((METRES, METRES, RADIANS), device=device)
    pairs = []
    for windows in (fit, score):
        normal = scale * torch.randn((len(windows.clips), 3), **random)
        pairs.append((displaced_skills(encoder, windows, normal), normal))
    skill = score.skills(encoder)

    def distance(skills: Tensor) -> float:
        return float((skills - skill).norm(dim=1).mean())

    def displaced(*offset: Tensor) -> float:
        return distance(displaced_skills(encoder, score, torch.stack(offset, dim=1)))

    def later(steps: int) -> float:
        last = score.times + encoder.steps[-1] + steps
        room = last < score.motions.lengths[score.clips]
        times = torch.where(room, score.times + steps, score.times)
        moved = encoder.encode_at(score.motions, score.clips, times) - skill
        return float(moved.norm(dim=1).sum() / room.sum())

    length, zero = float(skill.norm(dim=1).mean()), torch.zeros_like(turn)
    moved = displaced(ahead, left, zero)
    turned = displaced(zero, zero, turn)
    both = displaced(ahead, left, turn)
    whole = max(length, 1e-9)
    return {
        "length": length,
        "way at 10 cm": moved,
        "way at 0.1 rad": turned,
        "way at both": both,
        "10 cm / length": moved / whole,
        "0.1 rad / length": turned / whole,
        "both / length": both / whole,
        "way in 0.02 s": later(1),
        "way in 0.2 s": later(10),
        "way to another window": distance(skill[other]),
        "R^2 of the offset": explained(*pairs),
    }


def tables(
    skill: Sequence[Path | str],
    corpora: Sequence[Corpus],
    held_out: float = 4,
    seed: int = 0,
    device: str = "cpu",
    count: int = _WINDOWS,
) -> tuple[list[Result], list[Result]]:
    """The tables of readout and drift, with a row for every folder of a skill model.

    Cells that held-out clips cannot fill, such as the travel of clips that stand still,
    are omitted.
    """
    folders = [Path(folder) for folder in skill]
    if not folders:
        raise ValueError("no skill model to evaluate")
    for folder in folders:
        _check_split(folder, held_out)
    # A model in a run folder is named after the run.
    names = [f.parent.name if f.name == "model" else f.name for f in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    sides = split(corpora, held_out, mirror=False, device=device)
    fewer = min(count, _DRIFT_WINDOWS)
    fit, score, few_fit, few_score = (
        ReadoutWindows.draw(motions, n, seed)
        for n in (count, fewer)
        for motions in sides
    )
    data, processor = "+".join(corpus.hash for corpus in corpora), hardware(device)
    made = MeasuredWith(data, "", processor)
    read, moved = (Draft("", made, data, table, seed) for table in (READOUT, DRIFT))
    for row, folder in tqdm(
        [*zip(names, folders, strict=True)], unit=" models", leave=False
    ):
        encoder = SkillModel.load(folder, device).encoder
        skill = model_hashes(skill=encoder.fingerprint())
        used = MeasuredWith(data, skill, processor)
        read.add(row, readout(encoder, fit, score), count, runner=used)
        found = drift(encoder, few_fit, few_score, seed)
        moved.add(row, found, fewer, runner=used)
    return read.results, moved.results


def _check_split(folder: Path, held_out: float) -> None:
    """Refuse to score a run on clips that it was trained on, where that is known."""
    run = folder.parent if folder.name == "model" else folder
    if (run / "log.jsonl").is_file():
        config = read_about(run)["config"]
        if config["held_out"] != held_out:
            raise ValueError(
                f"{folder}: trained with --held-out {config['held_out']:g}; with "
                "another it is scored on what it knows"
            )


def _traced(results: list[Result], run: Path, command: str = "") -> list[Result]:
    """Results with the seed, data, command and hardware of a run."""
    about = read_about(run)
    facts = {"seed": about["config"]["seed"], "run": about["data"][:8]}
    facts |= {"command": about["command"] + command, "hardware": about["hardware"]}
    return [replace(result, **facts) for result in results]


def tracking_results(run: Path, label: str) -> list[Result]:
    """A row for every probe of a training of a controller."""
    probed = [row for row in read_log(run) if "mpjpe_local_mm" in row]
    asked_for = read_about(run)["config"]["probe_clips"]
    if not probed:
        raise ValueError(f"{run}: no probe in its log that tracked a clip to the end")
    table = f"Tracking: learning on {label}"
    found = [
        Result(table, f"{row['frames'] / 1e6:,.0f} M frames", metric, value, unit, n)
        for row in probed
        for n in [int(row.get("probed", asked_for))]  # there may be fewer clips
        for metric, (key, unit, factor) in TRAINING.tracking.items()
        if key in row  # logs of older runs have fewer
        for value in [factor * row[key]]
    ]
    return _traced(found, run)


def skill_space_results(
    run: Path, directions: Directions | None, label: str
) -> list[Result]:
    """All rows for a pretraining run and its directions."""
    windows = read_about(run)["config"]["evaluation_windows"]
    rows = read_log(run)
    if not rows:
        raise ValueError(f"{run}: no log of a pretraining run")
    best = min(rows, key=lambda row: row["held_out"])
    shown = {row["update"]: row for row in (best, rows[-1])}
    shown |= {row["update"]: row for row in rows if _is_round(row["update"])}
    table, found = f"Skill space of {label}: prediction", []
    for update, row in sorted(shown.items()):
        values = {metric: row[key] for metric, key in TRAINING.prediction.items()}
        values |= {f"level {i + 1}": v for i, v in enumerate(row["held_out_levels"])}
        for metric, value in values.items():
            found.append(Result(table, f"update {update:,}", metric, value, n=windows))
    paper = "2,000 to 3,000" if label == "LAFAN1" else ""
    table, std = f"Skill space of {label}: statements", best["skill_std"]
    cell = table, "best held-out error", "update", float(best["update"])
    found.append(Result(*cell, n=windows, paper=paper))
    cell = table, "corpus skills", "std of a dimension", std
    found.append(Result(*cell, n=windows, paper="0.80 (BONES-SEED)"))
    traced = _traced(found, run)
    if directions is not None:
        more = direction_results(directions, label)
        traced += _traced(more, run, "; spectral directions")
    return traced


def _is_round(update: int) -> bool:
    """Whether an update is 500, 1,000, 2,000, 5,000 and so on."""
    return update >= 500 and str(update).rstrip("0") in ("1", "2", "5")


def direction_results(directions: Directions, label: str) -> list[Result]:
    """Rows for the spectrum of a skill space, without the ranks it does not have."""
    chosen = directions.family("spectral")
    limbs, determined = directions.single_limb[chosen], directions.determined[chosen]
    arms = np.array([limb.endswith("_arm") for limb in limbs])
    alike, ratios = directions.sameness[chosen], directions.eigenvalue_ratios
    statements = {
        "arms": (np.sum, arms[:10]),
        "limbs": (np.sum, limbs != ""),
        "ratios": (np.mean, ratios[10:]),
        "determined": (np.sum, determined[10:]),
        "first": (np.mean, alike[:10]),
        "last": (np.mean, alike[40:]),
    }
    table, n = f"Skill space of {label}: statements", directions.contexts
    found = []
    for name, (of, values) in statements.items():
        row, metric, paper = TRAINING.statements[name]
        if len(values):
            cell = table, row, metric, float(of(values))
            found.append(Result(*cell, n=n, paper=paper))
    table, gains = "Skill space: predicted gain by rank", directions.gains[chosen]
    for rank in (one for one in TRAINING.ranks if one <= len(chosen)):
        found.append(Result(table, label, f"{rank}", float(gains[rank - 1]), n=n))
    return found
