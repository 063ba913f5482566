"""A robot that was told what to do: its numbers, a strip of poses and a film."""

import json
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from PIL import Image, ImageDraw
from tqdm import tqdm

from spectral_skills.experiments.spoken import Spoken, SpokenStep
from spectral_skills.plots import ink, rollout_film
from spectral_skills.robot.render import Camera, RobotRenderer
from spectral_skills.rotation import yaw
from spectral_skills.skill.codes import SkillStream, save_stream

FILM_S = 20.0
"""Of a longer run the film shows the beginning."""
PANELS = 10
_POSE_PX, _BAND_PX, _HEAD_PX = 320, 62, 84
_LETTER_PX = 7.4
"""Of the band's letters, on average."""
_FILM_BAR_PX = 7


def show(spoken: Spoken) -> None:
    """Print what was understood and what became of it."""
    print(f"run         {spoken.text}")
    wide = max(len(told.sentence) for told in spoken.steps)
    for number, told in enumerate(spoken.steps):
        label = "" if number else "understood"
        span = f"{told.begin / spoken.fps:4.1f} to {told.end / spoken.fps:4.1f} s"
        print(f"{label:12s}{span}  {told.sentence:{wide}s}  {_meaning(told)}")
    travel_m, turn_deg = moved(spoken)
    print(f"falls       {_falls(spoken)}")
    print(f"travel      {travel_m:.2f} m, turned by {turn_deg:+.0f} deg")
    refused = f", {spoken.refused} refused as not finite" if spoken.refused else ""
    print(f"plans       {spoken.plans}, {spoken.plan_ms:.1f} ms each{refused}")


def as_json(spoken: Spoken) -> str:
    """Everything that `show` prints, for programs."""
    travel_m, turn_deg = moved(spoken)
    return json.dumps(
        {
            "run": spoken.text,
            "steps": [_entry(told, spoken.fps) for told in spoken.steps],
            "seconds": spoken.rollout.steps / spoken.fps,
            "fell": spoken.fell_at_s is not None,
            "fell_at_s": spoken.fell_at_s,
            "travel_m": travel_m,
            "turn_deg": turn_deg,
            "plans": spoken.plans,
            "plans_refused": spoken.refused,
            "plan_ms": spoken.plan_ms,
        },
        indent=1,
        allow_nan=False,
    )


def moved(spoken: Spoken) -> tuple[float, float]:
    """Metres from where the robot began to where it ended or fell, and degrees that it
    turned to the left on the way."""
    rows = _rows(spoken)
    if spoken.fell_at_s is not None:
        rows = rows[: round(spoken.fell_at_s * spoken.fps) + 1]
    headings = np.unwrap(yaw(torch.from_numpy(rows[:, 3:7])).numpy())
    away = rows[-1, :2] - rows[0, :2]
    turn = headings[-1] - headings[0]
    return float(np.linalg.norm(away)), float(np.degrees(turn))


def draw(spoken: Spoken, out: Path, film: bool, silent: bool = False) -> None:
    """Write the record, the skills, a strip of poses and a film into a folder."""
    paths = [("record", out / "run.npz")]
    spoken.rollout.save(paths[0][1])
    if spoken.encoder:
        skills = spoken.rollout.skills[:, 0].cpu().numpy()
        paths.append(("skills", out / "skills.npz"))
        stream = SkillStream(skills, spoken.text, spoken.fps, spoken.encoder)
        save_stream(paths[-1][1], stream)
    paths.append(("picture", out / "run.png"))
    strip(spoken, paths[-1][1])
    if film:
        fps = spoken.fps / rollout_film.STRIDE
        made = rollout_film.write(pictures(spoken), out / "run", fps)
        paths += [("film", path) for path in made]
    for what, path in [] if silent else paths:
        print(f"{what:12s}{path}")


def strip(spoken: Spoken, path: Path) -> None:
    """Write a PNG: poses over time, and under them what was told at that time."""
    tall_px = _HEAD_PX + _POSE_PX + _BAND_PX + 44
    figure = ink.sheet(tall_px)
    ink.headline(figure, _short(spoken.text, 80), _summary(spoken))
    left, right, gap = 0.03, 0.985, 0.004
    # A pose is that of the middle of its panel, so that the band below tells its time.
    wide = (right - left) / PANELS
    rows, count = _rows(spoken), spoken.rollout.steps
    frames = ((np.arange(PANELS) + 0.5) / PANELS * count).astype(int)
    sight = rollout_film.sight_deg(rows[:1])
    bottom = (_BAND_PX + 36) / tall_px
    size = round((wide - gap) * ink.WIDTH_PX), _POSE_PX
    with RobotRenderer(*size) as renderer:
        for number, frame in enumerate(frames.tolist()):
            place = float(rows[frame, 0]), float(rows[frame, 1]), 0.74
            camera = Camera(place, 5.0, sight, fovy_deg=22.0)
            picture = renderer.draw(rows[frame][None], camera)
            at = left + number * wide + gap / 2, bottom
            corner = *at, wide - gap, _POSE_PX / tall_px
            ink.panel(figure, corner, picture, f"{frame / spoken.fps:.1f} s")
    corner = (left, 30 / tall_px, right - left, _BAND_PX / tall_px)
    _band(figure.add_axes(corner), spoken)
    ink.save(figure, path)


def _band(axes: Axes, spoken: Spoken) -> None:
    """What was told, over the time of a run."""
    axes.set_xlim(0, spoken.rollout.steps)
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    edges = [0, *(told.end for told in spoken.steps)]
    axes.set_xticks(edges, [f"{edge / spoken.fps:.1f} s" for edge in edges])
    axes.tick_params(colors=ink.MUTED, labelsize=9.5, length=0, pad=4)
    first, *_, last = axes.get_xticklabels()
    first.set_horizontalalignment("left")
    last.set_horizontalalignment("right")
    step_px = axes.bbox.width / spoken.rollout.steps
    for told, colour in zip(spoken.steps, _colours(spoken), strict=True):
        room_px = (told.end - told.begin) * step_px - 16
        axes.axvspan(told.begin + 2 / step_px, told.end - 2 / step_px, color=colour)
        letters = max(6, int(room_px / _LETTER_PX))
        lines = [told.sentence, _short(_how(told), letters)] if _how(told) else []
        lines = lines or textwrap.wrap(told.sentence, letters)
        shown = "\n".join(_short(line, letters) for line in lines[:3])
        middle = (told.begin + told.end) / 2
        style: dict[str, Any] = {"ha": "center", "va": "center", "linespacing": 1.35}
        axes.text(middle, 0.5, shown, color="white", size=11, **style)


def pictures(spoken: Spoken) -> list[np.ndarray]:
    """Pictures (h, w, 3) of the robot, with what it is told above."""
    rows = _rows(spoken)
    stop = min(len(rows), round(FILM_S * spoken.fps))
    frames = np.arange(0, stop, rollout_film.STRIDE)
    sight = rollout_film.sight_deg(rows[:1])
    # The camera does not shake when the robot does.
    pace = 0.3 * spoken.fps / rollout_film.STRIDE
    middle = rollout_film.smooth(rows[frames, :2], pace)
    drawn = []
    with RobotRenderer(*rollout_film.SIZE, film=True) as renderer:
        steps = zip(frames.tolist(), middle.tolist(), strict=True)
        bar = tqdm(steps, total=len(frames), desc="film", unit="picture", disable=None)
        for frame, (x, y) in bar:
            told = spoken.step_at(frame)
            camera = Camera((x, y, 0.8), 4.6, sight, fovy_deg=26.0)
            picture = renderer.draw(rows[frame][None], camera)
            title = f"{_short(told.sentence, 46)}  {frame / spoken.fps:.2f} s"
            picture = rollout_film.captioned(picture, title, _short(_how(told), 60))
            drawn.append(_progress(picture, spoken, frame))
    return drawn


def _progress(picture: np.ndarray, spoken: Spoken, frame: int) -> np.ndarray:
    """A picture with a bar at its lower edge: the steps, and how far they are done.

    In greys: a GIF has too few colours for those of the strip.
    """
    image = Image.fromarray(picture)
    pen, total = ImageDraw.Draw(image), spoken.rollout.steps
    top, low = image.height - _FILM_BAR_PX, image.height
    pen.rectangle((0, top, image.width, low), fill=ink.RULE)
    if (done_px := round(frame / total * image.width)) > 0:
        pen.rectangle((0, top, done_px - 1, low), fill=ink.MUTED)
    for told in spoken.steps[:-1]:
        x = round(told.end / total * image.width)
        pen.rectangle((x - 1, top, x, low), fill="white")
    return np.asarray(image)


def _entry(told: SpokenStep, fps: float) -> dict[str, Any]:
    """A step, for programs."""
    return {
        "from_s": told.begin / fps,
        "to_s": told.end / fps,
        "sentence": told.sentence,
        "understood": told.understood,
        "motion": told.motion,
        "nearest": told.nearest,
        "cosine": told.cosine,
        "knobs": [
            {"direction": k.direction, "amplitude": k.amplitude, "does": k.effect}
            for k in told.knobs
        ],
    }


def _meaning(told: SpokenStep) -> str:
    """What a step was taken for."""
    if not told.understood:
        return f"not understood: {told.why}; keeps standing"
    added = "".join(f", {knob.label}" for knob in told.knobs)
    return f"as {told.motion} ({told.cosine:.2f}){added}"


def _how(told: SpokenStep) -> str:
    """What else there is to say of a step."""
    if not told.understood:
        return "not understood: keeps standing"
    return ", ".join(knob.label for knob in told.knobs)


def _summary(spoken: Spoken) -> str:
    """A line about a run."""
    travel_m, turn_deg = moved(spoken)
    fell = _falls(spoken)
    fell = "no fall" if fell == "no" else f"falls {fell}"
    return f"{travel_m:.1f} m away, turned by {turn_deg:+.0f} degrees, {fell}"


def _falls(spoken: Spoken) -> str:
    at = spoken.fell_at_s
    return "no" if at is None else f"at {at:.1f} s"


def _colours(spoken: Spoken) -> list[str]:
    """Of each step; what was not understood is grey."""
    palette = [colour for colour in ink.COLOURS if colour != ink.COLOURS[-1]]
    return [
        palette[number % len(palette)] if told.understood else ink.MUTED
        for number, told in enumerate(spoken.steps)
    ]


def _rows(spoken: Spoken) -> np.ndarray:
    """(T + 1, 36) of the robot; where the simulation broke it stays as it was last."""
    return rollout_film.unbroken(spoken.rollout.robot[:, 0].double().cpu().numpy())


def _short(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: max(1, letters - 1)].rstrip() + "…"
