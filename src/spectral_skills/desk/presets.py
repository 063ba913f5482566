"""Presets: where everything on a desk stands, as one JSON file."""

import math
from dataclasses import dataclass, field
from pathlib import Path

from spectral_skills import config as configs
from spectral_skills.atomic import write_file
from spectral_skills.control.bundle import Bundle
from spectral_skills.control.mixer import FADE, FADES
from spectral_skills.control.schedules import RAMP_STEPS
from spectral_skills.desk.engine import Deck, Engine
from spectral_skills.robot import g1

VERSION = 1
FARTHEST = 30.0
"""Of a fader; skills are about 7 long."""
LONGEST_RAMP = 10 * g1.CONTROL_HZ


@dataclass(frozen=True)
class Strip:
    """A fader that is not as it was at first."""

    position: float = 0.0
    ramp: int = RAMP_STEPS
    """Control steps."""
    mute: bool = False
    solo: bool = False


@dataclass(frozen=True)
class Preset:
    """All of a desk but the robot."""

    version: int
    encoder: str
    """Fingerprint: the directions of another encoder mean something else."""
    a: str
    b: str
    live: Deck | None = None
    fade: int = FADE
    loop: bool = True
    strips: dict[str, Strip] = field(default_factory=dict)
    """By the names of their directions; those at rest are left away."""


def taken(engine: Engine) -> Preset:
    """The desk as it is."""
    strips = {}
    for name, channel in engine.mixer.channels.items():
        ramp = channel.fader.ramp
        strip = Strip(channel.position, ramp, channel.mute, channel.solo)
        if strip != Strip():
            strips[name] = strip
    decks = engine.decks
    return Preset(
        version=VERSION,
        encoder=engine.bundle.manifest.encoder,
        a=decks.a,
        b=decks.b,
        live=decks.live,
        fade=decks.fade,
        loop=engine.mixer.loop,
        strips=strips,
    )


def apply(preset: Preset, engine: Engine) -> None:
    """Put everything where a preset says; faders take their ramps to get there."""
    mixer = engine.mixer
    mixer.release()
    for channel in mixer.channels.values():
        channel.fader.ramp = RAMP_STEPS
    for name, strip in preset.strips.items():
        mixer.ramp(name, strip.ramp)
        mixer.hear(name, mute=strip.mute, solo=strip.solo)
        mixer.move(name, strip.position)
    engine.decks.a, engine.decks.b = preset.a, preset.b
    engine.fade(preset.fade)
    engine.loop(preset.loop)
    if preset.live is not None:
        engine.cross(preset.live)


def save(preset: Preset, path: Path) -> None:
    """Write a preset."""
    write_file(path, configs.dumps(preset))


def load(path: Path, bundle: Bundle) -> Preset:
    """Read a preset for a bundle; says what is wrong with it."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no preset here")
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: no text, so no preset") from None
    values = configs.parse(text, str(path))
    version = values.get("version") if isinstance(values, dict) else None
    if version != VERSION:
        raise ValueError(f"{path}: version {version!r}, this package reads {VERSION}")
    preset = configs.from_dict(Preset, values, str(path))
    _check(preset, bundle, str(path))
    return preset


def _check(preset: Preset, bundle: Bundle, where: str) -> None:
    """Refuse what this bundle cannot do, before anything is changed."""
    encoder = bundle.manifest.encoder
    if preset.encoder != encoder:
        raise ValueError(
            f"{where}: made for the encoder {preset.encoder}, and this bundle's is "
            f"{encoder}; open the bundle it was made with"
        )
    for deck in (preset.a, preset.b):
        if deck not in bundle.bases:
            known = ", ".join(bundle.bases)
            raise ValueError(f"{where}: no base {deck!r} here; there are {known}")
    if not FADES[0] <= preset.fade <= FADES[1]:
        told = f"{FADES[0]} to {FADES[1]}"
        raise ValueError(f"{where}: fade is {preset.fade} steps, must be {told}")
    names = () if bundle.directions is None else bundle.directions.names
    for name, strip in preset.strips.items():
        if name not in names:
            raise ValueError(f"{where}: no direction {name!r} in this bundle")
        if not math.isfinite(strip.position) or abs(strip.position) > FARTHEST:
            raise ValueError(
                f"{where}: {name} at {strip.position}, must be within ±{FARTHEST:g}"
            )
        if not 1 <= strip.ramp <= LONGEST_RAMP:
            raise ValueError(
                f"{where}: {name} has a ramp of {strip.ramp} steps, must be 1 to "
                f"{LONGEST_RAMP}"
            )
