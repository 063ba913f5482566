"""Bundles that are kept have names of what they are made of."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spectral_skills.runtime import kept
from spectral_skills.tracking.policy import ControllerConfig


@pytest.fixture
def names(monkeypatch) -> list[str]:
    """Names of the folders that are asked for, of which none is made."""
    found = []

    def note(name: str, *_) -> Path:
        found.append(name)
        return Path(name)

    monkeypatch.setattr(kept.cache, "kept", note)
    return found


def models(**settings: Any) -> Any:
    controller = SimpleNamespace(config=ControllerConfig(**settings))
    hashes = {"controller": "a hash"}
    return SimpleNamespace(controller=controller, directions=None, hashes=hashes)


def test_settings_beside_the_weights_have_bundles_of_their_own(names):
    """A bundle of another smoothing or reach would be stale."""
    for settings in ({}, {"smoothing": 0.4}, {"reach": 0.4}, {"reach": 4.0}):
        kept.kept_bundle(models(**settings))
    assert len(set(names)) == len(names) == 4


@pytest.mark.parametrize(
    "table",
    [
        *(f"control/{name}.toml" for name in ("gestures", "stances")),
        *(f"planner/{name}.toml" for name in ("acts", "words")),
    ],
)
def test_a_changed_table_gives_another_bundle(table, names, monkeypatch):
    kept.kept_bundle(models())
    true = kept.cache._meaning

    def changed(file: Path) -> bytes:
        return true(file) + (b"#" if str(file).endswith(table) else b"")

    monkeypatch.setattr(kept.cache, "_meaning", changed)
    kept.kept_bundle(models())
    assert len(set(names)) == 2
