"""What a training run tells whoever watches it: a bar, and a line now and then."""

import math
from typing import Any

from tqdm import tqdm

_MANY_BEYOND = 0.01
"""Share of what critics believe that lies on their outermost atoms, from which on it
is told: values are being cut off."""


class Bar:
    """How far a run is: by frames, or by minutes where those are limited."""

    def __init__(self, frames: int, until: float, state: dict[str, Any], silent: bool):
        self.timed, self.silent = until < math.inf, silent
        disable = silent or None  # None: no bar where there is no terminal
        self.began = state["frames"], state["seconds"]
        if self.timed:
            self.bar = tqdm(
                total=until - state["seconds"],
                bar_format="{percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}",
                disable=disable,
            )
        else:
            self.bar = tqdm(
                total=frames,
                initial=state["frames"],
                unit=" frames",
                unit_scale=True,
                disable=disable,
            )

    def show(self, state: dict[str, Any]) -> None:
        """Move to where the run is."""
        frames, seconds = state["frames"], state["seconds"]
        if self.timed:
            rate = (frames - self.began[0]) / max(seconds - self.began[1], 1e-9)
            told = f"{short(frames)} frames, {short(rate)} a second"
            self.bar.set_postfix_str(told, refresh=False)
        now = seconds - self.began[1] if self.timed else frames
        if self.bar.disable:
            return
        # The last iteration may go beyond; a bar beyond its end is none.
        self.bar.update(min(now, self.bar.total) - self.bar.n)

    def write(self, text: str) -> None:
        """A line above the bar, or in its place."""
        if not self.silent:
            tqdm.write(text)

    def close(self) -> None:
        self.bar.close()


def line(row: dict[str, float]) -> str:
    """The most important of a row of the log."""
    parts = [f"{short(row['frames']):>7}"]
    if "success_rate" in row:
        parts.append(f"success {100 * row['success_rate']:.1f} %")
        for name, key in (("L", "mpjpe_local_mm"), ("G", "mpjpe_global_mm")):
            if key in row:
                parts.append(f"{name} {row[key]:.0f} mm")
    shown = (
        ("reward", "reward", "{:.2f}"),
        ("failures/s", "failures_per_s", "{:.2f}"),
        ("episode", "episode_s", "{:.1f} s"),
        ("KL", "kl", "{:.3f}"),
        ("value", "value", "{:.2f}"),
        ("lr", "actor_lr", "{:.0e}"),
        ("critic", "critic_lr", "{:.0e}"),
        ("std", "std", "{:.2f}"),
        ("temperature", "temperature", "{:.0e}"),
        ("evenness", "sampler_entropy", "{:.2f}"),
    )
    parts += [f"{name} {form.format(row[k])}" for name, k, form in shown if k in row]
    if (beyond := row.get("end_atoms", 0.0)) > _MANY_BEYOND:
        parts.append(f"values beyond the atoms {100 * beyond:.0f} %")
    causes = {k.removeprefix("cause/"): v for k, v in row.items() if "cause/" in k}
    by_cause = [f"{k.replace('_', ' ')} {v:.2f}" for k, v in causes.items() if v]
    parts += [f"({', '.join(by_cause)})"] if by_cause else []
    troubles = {k: int(row.get(k, 0)) for k in ("contacts", "constraints", "broken")}
    parts += [f"{name} {count:,}" for name, count in troubles.items() if count]
    return "  ".join([*parts, f"{short(row['frames_per_s'])}/s"])


def short(count: float) -> str:
    """A count with three digits and k, M or B."""
    for size, name in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g} {name}"
    return f"{count:.0f}"
