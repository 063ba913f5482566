"""A corpus in skill space: distances to its skills, maps of them, and directions that
need no predictor, from skills alone."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from sklearn.manifold import TSNE
from sklearn.neighbors import KNeighborsRegressor
from threadpoolctl import threadpool_limits
from torch import Tensor

from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.motion_sets import kind
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.motion.windows import reference_poses
from spectral_skills.skill.encoder import SkillBank, SkillEncoder, encode_rows
from spectral_skills.spectral.response import NAMES as ATTRIBUTE_NAMES
from spectral_skills.spectral.response import Attributes
from spectral_skills.spectral.support import WINDOW, Descriptors, describe, nearest

EVERY = 10
"""Number of frames between skills of the corpus."""
MOST_POINTS = 4000
"""Largest number of points for t-SNE, which takes half a minute for them."""
_EXAGGERATION = 12.0
"""Factor of attraction between similar points at first."""
PENALTY = 1e-2
"""Penalty of the ridge, as a share of the variance of a normalised skill number."""
_FAR = 1 << 32
"""Number of frames between clips when all are put in one row: longer than any clip."""


@dataclass(frozen=True)
class Neighbours:
    """A corpus and its mirror image, as skills and as windows of motion."""

    encoder: SkillEncoder
    bank: SkillBank
    windows: Descriptors
    kinds: tuple[str, ...]
    """Kind of motion of each clip."""
    corpus: str
    """Hash of the corpus."""

    @classmethod
    def build(cls, encoder: SkillEncoder, corpus: Corpus | None = None) -> "Neighbours":
        """Skills of a corpus; None is the embedded one."""
        corpus = (corpus or Corpus.open(embedded_corpus())).with_mirror()
        entries = [corpus.entry(i) for i in range(len(corpus))]
        kinds = tuple(kind(entry.name, entry.text) for entry in entries)
        bank = SkillBank.build(encoder, corpus, EVERY)
        return cls(encoder, bank, describe(corpus), kinds, corpus.hash)

    def encode(self, rows: np.ndarray) -> Tensor:
        """(T', d) skills of a motion (T, 36), from frame `-encoder.first` on."""
        return encode_rows(self.encoder, np.asarray(rows, np.float32))

    def distances(self, rows: np.ndarray) -> np.ndarray:
        """(T',) from each skill of a motion (T, 36) to the nearest of the corpus."""
        return nearest(self.bank.skills, self.encode(rows)).cpu().numpy()

    def window_skills(self) -> np.ndarray:
        """(w, d) mean of the skills within each window; NaN where there is none."""
        skills = self.bank.skills.double().cpu().numpy()
        total = np.concatenate((np.zeros_like(skills[:1]), skills.cumsum(axis=0)))
        place = (self.bank.clips * _FAR + self.bank.times).cpu().numpy()
        starts = self.windows.clips * _FAR + self.windows.starts
        first, end = (np.searchsorted(place, at) for at in (starts, starts + WINDOW))
        with np.errstate(invalid="ignore"):
            return (total[end] - total[first]) / (end - first)[:, None]


def tsne(x: Tensor) -> Tensor:
    """Places (n, 2) in the plane of 4 to MOST_POINTS points (n, d)."""
    count = len(x)
    if not 4 <= count <= MOST_POINTS:
        raise ValueError(f"t-SNE of {count} points; 4 to {MOST_POINTS:,} are possible")
    if not x.isfinite().all():
        raise ValueError("t-SNE of points that are not finite")
    # Only relative distances count. They are taken from the first point, not the mean,
    # so that equal points have no spread at all instead of one from rounding.
    away = (x - x[0]).double()
    spread = away.abs().max()
    if spread == 0:
        return x.new_zeros((count, 2))
    method = TSNE(
        # A perplexity is a number of neighbours: few points have few.
        perplexity=min(30.0, (count - 1) / 3),
        early_exaggeration=_EXAGGERATION,
        # The usual rule without its minimum of 50, which scatters few points.
        learning_rate=count / _EXAGGERATION,  # type: ignore[arg-type]
        random_state=0,
    )
    # Sums of floats depend on the number of threads.
    with threadpool_limits(1):
        return torch.as_tensor(method.fit_transform((away / spread).numpy())).to(x)


def place_on_map(x: Tensor, y: Tensor, more: Tensor) -> Tensor:
    """Places (m, 2) of further points (m, d) in a finished map y (n, 2) of points x.

    Each lies at the mean of the places of its ten nearest neighbours, weighted by their
    distance, so that further points move neither the map nor each other.
    """
    nearby = KNeighborsRegressor(min(10, len(x)), weights="distance")
    places = nearby.fit(x.numpy(), y.numpy()).predict(more.numpy())
    return torch.as_tensor(places).to(y)


@dataclass(frozen=True)
class DescribedSkills:
    """Skills, and attributes of the motions they were encoded from."""

    skills: np.ndarray
    """(n, d)"""
    attributes: np.ndarray
    """(n, a) of the same windows, columns as in `spectral.response.NAMES`."""
    clips: np.ndarray
    """(n,) position of each window's clip in the corpus."""

    def attribute(self, name: str) -> np.ndarray:
        """(n,) one attribute."""
        return self.attributes[:, ATTRIBUTE_NAMES.index(name)]

    @property
    def spread(self) -> float:
        """Standard deviation of the skills in one dimension, averaged over all d."""
        return float(self.skills.std(axis=0).mean())


def describe_skills(
    encoder: SkillEncoder, corpus: Corpus, every: int = EVERY
) -> DescribedSkills:
    """Skills of a corpus at every `every`-th frame, and the chunks they stand for."""
    bank = SkillBank.build(encoder, corpus, every)
    chunk = replace(encoder.windows, future=encoder.windows.chunk)
    device = encoder.steps.device
    attributes, motions = Attributes(chunk, device), corpus.to(device)
    steps = encoder.steps[encoder.steps >= 0]
    batches = zip(bank.clips.split(4096), bank.times.split(4096), strict=True)
    parts = [
        attributes(reference_poses(motions, clips, times, steps, "heading"))
        for clips, times in batches
    ]
    values = np.concatenate([part.cpu().numpy() for part in parts])
    skills = bank.skills.cpu().numpy().astype(np.float64)
    return DescribedSkills(skills, values, bank.clips.cpu().numpy())


def principal(skills: np.ndarray, count: int) -> np.ndarray:
    """(count, d) unit directions in which skills (n, d) vary most, largest first.

    Their signs mean nothing; the largest number of each is positive.
    """
    centred = skills - skills.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(skills))
    found = vectors.T[np.argsort(-values)][:count]
    largest = np.abs(found).argmax(axis=1)
    return found * np.sign(found[np.arange(len(found)), largest])[:, None]


def ridge(
    skills: np.ndarray, attribute: np.ndarray, penalty: float = PENALTY
) -> np.ndarray:
    """(d,) unit direction in which a linear fit of an attribute (n,) grows fastest.

    Numbers of a skill are fitted in their standard deviations, so that the penalty
    treats them alike; the weights are then those of raw skills again.
    """
    # Equal values may differ from their mean in the last digit and then have a
    # deviation, so the values themselves are asked. What never varies has no weight.
    if not np.ptp(attribute) > 0:
        raise ValueError("the attribute is the same everywhere: no direction")
    scale = np.where(np.ptp(skills, axis=0) > 0, skills.std(axis=0), np.inf)
    x = (skills - skills.mean(axis=0)) / scale
    y = attribute - attribute.mean()
    gram = x.T @ x / len(x) + penalty * np.eye(x.shape[1])
    weights = np.linalg.solve(gram, x.T @ y / len(x)) / scale
    size = np.linalg.norm(weights)
    if not size > 0:
        raise ValueError("the attribute never changes with the skills: no direction")
    return weights / size
