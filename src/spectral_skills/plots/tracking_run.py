"""What a controller's training reached, by frames and minutes, from its log."""

from pathlib import Path

from spectral_skills.results import Result
from spectral_skills.runs import read_about, read_log

_SHOWN = {
    "success_rate": ("success", "%", 100.0),
    "mpjpe_local_mm": ("MPJPE-L", "mm", 1.0),
    "mpjpe_global_mm": ("MPJPE-G", "mm", 1.0),
    "failures_per_s": ("failures in training", "1/s", 1.0),
    "episode_s": ("episode in training", "s", 1.0),
    "frames_per_s": ("rate", "frames/s", 1.0),
}


def tracking_results(run: Path, label: str) -> list[Result]:
    """A row for every probe of a run, traced to the run."""
    about = read_about(run)
    rows = [row for row in read_log(run) if "mpjpe_local_mm" in row]
    if not rows:
        raise ValueError(f"{run}: no probe in its log that tracked a clip to the end")
    results = []
    for row in rows:
        name = f"{row['frames'] / 1e6:,.0f} M frames"
        values = {"time": (row["seconds"] / 60, "min")}
        for key, (metric, unit, scale) in _SHOWN.items():
            values[metric] = scale * row[key], unit
        results += [
            Result(
                *(f"Tracking: learning on {label}", name, metric, value, unit),
                n=about["config"]["probe_clips"],
                seed=about["config"]["seed"],
                run=about["data"][:8],
                command=about["command"],
                hardware=about["hardware"],
            )
            for metric, (value, unit) in values.items()
        ]
    return results
