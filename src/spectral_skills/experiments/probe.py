"""The same few clips, again and again, while a controller learns."""

from collections.abc import Callable, Sequence

import numpy as np

from spectral_skills.control import metrics
from spectral_skills.control.metrics import Episodes
from spectral_skills.experiments.course import WINDOW_FRAMES, Course
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.motion_sets import MAX_FRAMES, name_order
from spectral_skills.physics.base import simulate
from spectral_skills.physics.settings import PhysicsConfig
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.tracking.policy import Controller

WANTED = ("success_rate", "mpjpe_local_mm", "mpjpe_global_mm")


def probe_of(
    corpora: Sequence[Corpus],
    encoder: SkillEncoder | None,
    clips: int,
    device: str,
    physics: PhysicsConfig,
) -> Callable[[Controller], dict[str, float]]:
    """Measures a controller on about so many clips of corpora.

    Where clips last minutes, windows of 10 s are cut out of them instead: a failure
    would end the measurement of a whole clip.
    """
    total = sum(len(corpus) for corpus in corpora)
    courses = []
    for corpus in corpora:
        share = max(1, round(clips * len(corpus) / total))
        if corpus.lengths.max() > MAX_FRAMES:
            chosen, windows = corpus, spread_windows(corpus, clips)
        else:
            chosen, windows = corpus.select(spread_clips(corpus, share)), None
        courses.append(
            Course(
                chosen,
                encoder,
                device,
                windows,
                physics=lambda count: simulate(device, count, physics),
                keep=True,
            )
        )

    def probe(controller: Controller) -> dict[str, float]:
        parts = [course.episodes(controller) for course in courses]
        found = metrics.summary(Episodes.join(parts))
        return {m.name: m.value for m in found if m.name in WANTED}

    return probe


def spread_clips(corpus: Corpus, count: int) -> np.ndarray:
    """Indices of clips drawn once for all, the same however they were ingested."""
    order = name_order(corpus)
    drawn = np.random.default_rng(0).permutation(len(order))[:count]
    return np.sort(order[drawn])


def spread_windows(
    corpus: Corpus, count: int, frames: int = WINDOW_FRAMES
) -> np.ndarray:
    """(count, 2) clips and first frames, evenly over all that is long enough."""
    order = name_order(corpus)
    order = order[corpus.lengths[order] >= frames]
    room = corpus.lengths[order] - frames + 1
    ends = np.cumsum(room)
    places = ((np.arange(count) + 0.5) / count * ends[-1]).astype(np.int64)
    which = np.searchsorted(ends, places, side="right")
    return np.stack((order[which], places - (ends - room)[which]), axis=1)
