"""Inputs of the page that stand for something in the engine, both ways."""

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from spectral_skills.desk.engine import Engine

T = TypeVar("T")


class Bound(Generic[T]):
    """An input, and what it shows and changes.

    The engine is right: what somebody does on the page is posted to it, and what
    changes there otherwise, by a preset or a text, is shown on the page. While
    something is on its way to the engine, nothing comes back: a fader that somebody
    drags must not jump.
    """

    def __init__(
        self,
        handle: Any,
        engine: Engine,
        read: Callable[[], T],
        write: Callable[[Engine, T], None],
        refused: Callable[[str], None],
    ):
        self._handle, self._engine = handle, engine
        self._read, self._write, self._refused = read, write, refused
        self._shown: T = handle.value
        self._posted, self._lock = 0, threading.Lock()
        handle.on_update(self._on_update)

    def sync(self) -> bool:
        """Show what the engine has; gives whether that was news."""
        with self._lock:
            now = self._read()
            if self._posted or now == self._shown:
                return False
            self._shown = now
        self._handle.value = now
        return True

    async def _on_update(self, event: Any) -> None:
        if event.client is None:
            return  # we did it ourselves
        value = event.target.value
        with self._lock:
            self._posted += 1
            self._shown = value
        self._engine.post(lambda engine: self._do(engine, value), self._refused)

    def _do(self, engine: Engine, value: T) -> None:
        try:
            self._write(engine, value)
        finally:
            with self._lock:
                self._posted -= 1
