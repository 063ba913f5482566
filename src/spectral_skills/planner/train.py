"""Learn to plan: the run, top to bottom."""

import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from spectral_skills.artifact import Provenance
from spectral_skills.planner.data import Rows
from spectral_skills.planner.model import KIND, Planner
from spectral_skills.planner.text import TextEncoder
from spectral_skills.planner.trainer import PlanConfig, Trainer
from spectral_skills.results import hardware
from spectral_skills.runs import RunFolder, between_steps


class Sums:
    """Loss and norm of the gradient since the last evaluation, kept on the device."""

    def __init__(self, device: torch.device):
        self.bad = torch.full((), -1, device=device)
        """First update whose loss or gradient was not finite."""
        self.total, self.count = torch.zeros(2, device=device), 0

    def add(self, update: int, loss: Tensor, norm: Tensor) -> None:
        """Take in an update without waiting for the device."""
        row = torch.stack((loss, norm))
        broken = ~row.isfinite().all() & (self.bad < 0)
        self.bad = torch.where(broken, update, self.bad)
        self.total, self.count = self.total + row, self.count + 1

    def take(self) -> dict[str, float]:
        """Means by name; begins anew."""
        loss, norm = (self.total / max(self.count, 1)).tolist()
        self.total, self.count = torch.zeros_like(self.total), 0
        return {"loss": loss, "gradient_norm": norm}


def train(
    config: PlanConfig,
    rows: Rows,
    encoder: TextEncoder,
    out: Path,
    device: str,
    command: str = "",
    watch: Callable[[Path], None] = lambda run: None,
) -> Planner:
    """Train in the folder `out`, or go on there; gives the planner.

    `rows` lie on the device. `watch` is called with the folder whenever there is
    something new in its log.
    """
    if rows.device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    about = {"command": command, "hardware": hardware(device)}
    run = RunFolder(out, config, f"{rows.hash}+{encoder.name}", about)
    trainer = Trainer(config, rows, encoder)
    planner = trainer.planner
    state = {"update": 0, "seconds": 0.0}
    run.claim()
    if (found := run.load_checkpoint()) is not None:
        trainer.load(found[0])
        state |= found[1]
    run.begin_log(state["update"], goes_on=state["update"] < config.updates)

    sums = Sums(rows.device)
    if "sums" in state:
        sums.total = torch.tensor(state["sums"]).to(rows.device)
        sums.count = state["count"]
    began = time.monotonic() - state["seconds"]
    bar = tqdm(
        total=config.updates,
        initial=state["update"],
        unit=" updates",
        disable=None,  # None: none where there is no terminal
    )
    parents = {"controller": rows.about.controller, "skill": rows.about.encoder}
    provenance = Provenance(
        KIND,
        command=command,
        seed=config.seed,
        data_hash=rows.hash,
        parents={role: name for role, name in parents.items() if name},
    )

    def evaluate(update: int) -> None:
        _stop_if_broken(trainer, sums, run.path)
        row = {"update": update} | sums.take() | trainer.evaluate()
        state["seconds"] = time.monotonic() - began
        run.log(row | {"seconds": state["seconds"]})
        bar.write(_line(row))
        watch(run.path)

    def save() -> None:
        """Model first: the checkpoint says that everything before it is there."""
        _stop_if_broken(trainer, sums, run.path)
        state["seconds"] = time.monotonic() - began
        run.save_model(planner.config, planner.state_dict(), provenance)
        state.update(sums=sums.total.tolist(), count=sums.count)
        run.save_checkpoint(trainer.tensors(), state)

    try:
        with between_steps() as interrupted:
            if state["update"] >= config.updates:
                bar.write(f"nothing left to do: {state['update']:,} updates are done")
            planner.train()
            for update in range(state["update"] + 1, config.updates + 1):
                sums.add(update, *trainer.update(update))
                state["update"] = update
                bar.update()
                last = update == config.updates
                if update % config.evaluate_every == 0 or last:
                    evaluate(update)
                stop = interrupted()
                if update % config.checkpoint_every == 0 or last or stop:
                    save()
                if stop:
                    raise KeyboardInterrupt
    finally:
        bar.close()
        run.close()
    return planner.eval()


def _line(row: dict[str, float]) -> str:
    names = {"loss": "loss", "held_out": "held-out", "paraphrased": "other words"}
    told = [f"{name} {row[key]:.4f}" for key, name in names.items() if key in row]
    return "  ".join((f"{row['update']:>7,}", *told))


def _stop_if_broken(trainer: Trainer, sums: Sums, run: Path) -> None:
    """Refuse to go on from an update that was not finite; say what its batch tells."""
    if (update := int(sums.bad)) < 0:
        return
    row = trainer.broken_row(update)
    why = "its rows are finite, so try a lower learning rate"
    if row is not None:
        why = f"row {row} of the rows to learn from is not finite"
    raise ValueError(
        f"{run}: the loss of update {update:,} is not finite; {why}. The last "
        "checkpoint is as it was"
    )
