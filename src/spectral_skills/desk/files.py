"""Files of the desk: presets, takes, films and automation.

`python -m spectral_skills.desk.files TAKE FILM` films a take. It runs in a process of
its own: drawing needs torch and a core, and the robot on the page needs neither.
"""

import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import viser

from spectral_skills import config as configs
from spectral_skills.atomic import write_file
from spectral_skills.control.bundle import Bundle
from spectral_skills.control.mixer import FADES
from spectral_skills.control.rollout import Rollout
from spectral_skills.control.session import automation
from spectral_skills.control.steering import RAMP_STEPS
from spectral_skills.control.streams import FADE
from spectral_skills.desk.controls import Controls
from spectral_skills.desk.engine import Deck, Engine, Notify
from spectral_skills.robot import g1

VERSION = 1
FARTHEST = 30.0
"""Largest position of a fader; skills are about 6 long."""
LONGEST_RAMP = 10 * g1.CONTROL_HZ
LONGEST_FILM_S = 30.0
"""Length of a film; of a longer take it shows the beginning."""
_NICE = 10
"""Niceness of the process that draws films."""
_LONGEST_NAME = 60
_RESERVED = re.compile(r"con|prn|aux|nul|(?:com|lpt)\d")
"""Names that some systems reserve."""
_PRESET, _TAKE, _CSV = ".json", ".npz", ".csv"
_NONE = "(none saved yet)"
_RECORD, _STOP = "● Record a take", "■ Stop and save the take"


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
        """Return the desk as it is."""
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
            raise ValueError(f"{path}: not a text file, so not a preset") from None
        values = configs.parse(text, str(path))
        version = values.get("version") if isinstance(values, dict) else None
        if version != VERSION:
            raise ValueError(
                f"{path}: version {version!r}, this package reads {VERSION}"
            )
        preset = configs.from_dict(cls, values, str(path))
        for wrong in preset._faults(bundle):
            raise ValueError(f"{path}: {wrong}")
        return preset

    def _faults(self, bundle: Bundle) -> Iterator[str]:
        """Yield what a bundle cannot do, before anything is changed."""
        encoder = bundle.manifest.encoder
        if self.encoder != encoder:
            yield (
                f"made for the encoder {self.encoder}, and this bundle's is {encoder}; "
                "open the bundle it was made with"
            )
        for deck in (self.a, self.b):
            if deck not in bundle.bases:
                yield f"no base {deck!r} here; there are {', '.join(bundle.bases)}"
        if not FADES[0] <= self.fade <= FADES[1]:
            yield f"fade is {self.fade} steps, must be {FADES[0]} to {FADES[1]}"
        names = () if bundle.directions is None else bundle.directions.names
        for name, strip in self.strips.items():
            if name not in names:
                yield f"no direction {name!r} in this bundle"
            if not math.isfinite(strip.position) or abs(strip.position) > FARTHEST:
                yield f"{name} at {strip.position}, must be within ±{FARTHEST:g}"
            if not 1 <= strip.ramp <= LONGEST_RAMP:
                ramp = f"{name} has a ramp of {strip.ramp} steps"
                yield f"{ramp}, must be 1 to {LONGEST_RAMP}"


def safe_stem(typed: str) -> str:
    """Return a file name for what somebody typed: letters, digits, `-` and `_`."""
    stem = re.sub(r"[^\w-]+", "-", typed, flags=re.ASCII).strip("-_")
    stem = stem[:_LONGEST_NAME].rstrip("-_") or "untitled"
    return f"{stem}-file" if _RESERVED.fullmatch(stem.lower()) else stem


class Keeper:
    """Writes and reads the files of a desk, all in one folder."""

    def __init__(self, engine: Engine, folder: Path, notify: Notify):
        if folder.is_file():
            raise ValueError(f"{folder}: a file; name a folder")
        self._engine, self._folder, self._notify = engine, folder, notify
        self._filming = threading.Lock()
        self.presets = self._presets()

    def _presets(self) -> tuple[str, ...]:
        return tuple(sorted(path.stem for path in self._folder.glob(f"*{_PRESET}")))

    def file(self, typed: str, suffix: str) -> Path:
        return self._folder / f"{safe_stem(typed)}{suffix}"

    def free(self, typed: str, suffix: str) -> Path:
        """The file of a typed name, numbered if it exists already."""
        path, number = self.file(typed, suffix), 1
        while path.exists():
            number += 1
            path = self._folder / f"{safe_stem(typed)}-{number}{suffix}"
        return path

    def save_preset(self, typed: str) -> None:
        """Save the desk as it is, in place of a preset of the same name."""
        path = self.file(typed, _PRESET)

        def keep(engine: Engine) -> None:
            Preset.of(engine).save(path)
            self.presets = self._presets()
            self._notify(f"Saved {path}.")

        self._engine.post(keep, self._notify)

    def load_preset(self, typed: str) -> None:
        """Set up the desk by a preset; a preset with a fault changes nothing."""
        path = self.file(typed, _PRESET)
        try:
            preset = Preset.load(path, self._engine.bundle)
        except (ValueError, OSError, RecursionError) as error:
            self._notify(f"Nothing was changed. {error}")
            return
        self._engine.post(preset.apply, self._notify)
        self._notify(f"Loaded {path}.")

    def record(self, typed: str) -> None:
        """Begin a take or, if there is one, end it and save it and its automation."""
        if self._engine.recorder is None:
            self._engine.post(lambda engine: engine.record(), self._notify)
            return
        done: list[Rollout | None] = []
        ended = threading.Event()

        def end(engine: Engine) -> None:
            done.append(engine.stop_recording())
            ended.set()

        self._engine.post(end, self._notify)
        if not ended.wait(timeout=5.0) or done[0] is None:
            self._notify("There is no take to save: the robot made no step.")
            return
        take, path = done[0], self.free(typed, _TAKE)
        take.save(path)
        write_file(path.with_suffix(_CSV), automation(take))
        self._notify(
            f"Saved {take.seconds:.1f} s: {path}, and its faders in "
            f"{path.with_suffix(_CSV).name}. To run it again: spectral steer --take "
            f"{path} --out DIR"
        )

    def film(self, typed: str) -> None:
        """Film the newest take of a name, or else of all, while the robot continues."""
        takes = list(self._folder.glob(f"*{_TAKE}"))
        ours = [path for path in takes if path.stem.startswith(safe_stem(typed))]
        path = max(ours or takes, key=lambda path: path.stat().st_mtime, default=None)
        if path is None:
            self._notify("There is no take to film; record one first.")
        elif not self._filming.acquire(blocking=False):
            self._notify("One film at a time; another one is being drawn.")
        else:
            threading.Thread(target=self._film, args=(path,), daemon=True).start()

    def _film(self, take: Path) -> None:
        self._notify(f"Drawing a film of {take.name}; this takes a while …")
        module, out = "spectral_skills.desk.files", take.with_suffix("")
        command = (sys.executable, "-m", module, str(take), str(out))
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        finally:
            self._filming.release()
        if done.returncode:
            reason = done.stderr.strip().splitlines()[-1:] or ["no reason was given"]
            self._notify(f"The film failed: {reason[0]}")
        else:
            self._notify(f"Saved {', '.join(done.stdout.split())}.")


def add_files(controls: Controls, keeper: Keeper) -> None:
    """Add a name for files, and buttons to record, film, load and save."""
    gui, engine = controls.gui, controls.engine
    name = gui.add_text("name", "take", hint="Name of files in the desk's folder.")
    record = gui.add_button(_RECORD, color="red")
    record.on_click(lambda _: keeper.record(name.value))
    controls.show(
        record, "label", lambda: _RECORD if engine.recorder is None else _STOP
    )
    film = gui.add_button("Film of the last take", icon=viser.Icon.MOVIE)
    film.on_click(lambda _: keeper.film(name.value))
    gui.add_divider()
    presets = gui.add_dropdown("preset", keeper.presets or (_NONE,))
    controls.show(presets, "options", lambda: keeper.presets or (_NONE,))
    both = {
        "load": lambda: keeper.load_preset(presets.value),
        "save as name": lambda: keeper.save_preset(name.value),
    }
    controls.buttons("", lambda: both)


def main() -> None:
    """Film a take, given the path of the film without its suffix."""
    from spectral_skills.plots.film import write_film

    os.nice(_NICE)
    take, path = (Path(argument) for argument in sys.argv[1:])
    record = replace(Rollout.load(take), names=(path.stem,))
    films = write_film(record, path, most_s=LONGEST_FILM_S, caption="blue: the base")
    print(*films, sep="\n")


if __name__ == "__main__":
    main()
