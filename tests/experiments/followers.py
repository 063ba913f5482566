"""Robots that follow a corpus without physics."""

import numpy as np
import torch

from spectral_skills.robot import g1


class Followers:
    """Robots that step from a row of a corpus to the next one of the same clip."""

    def __init__(self, count: int, corpus, drop: str = ""):
        self.count, self.device = count, torch.device("cpu")
        self.qpos, self.qvel = torch.zeros(count, 36), torch.zeros(count, 35)
        self.targets = torch.zeros(count, g1.NUM_JOINTS)
        self.broken = torch.zeros(count, dtype=torch.bool)
        rows, following, self.low = [], [], -1
        total = 0
        for i, name in enumerate(corpus.names):
            rows.append(torch.tensor(np.array(corpus.qpos(i))))
            end = total + len(rows[-1])
            following.append(torch.arange(total + 1, end + 1).clamp_max(end - 1))
            if name == drop:
                self.low = total + 10
            total = end
        self.rows, self.following = torch.cat(rows), torch.cat(following)

    def step(self) -> None:
        # Known by all but the height, which may have been lowered.
        apart = (self.qpos[:, None] - self.rows).abs()
        apart[..., 2] = 0.0
        at = self.following[apart.amax(dim=-1).argmin(dim=1)]
        self.qpos.copy_(self.rows[at])
        self.qpos[at == self.low, 2] -= 0.5
