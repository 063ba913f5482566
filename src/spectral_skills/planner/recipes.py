"""Named training runs of a planner."""

from collections.abc import Callable

from spectral_skills.planner.head import HeadConfig
from spectral_skills.planner.train import PlanConfig


def base() -> PlanConfig:
    """The released planner: the paper's layout at a hundredth of the size, so that a
    plan takes a CPU core less than a control step."""
    head = HeadConfig(
        layers=6,
        heads=4,
        width=256,
        mlp=2,
        state_hidden=512,
        output=256,
        dropout=0.0,
        positions=30,
    )
    return PlanConfig(
        head=head,
        batch=256,
        learning_rate=4e-4,
        word_dropout=0.1,
        word_noise=0.4,
        evaluate_every=1000,
        checkpoint_every=3000,
    )


def smoke() -> PlanConfig:
    """The same code at a small size: seconds on a CPU."""
    head = HeadConfig(
        layers=2, heads=2, width=64, mlp=2, state_hidden=64, output=64, positions=30
    )
    return PlanConfig(
        head=head,
        updates=200,
        batch=32,
        learning_rate=2e-3,
        evaluate_every=50,
        evaluation_rows=64,
        checkpoint_every=50,
    )


PLAN: dict[str, Callable[[], PlanConfig]] = {
    "paper": PlanConfig,  # 522 M parameters
    "base": base,
    "smoke": smoke,
}
