"""Frozen dataclasses to JSON and back, losslessly; unknown keys are errors."""

import dataclasses
import json
import tomllib
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def to_dict(config: Any) -> Any:
    """Plain JSON values of a dataclass, nested ones included."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        names = [field.name for field in dataclasses.fields(config)]
        return {name: to_dict(getattr(config, name)) for name in names}
    if isinstance(config, tuple | list):
        return [to_dict(value) for value in config]
    if isinstance(config, dict):
        return {key: to_dict(value) for key, value in config.items()}
    if isinstance(config, Path):
        return str(config)
    return config


def from_dict(cls: type[T], values: Any, where: str = "") -> T:
    """Rebuild a dataclass; an error names the key that is unknown, missing or wrong."""
    where = where or cls.__name__
    if not isinstance(values, dict):
        raise ValueError(f"{where}: expected an object, found {values!r}")
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if unknown := sorted(set(values) - set(fields)):
        raise ValueError(
            f"{where}: unknown key {unknown[0]!r}; known are {', '.join(fields)}"
        )
    for name, field in fields.items():
        needed = field.default is field.default_factory is dataclasses.MISSING
        if needed and name not in values:
            raise ValueError(f"{where}: missing key {name!r}")
    given = values.items()
    return cls(**{k: _coerce(hints[k], v, f"{where}.{k}") for k, v in given})


def _coerce(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (types.UnionType, typing.Union):
        return _first_that_fits(arguments, value, where)
    if origin is typing.Literal:
        if not any(value == a and type(value) is type(a) for a in arguments):
            raise ValueError(f"{where}: {value!r} is not one of {arguments}")
        return value
    if dataclasses.is_dataclass(hint):
        return from_dict(hint, value, where)  # type: ignore[arg-type]
    if origin is tuple and isinstance(value, list | tuple):
        return _coerce_tuple(arguments, value, where)
    if origin is list and isinstance(value, list):
        pairs = enumerate(value)
        return [_coerce(arguments[0], v, f"{where}[{i}]") for i, v in pairs]
    if origin is dict and isinstance(value, dict):
        if arguments[0] is not str:
            raise TypeError(f"{where}: keys of a JSON object are strings")
        return {k: _coerce(arguments[1], v, f"{where}.{k}") for k, v in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Path and isinstance(value, str):
        return Path(value)
    expected = types.NoneType if hint is None else origin or hint
    # bool is a subclass of int, but `true` is no number.
    if not isinstance(value, expected) or (
        isinstance(value, bool) and expected is not bool
    ):
        name = getattr(expected, "__name__", expected)
        raise ValueError(f"{where}: expected {name}, found {value!r}")
    return value


def _coerce_tuple(arguments: tuple, value: Any, where: str) -> tuple:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        hints = (arguments[0],) * len(value)
    elif len(arguments) == len(value):
        hints = arguments
    else:
        raise ValueError(f"{where}: expected {len(arguments)} values, found {value!r}")
    pairs = zip(hints, value, strict=True)
    return tuple(_coerce(h, v, f"{where}[{i}]") for i, (h, v) in enumerate(pairs))


def _first_that_fits(hints: tuple, value: Any, where: str) -> Any:
    reasons = []
    for hint in hints:
        try:
            return _coerce(hint, value, where)
        except ValueError as error:
            reasons.append(str(error))
    raise ValueError("; or ".join(reasons))


def at_least(config: Any, least: float, *names: str) -> None:
    """Refuse a configuration in which one of these fields is smaller; None passes."""
    for name in names:
        value = getattr(config, name)
        if value is not None and value < least:
            raise ValueError(f"{name} is {value}, must be at least {least}")


def require(config: Any, name: str, holds: bool, rule: str) -> None:
    """Refuse a configuration unless a rule about one of its fields holds."""
    if not holds:
        raise ValueError(f"{name} is {getattr(config, name)}, must be {rule}")


def differences(config: Any, other: Any, prefix: str = "") -> dict[str, Any]:
    """Leaves of a config, by their dotted names, that differ from another config."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        ours, theirs = getattr(config, field.name), getattr(other, field.name)
        name = f"{prefix}{field.name}"
        if dataclasses.is_dataclass(ours) and dataclasses.is_dataclass(theirs):
            found |= differences(ours, theirs, f"{name}.")
        elif ours != theirs:
            found[name] = ours
    return found


def dumps(config: Any) -> str:
    """JSON text of a config, stable for hashing and diffing."""
    return json.dumps(to_dict(config), indent=2, allow_nan=False) + "\n"


def loads(cls: type[T], text: str, where: str = "") -> T:
    """Config from JSON text."""
    return from_dict(cls, parse(text, where or cls.__name__), where)


def parse(text: str, where: str) -> Any:
    """Values of JSON text; an error says where the text is damaged."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: not JSON: {error}") from error


def read_table(module: str, name: str = "") -> dict[str, Any]:
    """Values of a TOML file beside a module, by default the one with its name."""
    path = Path(module).with_name(name) if name else Path(module).with_suffix(".toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))
