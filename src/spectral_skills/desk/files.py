"""Presets, takes, films and automation: the part of the page that keeps things."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import viser

from spectral_skills.atomic import write_file
from spectral_skills.control.rollout import Rollout
from spectral_skills.control.session import automation
from spectral_skills.desk import presets
from spectral_skills.desk.engine import Engine
from spectral_skills.desk.folder import RunFolder

_PRESET, _TAKE, _CSV = ".json", ".npz", ".csv"
_NONE = "(none saved yet)"
_RECORD, _STOP = "● Record a take", "■ Stop and save the take"


class Keeper:
    """Writes and reads the files of a run folder."""

    def __init__(self, engine: Engine, folder: RunFolder, tell: Callable[[str], None]):
        self._engine, self._folder, self._tell = engine, folder, tell
        self._filming = threading.Lock()
        self.saved = folder.stems(_PRESET)
        """Names of the presets."""

    def save_preset(self, typed: str) -> None:
        """Keep the desk as it is; one of the same name is replaced."""
        path = self._folder.file(typed, _PRESET)

        def keep(engine: Engine) -> None:
            presets.save(presets.taken(engine), path)
            self.saved = self._folder.stems(_PRESET)
            self._tell(f"Saved {path}.")

        self._engine.post(keep, self._tell)

    def load_preset(self, typed: str) -> None:
        """Put the desk as it was; if anything is wrong with it, nothing changes."""
        path = self._folder.file(typed, _PRESET)
        try:
            preset = presets.load(path, self._engine.bundle)
        except (ValueError, OSError, RecursionError) as error:
            self._tell(f"Nothing was changed. {error}")
            return
        self._engine.post(lambda engine: presets.apply(preset, engine), self._tell)
        self._tell(f"Loaded {path}.")

    def record(self) -> None:
        """Begin a take."""
        self._engine.post(lambda engine: engine.record(), self._tell)

    def stop(self, typed: str) -> None:
        """End the take, and keep it and its automation."""
        done: list[Rollout | None] = []
        ended = threading.Event()

        def end(engine: Engine) -> None:
            done.append(engine.stop_recording())
            ended.set()

        self._engine.post(end, self._tell)
        if not ended.wait(timeout=5.0) or done[0] is None:
            self._tell("There is no take to save: the robot made no step.")
            return
        take, path = done[0], self._folder.free(typed, _TAKE)
        take.save(path)
        write_file(path.with_suffix(_CSV), automation(take))
        self._tell(
            f"Saved {take.seconds:.1f} s: {path}, and its faders in "
            f"{path.with_suffix(_CSV).name}. To run it again: spectral steer --take "
            f"{path} --out DIR"
        )

    def film(self, typed: str) -> None:
        """Have the newest take of a name filmed; the robot goes on meanwhile."""
        path = self._newest(typed)
        if path is None:
            self._tell("There is no take to film; record one first.")
            return
        if not self._filming.acquire(blocking=False):
            self._tell("One film at a time; another one is being drawn.")
            return
        threading.Thread(target=self._film, args=(path,), daemon=True).start()

    def _newest(self, typed: str) -> Path | None:
        """The last take that was saved under a name, or else at all."""
        stem = self._folder.file(typed, "").name
        takes = [self._folder.file(name, _TAKE) for name in self._folder.stems(_TAKE)]
        ours = [path for path in takes if path.stem.startswith(stem)] or takes
        return max(ours, key=lambda path: path.stat().st_mtime, default=None)

    def _film(self, take: Path) -> None:
        self._tell(f"Drawing a film of {take.name}, several times as long as it is …")
        out = take.with_suffix("")
        module = "spectral_skills.desk.film"
        command = (sys.executable, "-m", module, str(take), str(out))
        try:
            made = subprocess.run(command, capture_output=True, text=True)
        finally:
            self._filming.release()
        if made.returncode:
            said = made.stderr.strip().splitlines()[-1:] or ["no reason was given"]
            self._tell(f"The film failed: {said[0]}")
        else:
            self._tell(f"Saved {', '.join(made.stdout.split())}.")


class FilesView:
    """The keeper's buttons."""

    def __init__(self, gui: viser.GuiApi, keeper: Keeper, engine: Engine):
        self._keeper, self._engine = keeper, engine
        self._name = gui.add_text("name", "take", hint="Of files in the run folder.")
        self._record = gui.add_button(_RECORD, color="red")
        self._record.on_click(self._on_record)
        film = gui.add_button("Film of the last take", icon=viser.Icon.MOVIE)
        film.on_click(lambda _: keeper.film(self._name.value))
        gui.add_divider()
        self._presets = gui.add_dropdown("preset", self._options())
        both = gui.add_button_group("", ("load", "save as name"))
        both.on_click(self._on_preset)

    def sync(self) -> None:
        """Show what is recorded and saved."""
        recording = self._engine.recorder is not None
        label = _STOP if recording else _RECORD
        if self._record.label != label:
            self._record.label = label
        options = self._options()
        if self._presets.options != options:
            self._presets.options = options

    def _options(self) -> tuple[str, ...]:
        return tuple(self._keeper.saved) or (_NONE,)

    def _on_record(self, _: Any) -> None:
        if self._engine.recorder is None:
            self._keeper.record()
        else:
            self._keeper.stop(self._name.value)

    def _on_preset(self, event: Any) -> None:
        if event.target.value == "load":
            self._keeper.load_preset(self._presets.value)
        else:
            self._keeper.save_preset(self._name.value)
