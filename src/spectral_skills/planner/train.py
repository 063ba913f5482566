"""Learn to plan: the run, top to bottom."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from spectral_skills import training
from spectral_skills.artifact import Provenance
from spectral_skills.planner.data import Rows
from spectral_skills.planner.model import KIND, Planner
from spectral_skills.planner.text import TextEncoder
from spectral_skills.planner.trainer import PlanConfig, Trainer
from spectral_skills.results import hardware
from spectral_skills.runs import RunFolder


def train(
    config: PlanConfig,
    rows: Rows,
    encoder: TextEncoder,
    out: Path,
    device: str,
    command: str = "",
    watch: Callable[[Path], None] = lambda run: None,
) -> Planner:
    """Train in the folder `out`, or continue there; returns the planner.

    `rows` are on the device. `watch` is called with the folder whenever its log has
    something new.
    """
    if rows.device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    about = {"command": command, "hardware": hardware(device)}
    parents = {"controller": rows.about.controller, "skill": rows.about.encoder}
    parents = {role: name for role, name in parents.items() if name}
    provenance = Provenance(KIND, command, config.seed, rows.hash, parents)
    with RunFolder(out, config, f"{rows.hash}+{encoder.name}", about) as run:
        job = PlanTraining(config, rows, encoder, run, provenance)
        every = config.checkpoint_every
        training.train(run, job, config.updates, every, watch=watch)
    return job.trainer.planner.eval()


class PlanTraining:
    """Trainer and record of a run."""

    def __init__(
        self,
        config: PlanConfig,
        rows: Rows,
        encoder: TextEncoder,
        run: RunFolder,
        provenance: Provenance,
    ):
        self.config, self.run, self.provenance = config, run, provenance
        self.trainer = Trainer(config, rows, encoder)
        self.means = training.Means(("loss", "gradient_norm"), rows.device)
        self.state: dict[str, Any] = {"update": 0, "seconds": 0.0}
        if (found := run.load_checkpoint()) is not None:
            self.trainer.load(found[0])
            self.state |= found[1]
            self.means.load(self.state)
        self.trainer.planner.train()

    def step(self, until: float) -> None:
        """One update."""
        update = self.state["update"] + 1
        self.means.add(update, self.trainer.update(update))
        self.state["update"] = update

    def report(self, before: int, ended: bool) -> training.LogEntry | None:
        """Losses on robots held out."""
        update = self.state["update"]
        if not (training.crossed(before, update, self.config.evaluate_every) or ended):
            return None
        self.means.check(self.run.path, self._explain)
        row = {"update": update} | self.means.take() | self.trainer.evaluate()
        names = {"loss": "loss", "held_out": "held-out", "paraphrased": "other words"}
        parts = [f"{name} {row[key]:.4f}" for key, name in names.items() if key in row]
        line = "  ".join((f"{update:>7,}", *parts))
        return training.LogEntry(row | {"seconds": self.state["seconds"]}, line)

    def save(self) -> None:
        """Model first: a checkpoint promises that everything before it is there."""
        self.means.check(self.run.path, self._explain)
        planner = self.trainer.planner
        self.run.save_model(planner.config, planner.state_dict(), self.provenance)
        self.state |= self.means.state()
        self.run.save_checkpoint(self.trainer.tensors(), self.state)

    def stopped(self) -> str:
        return ""

    def _explain(self, update: int) -> str:
        """What the batch of a broken update says about its cause."""
        row = self.trainer.broken_row(update)
        if row is None:
            return "its rows are finite, so try a lower learning rate"
        return f"row {row} of the rows to learn from is not finite"
