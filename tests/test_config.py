"""Configs survive JSON without loss, and errors name the key."""

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectral_skills import config


@dataclass(frozen=True)
class Layer:
    width: int
    rate: float = 0.1
    activation: Literal["elu", "gelu"] = "elu"


@dataclass(frozen=True)
class Run:
    layers: tuple[Layer, ...]
    pair: tuple[int, str]
    best: Layer | None = None
    folder: Path = Path("runs")
    cache: Path | None = None
    weights: dict[str, float] = field(default_factory=dict)
    named: dict[str, Layer] = field(default_factory=dict)
    grid: tuple[tuple[float, ...], ...] = ()
    resume: bool = False
    label: str | None = None
    limit: int | float = 1
    extra: Any = None


numbers = st.floats(allow_nan=False, allow_infinity=False)
layers = st.builds(
    Layer,
    width=st.integers(),
    rate=numbers,
    activation=st.sampled_from(["elu", "gelu"]),
)
paths = st.text("abc/._", min_size=1).map(Path)
runs = st.builds(
    Run,
    layers=st.lists(layers, max_size=3).map(tuple),
    pair=st.tuples(st.integers(), st.text()),
    best=st.none() | layers,
    folder=paths,
    cache=st.none() | paths,
    weights=st.dictionaries(st.text(), numbers, max_size=3),
    named=st.dictionaries(st.text(), layers, max_size=2),
    grid=st.lists(st.lists(numbers, max_size=3).map(tuple), max_size=2).map(tuple),
    resume=st.booleans(),
    label=st.none() | st.text(),
    limit=st.integers() | numbers,
    extra=st.none() | st.integers() | st.text(),
)
SMALL = Run(layers=(Layer(3),), pair=(1, "a"))


@given(runs)
def test_round_trip_is_lossless(run):
    """Every field, with its type; the text itself is stable."""
    text = config.dumps(run)
    back = config.loads(Run, text)
    assert back == run
    # repr also tells 1 from 1.0, -0.0 from 0.0, tuples from lists.
    assert repr(back) == repr(run)
    assert config.dumps(back) == text


def test_text_is_plain_json():
    """Indented, one key a line, ending in a newline."""
    text = config.dumps(SMALL)
    assert json.loads(text)["layers"] == [
        {"width": 3, "rate": 0.1, "activation": "elu"}
    ]
    assert text.endswith("}\n") and '\n  "pair"' in text


def test_defaults_fill_what_is_left_out():
    """Fields with defaults may be missing."""
    found = config.loads(Run, '{"layers": [], "pair": [1, "a"]}')
    assert found == Run(layers=(), pair=(1, "a"))


def edited(path: tuple, value) -> dict:
    """SMALL as a dict with one value changed."""
    values = config.to_dict(SMALL)
    place = values
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return values


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("layer",), 1, "'layer'"),
        (("layers", 0, "widht"), 1, r"Run.layers\[0\]: unknown key 'widht'"),
        (("layers", 0, "width"), 1.5, r"Run.layers\[0\].width"),
        (("layers", 0, "width"), "3", r"Run.layers\[0\].width"),
        (("layers", 0, "width"), True, r"Run.layers\[0\].width"),
        (("layers", 0, "width"), None, r"Run.layers\[0\].width"),
        (("layers", 0, "rate"), "fast", r"Run.layers\[0\].rate"),
        (("layers", 0, "rate"), False, r"Run.layers\[0\].rate"),
        (("layers", 0, "activation"), "relu", r"activation: 'relu'.*elu.*gelu"),
        (("layers", 0), 3, r"Run.layers\[0\]: expected an object"),
        (("layers",), "abc", "Run.layers"),
        (("layers",), {}, "Run.layers"),
        (("pair",), [1], "Run.pair"),
        (("pair",), [1, "a", 2], "Run.pair"),
        (("pair",), ["a", "a"], r"Run.pair\[0\]"),
        (("best",), 1, "Run.best"),
        (("best",), {"width": "x"}, "Run.best.width"),
        (("folder",), 1, "Run.folder"),
        (("cache",), 1, "Run.cache"),
        (("weights",), [1], "Run.weights"),
        (("weights",), {"a": "b"}, "Run.weights.a"),
        (("named",), {"a": {}}, "Run.named.a: missing key 'width'"),
        (("grid",), [[1.0, "x"]], r"Run.grid\[0\]\[1\]"),
        (("resume",), 1, "Run.resume"),
        (("label",), 1, "Run.label"),
    ],
)
def test_wrong_values_name_the_key(path, value, named):
    """Unknown keys and wrong types, however deep."""
    with pytest.raises(ValueError, match=named):
        config.from_dict(Run, edited(path, value))


@pytest.mark.parametrize("key", ["layers", "pair"])
def test_missing_keys_are_named(key):
    """Fields without a default must be there."""
    values = config.to_dict(SMALL)
    del values[key]
    with pytest.raises(ValueError, match=f"missing key '{key}'"):
        config.from_dict(Run, values)


def test_unknown_key_lists_the_known_ones():
    """So that a misspelling is obvious."""
    with pytest.raises(ValueError, match="known are width, rate, activation"):
        config.from_dict(Layer, {"width": 1, "wdith": 2})


def test_errors_say_where():
    """The file's name leads, for bad JSON too."""
    with pytest.raises(ValueError, match="runs/a.json: unknown key"):
        config.loads(Layer, '{"width": 1, "x": 1}', "runs/a.json")
    with pytest.raises(ValueError, match="runs/a.json: not JSON"):
        config.loads(Layer, "{", "runs/a.json")
    with pytest.raises(ValueError, match="Layer: expected an object"):
        config.loads(Layer, "[]")


def test_whole_numbers_become_floats():
    """JSON writers elsewhere drop the point; true is still no number."""
    rate = config.loads(Layer, '{"width": 1, "rate": 2}').rate
    assert rate == 2.0 and isinstance(rate, float)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_not_a_number_is_not_written(value):
    """JSON has no NaN; a reader elsewhere would choke."""
    with pytest.raises(ValueError):
        config.dumps(Layer(1, value))


@dataclass(frozen=True)
class Numbered:
    rates: dict[int, float]


def test_keys_that_are_no_strings_are_kept_or_refused():
    """JSON keys are strings: {1: 2.0} must not silently come back as {"1": 2.0}."""
    before = Numbered({1: 2.0})
    try:
        after = config.loads(Numbered, config.dumps(before))
    except (TypeError, ValueError):
        return
    assert after == before


@dataclass(frozen=True)
class Listed:
    layers: list[Layer]


def test_lists_are_rebuilt_or_refused():
    """A list of dataclasses must not silently come back as a list of dicts."""
    before = Listed([Layer(1)])
    try:
        after = config.loads(Listed, config.dumps(before))
    except (TypeError, ValueError):
        return
    assert after == before


@dataclass(frozen=True)
class Chosen:
    level: Literal[0, 1]


def test_true_is_not_the_literal_one():
    """True == 1 in Python, not in a config."""
    with pytest.raises(ValueError, match="level"):
        config.loads(Chosen, '{"level": true}')


def test_configs_are_not_shared():
    """Reading gives fresh containers: the source values are not aliased."""
    values = config.to_dict(dataclasses.replace(SMALL, weights={"a": 1.0}))
    run = config.from_dict(Run, values)
    values["weights"]["a"] = 2.0
    assert run.weights == {"a": 1.0}
