"""What happened to all robots: sums kept on the device, read once in a while."""

import torch
from torch import Tensor

from spectral_skills.tracking.rewards import STEP_S
from spectral_skills.tracking.terminations import CAUSES

_CAUSES = (*CAUSES, "broken")


def summed(
    terms: dict[str, Tensor], causes: Tensor, done: Tensor, age: Tensor
) -> Tensor:
    """One step of n robots as a vector of sums, for `Tally`."""
    means = [term.nan_to_num().mean() for term in terms.values()]
    failed = causes.any(dim=1).sum()
    ended = torch.stack((done.sum(), failed, torch.where(done, age, 0).sum()))
    return torch.cat((torch.stack(means), causes.sum(0).float(), ended.float()))


class Tally:
    """Means over steps: reward and its terms, failures by cause, length of episodes."""

    def __init__(self, names: list[str], robots: int, device: torch.device):
        self.names, self.robots = names, robots
        width = len(names) + len(_CAUSES) + 3
        self._sums, self._steps = torch.zeros(width, device=device), 0

    def add(self, sums: Tensor) -> None:
        """Take in a step."""
        self._sums += sums
        self._steps += 1

    def read(self) -> dict[str, float]:
        """Means since the last call; waits for the device.

        Rewards are by the second, failures by robot and second.
        """
        if not self._steps:
            return {}
        values = self._sums.tolist()
        seconds = self._steps * STEP_S
        self._sums.zero_()
        self._steps = 0
        terms, rest = values[: len(self.names)], values[len(self.names) :]
        counts, (done, failed, lived) = rest[:-3], rest[-3:]
        found = {"reward": sum(terms) / seconds}
        named = zip(self.names, terms, strict=True)
        found |= {f"reward/{name}": value / seconds for name, value in named}
        by_cause = zip(_CAUSES, counts, strict=True)
        robot_seconds = seconds * self.robots
        found |= {f"cause/{name}": count / robot_seconds for name, count in by_cause}
        found["failures_per_s"] = failed / robot_seconds
        found["episode_s"] = lived / max(done, 1.0) * STEP_S
        return found
