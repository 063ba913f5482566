"""Where drift comes from: what the same robots do when skills do not show it to them.

Every clip is followed three times for 8 s. Live, its skills are seen from where the
robot is, as always. Blind, they are seen from where it should be, so that nothing tells
the controller how far it is off. Displaced, it begins beside its reference and sees it.
Errors are of the robots that succeed all three times.

    python benchmarks/drift.py --controller runs/mine --skill runs/skills \
        --corpus corpora/mine --held-out 0.05
"""

from dataclasses import replace

import numpy as np
import torch
from report import models_parser, parsed, report
from torch import Tensor

from spectral_skills import api
from spectral_skills.control import metrics
from spectral_skills.control.metrics import CURVE_FRAMES, Episodes
from spectral_skills.control.run import ReferenceSource, Tracker, run
from spectral_skills.experiments.tracking import spread_clips
from spectral_skills.models import Models
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.motion_sets import hold_out
from spectral_skills.physics.base import simulate
from spectral_skills.results import Result, model_hashes
from spectral_skills.tracking.references import References

TABLE = "Tracking: where drift comes from"
BESIDE_M = 0.2
SECONDS = (1, 2, 4, 8)


class Blind(ReferenceSource):
    """Clips as they are seen from where robots should be."""

    def source(self, step: int, qpos: Tensor) -> Tensor:
        wanted = self.references.at(self.clips, self.starts + step).rows
        return super().source(step, wanted)


def follow(models: Models, clips: Corpus, device: str) -> dict[str, Episodes]:
    """The first 8 s of every clip, live, blind and displaced."""
    references = References.build(clips.to(device))
    chosen = torch.arange(len(clips), device=device)
    about = models.encoder, None, models.controller.config.command, clips.names
    live = ReferenceSource(references, chosen, *about)
    qpos, qvel = live.start
    angle = 2 * np.pi * torch.arange(len(clips), device=device) / len(clips)
    aside = qpos.clone()
    aside[:, :2] += BESIDE_M * torch.stack((angle.cos(), angle.sin()), dim=1)
    physics, found = simulate(device, len(clips)), {}
    for name, source, start in (
        ("live", live, qpos),
        ("blind", Blind(references, chosen, *about), qpos),
        (f"{BESIDE_M:g} m beside", live, aside),
    ):
        tracker = Tracker(models.controller)
        record = run(physics, tracker, source, (start, qvel), CURVE_FRAMES - 1, keep=())
        found[name] = metrics.episodes(record)
    return found


def results(found: dict[str, Episodes]) -> list[Result]:
    """How many succeed and are followed; errors of those that always succeed."""
    always = np.logical_and.reduce([episodes.success for episodes in found.values()])
    rows = []
    for name, every in found.items():
        cells = {m.name: m for m in metrics.summary(every)}
        rows += [
            Result(TABLE, name, metric, cells[metric].value, n=len(every.names))
            for metric in ("success_rate", "followed")
        ]
        same = every.select(always)
        if not (n := len(same.names)):
            continue
        curve = same.curve_mm.astype(np.float64)
        errors = {f"root error after {s} s": curve[:, s * FPS].mean() for s in SECONDS}
        rows += [Result(TABLE, name, k, float(v), "mm", n) for k, v in errors.items()]
        slope = np.polyfit(np.arange(CURVE_FRAMES) / FPS, curve.mean(axis=0), 1)[0]
        rows.append(Result(TABLE, name, "drift_slope_mm_s", float(slope), "mm/s", n))
    return rows


def main() -> None:
    parser = models_parser()
    parser.add_argument("--corpus", default="embedded", help="folder of a corpus")
    parser.add_argument("--held-out", type=float, default=0.0, help="only such clips")
    parser.add_argument("--clips", type=int, default=20, help="how many clips")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    given = parsed(parser)
    corpus = api.open_corpus(given.corpus)
    if given.held_out:
        (corpus,) = hold_out([corpus], given.held_out)[1]
    corpus = corpus.select(np.flatnonzero(corpus.lengths >= CURVE_FRAMES))
    corpus = corpus.select(spread_clips(corpus, given.clips))
    models = Models.load(given.controller, given.skill, device=given.device)
    found = results(follow(models, corpus, given.device))
    used = model_hashes(**models.hashes, corpus=corpus.hash)
    about = {"table": f"{TABLE}, {given.label}", "models": used}
    report([replace(r, **about) for r in found], given.device, given.record)


if __name__ == "__main__":
    main()
