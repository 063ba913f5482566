"""How well a bundle tracks, by the same rules as the batch evaluation; with torch."""

from collections.abc import Sequence

import torch

from spectral_skills.control.bundle import Bundle
from spectral_skills.control.metrics import Episodes, episodes
from spectral_skills.control.rollout import Rollout
from spectral_skills.control.run import Tracker, run
from spectral_skills.control.source import ReferenceSource
from spectral_skills.models import Models
from spectral_skills.physics.base import simulate
from spectral_skills.runtime.parity import as_references
from spectral_skills.runtime.tracked import follow


def tracked(bundle: Bundle, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Success and errors of every base, followed as a reference by what runs on a
    robot."""
    records = (
        Rollout.of_rows(name, follow(bundle, name), bundle.base(name).rows)
        for name in names
    )
    return {record.names[0]: _told(episodes(record))[0] for record in records}


def tracked_in_batch(
    models: Models, bundle: Bundle, names: Sequence[str]
) -> dict[str, dict[str, float]]:
    """The same by torch and the batch evaluation's own loop."""
    rows = [torch.from_numpy(bundle.base(name).rows) for name in names]
    references, chosen = as_references(rows)
    source = ReferenceSource(references, chosen, models.skill_encoder, names=names)
    begin = references.at(chosen, torch.zeros_like(chosen))
    physics, tracker = simulate("cpu", len(rows)), Tracker(models.controller)
    steps = max(map(len, rows)) - 1
    done = run(physics, tracker, source, (begin.rows, begin.qvel), steps)
    return dict(zip(names, _told(episodes(done)), strict=True))


def _told(found: Episodes) -> list[dict[str, float]]:
    columns = zip(found.success, found.local_mm, found.global_mm, strict=True)
    return [
        {"success": bool(s), "local_mm": float(near), "global_mm": float(far)}
        for s, near, far in columns
    ]
