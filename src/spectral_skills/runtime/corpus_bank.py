"""Skills of a corpus, few enough to carry along, and how far others are from them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from spectral_skills.atomic import write_file
from spectral_skills.motion.corpus import Corpus
from spectral_skills.skill.codes import SkillBank
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.spectral.support import nearest

RELEASED_FILE = Path(__file__).parents[1] / "pretrained" / "support.safetensors"
"""Of the embedded corpus, in the skill space that comes with the package; written by
`spectral export` with that corpus."""
SKILLS = 8192
_EVERY = 10
"""Frames between skills of the corpus."""
_MEASURED = 20_000
"""Skills whose distance is measured."""


@dataclass(frozen=True)
class CorpusBank:
    """Some skills of a corpus."""

    skills: np.ndarray
    """(n, d) float16"""
    typical: float
    """Median distance of the corpus's skills to the nearest of another clip here."""
    far: float
    """Its 99th percentile."""
    encoder: str
    """Fingerprint of the encoder of the skills."""

    @classmethod
    def build(cls, encoder: SkillEncoder, corpus: Corpus) -> "CorpusBank":
        """Random skills of a corpus and its mirror image."""
        bank = SkillBank.build(encoder, corpus.with_mirror(), _EVERY)
        skills, clips = bank.skills.cpu(), bank.clips.cpu()
        order = torch.randperm(len(skills), generator=torch.Generator().manual_seed(0))
        kept, rest = order[:SKILLS], order[SKILLS : SKILLS + _MEASURED]
        if not len(rest):  # a small corpus is carried along whole
            rest = kept
        half = skills[kept].half()
        found = nearest(half.float(), skills[rest], clips[kept], clips[rest])
        typical, far = np.quantile(found.numpy(), (0.5, 0.99)).tolist()
        return cls(half.numpy(), typical, far, encoder.fingerprint())

    def save(self, path: Path) -> None:
        """Write one file."""
        told = {"typical": repr(self.typical), "far": repr(self.far)}
        data = save({"bank": self.skills}, told | {"encoder": self.encoder})
        write_file(path, data)

    @classmethod
    def load(cls, path: Path) -> "CorpusBank":
        """Read a file; says what is wrong with it."""
        try:
            with safe_open(path, framework="numpy") as file:
                told = file.metadata() or {}
                skills = file.get_tensor("bank")
            typical, far = (float(told[name]) for name in ("typical", "far"))
            return cls(skills, typical, far, told["encoder"])
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise ValueError(f"{path}: damaged or no skill bank ({error})") from None
