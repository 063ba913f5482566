"""Speed of pretraining against what its matrix products alone need."""

import time
from dataclasses import replace

import torch
from motion import random_motions
from report import main
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from spectral_skills.results import Result
from spectral_skills.skill.predictor import AffineFeatures, weighted_sum
from spectral_skills.skill.trainer import PretrainConfig, Trainer

_TABLE = "Pretraining"


class _FormedWhole(AffineFeatures):
    """The same features with F(X) formed, as the equation is written."""

    def forward(self, context: Tensor, skill: Tensor) -> Tensor:
        e, r, width = self.weight.shape
        weight, bias = self.weight.view(-1, width), self.bias.view(-1)
        formed = torch.nn.functional.linear(self.trunk(context), weight, bias)
        return weighted_sum(formed.view(-1, e, r), self.skill_map(skill)) / e**0.5


def pretrain(device: str) -> list[Result]:
    """Time, arithmetic and memory of an update at the paper's sizes."""
    cuda = torch.device(device).type == "cuda"
    config = PretrainConfig()
    if not cuda:
        config = replace(config, batch=64)
    torch.set_float32_matmul_precision("high")
    motions = random_motions(device)
    results = []
    for row, whole in (("update", False), ("update, F(X) formed whole", True)):
        trainer = Trainer(config, motions, compiled=cuda)
        if whole:
            trainer.model.head.predictor.features.__class__ = _FormedWhole  # type: ignore
        with FlopCounterMode(display=False) as counter:
            _eager(trainer)
        work = counter.get_total_flops() / 1e12
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        seconds = _seconds_an_update(trainer, 30 if cuda else 3)
        row = f"{row}, batch {config.batch:,}"
        goal = "at most 22" if cuda and not whole else ""
        cells = [
            ("time", 1e3 * seconds, "ms", goal),
            ("arithmetic", work, "TFLOP", ""),
            ("rate", work / seconds, "TFLOP/s", ""),
        ]
        if cuda:
            memory = torch.cuda.max_memory_allocated() / 2**30
            cells.append(("peak memory", memory, "GiB", ""))
        results += [
            Result(_TABLE, row, metric, value, unit, n=30, paper=paper)
            for metric, value, unit, paper in cells
        ]
        del trainer
    return results


def _eager(trainer: Trainer) -> None:
    """One update that is not compiled: there the counter sees the products."""
    compiled, trainer.predict = trainer.predict, trainer._predict
    trainer.update(1)
    trainer.predict = compiled


def _seconds_an_update(trainer: Trainer, count: int) -> float:
    """Best of three runs of `count` updates each, after a warm-up."""
    for update in range(1, 4):
        trainer.update(update)
    times = []
    for _ in range(3):
        _wait(trainer.device)
        start = time.perf_counter()
        for update in range(4, 4 + count):
            trainer.update(update)
        _wait(trainer.device)
        times.append((time.perf_counter() - start) / count)
    return min(times)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main(pretrain)
