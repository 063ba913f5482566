"""Presets: the positions of everything on a desk, as one JSON file."""

import math
from collections.abc import Iterator
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
"""Largest position of a fader; skills are about 7 long."""
LONGEST_RAMP = 10 * g1.CONTROL_HZ


@dataclass(frozen=True)
class FaderSetting:
    """A fader that is not at its default."""

    position: float = 0.0
    ramp: int = RAMP_STEPS
    """Length of its ramp in control steps."""
    mute: bool = False
    solo: bool = False


@dataclass(frozen=True)
class Preset:
    """Positions of everything on a desk but the robot."""

    version: int
    encoder: str
    """Fingerprint: the directions of another encoder mean something else."""
    a: str
    b: str
    live: Deck | None = None
    fade: int = FADE
    loop: bool = True
    strips: dict[str, FaderSetting] = field(default_factory=dict)
    """Faders that are not at their default, by the names of their directions."""

    @classmethod
    def of(cls, engine: Engine) -> "Preset":
        """The desk as it is."""
        decks, encoder = engine.decks, engine.bundle.manifest.encoder
        strips = {
            name: FaderSetting(one.position, one.fader.ramp, one.mute, one.solo)
            for name, one in engine.mixer.channels.items()
        }
        used = {name: one for name, one in strips.items() if one != FaderSetting()}
        more = decks.live, decks.fade, engine.mixer.loop, used
        return cls(VERSION, encoder, decks.a, decks.b, *more)

    def apply(self, engine: Engine) -> None:
        """Set up a desk; faders take their ramps to get there."""
        mixer = engine.mixer
        mixer.release()
        for channel in mixer.channels.values():
            channel.fader.ramp = RAMP_STEPS
        for name, strip in self.strips.items():
            mixer.ramp(name, strip.ramp)
            mixer.hear(name, mute=strip.mute, solo=strip.solo)
            mixer.move(name, strip.position)
        engine.decks.a, engine.decks.b = self.a, self.b
        engine.fade(self.fade)
        engine.loop(self.loop)
        if self.live is not None:
            engine.cross(self.live)

    def save(self, path: Path) -> None:
        write_file(path, configs.dumps(self))

    @classmethod
    def load(cls, path: Path, bundle: Bundle) -> "Preset":
        """Read a preset for a bundle, or say what is wrong with it."""
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no preset here")
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            raise ValueError(f"{path}: no text, so no preset") from None
        values = configs.parse(text, str(path))
        version = values.get("version") if isinstance(values, dict) else None
        if version != VERSION:
            raise ValueError(
                f"{path}: version {version!r}, this package reads {VERSION}"
            )
        preset = configs.from_dict(cls, values, str(path))
        for wrong in _faults(preset, bundle):
            raise ValueError(f"{path}: {wrong}")
        return preset


def _faults(preset: Preset, bundle: Bundle) -> Iterator[str]:
    """What a bundle cannot do, found before anything is changed."""
    encoder = bundle.manifest.encoder
    if preset.encoder != encoder:
        yield (
            f"made for the encoder {preset.encoder}, and this bundle's is {encoder}; "
            "open the bundle it was made with"
        )
    for deck in (preset.a, preset.b):
        if deck not in bundle.bases:
            yield f"no base {deck!r} here; there are {', '.join(bundle.bases)}"
    if not FADES[0] <= preset.fade <= FADES[1]:
        yield f"fade is {preset.fade} steps, must be {FADES[0]} to {FADES[1]}"
    names = () if bundle.directions is None else bundle.directions.names
    for name, strip in preset.strips.items():
        if name not in names:
            yield f"no direction {name!r} in this bundle"
        if not math.isfinite(strip.position) or abs(strip.position) > FARTHEST:
            yield f"{name} at {strip.position}, must be within ±{FARTHEST:g}"
        if not 1 <= strip.ramp <= LONGEST_RAMP:
            ramp = f"{name} has a ramp of {strip.ramp} steps"
            yield f"{ramp}, must be 1 to {LONGEST_RAMP}"
