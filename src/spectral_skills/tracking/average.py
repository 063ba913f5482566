"""The mean of two controllers, weight by weight.

A controller that was trained further and the one it began with are near enough for
their mean to be a controller too, which often does better than either what only one of
them does well (Wortsman et al., Robust fine-tuning of zero-shot models, 2022).
"""

from dataclasses import replace

from spectral_skills import config as configs
from spectral_skills.tracking.policy import Controller


def average(first: Controller, second: Controller, share: float) -> Controller:
    """A controller that is the second by `share`, and the first for the rest."""
    if not 0 <= share <= 1:
        raise ValueError(f"a share of {share}, must be within 0 and 1")
    released = first.config.released or second.config.released
    ours, theirs = (replace(c.config, released=released) for c in (first, second))
    if other := configs.differences(ours, theirs):
        name, value = next(iter(other.items()))
        raise ValueError(
            f"the first controller's {name} is {value}, the second's is another: only "
            "controllers of one kind, for one encoder, have a mean"
        )
    mean, before = Controller(theirs), first.state_dict()
    after = {k: v for k, v in second.state_dict().items() if k in mean.state_dict()}
    mixed = {
        name: before[name].lerp(value, share) if value.is_floating_point() else value
        for name, value in after.items()
    }
    mean.load_state_dict(mixed)
    return mean.eval()
