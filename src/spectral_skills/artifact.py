"""A model is a folder: config.json, weights*.safetensors, provenance.json.

Nothing is pickled. What is not always needed, such as a released predictor, lies beside
the weights under a name of its own and is read only when it is asked for. A folder is
written beside its place and moved there whole, so a reader sees the old model or the
new one, never half of either.
"""

import hashlib
import json
import platform
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from spectral_skills import atomic
from spectral_skills import config as configs

T = TypeVar("T")
VERSION = 1
PRETRAINED = Path(__file__).parent / "pretrained"
"""Folder of the models that come with the package."""
RELEASED = "base"
"""Name of these models, accepted wherever a folder is."""
SHARD_BYTES = 16 << 20
"""Largest size of a file of released weights."""
_CONFIG, _PROVENANCE = "config.json", "provenance.json"
_WEIGHTS, PREDICTOR = "weights", "predictor"
"""Beginnings of the names of files of tensors."""
_UNROUNDED = "unrounded"
"""Role of the weights that a released model was rounded from."""


@dataclass(frozen=True)
class Provenance:
    """The origin of a model: enough to trace a number back to a command."""

    kind: str
    """Content of the folder: skill, controller, planner or directions."""
    command: str = ""
    seed: int = 0
    data_hash: str = ""
    """Hash of the corpus the model was trained on."""
    parents: dict[str, str] = field(default_factory=dict)
    """Models this one depends on, by role, with their weight hashes."""
    versions: dict[str, str] = field(default_factory=dict)
    weights_hash: str = ""
    format_version: int = VERSION
    frames: int = 0
    """Number of control steps that a controller has learned from, with its parents'."""
    beside: dict[str, str] = field(default_factory=dict)
    """Other tensors in the folder, with their hashes."""

    @property
    def unrounded(self) -> str:
        """Hash of the weights that a released model was rounded from, if it was."""
        return self.parents.get(_UNROUNDED, "")

    def is_of(self, weights_hash: str) -> bool:
        """Whether the weights are those of a hash, or were rounded from them."""
        return bool(weights_hash) and weights_hash in (
            self.weights_hash,
            self.unrounded,
        )


@cache
def installed_versions() -> dict[str, str]:
    """Versions of packages that a result may depend on."""
    names = ("spectral-skills", "torch", "numpy", "mujoco", "mujoco-warp", "mjlab")
    found = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def save(
    folder: Path,
    config: Any,
    weights: dict[str, Tensor],
    provenance: Provenance,
    max_shard_bytes: int | None = None,
    beside: Mapping[str, dict[str, Tensor]] = MappingProxyType({}),
) -> None:
    """Write a model folder; `max_shard_bytes` splits the weights into files, and
    `beside` are other tensors, by name.

    A model in that place is replaced; a folder with anything else is refused.
    """
    refuse_foreign(folder)
    with atomic.replacing_folder(folder) as temporary:
        for name, tensors in {_WEIGHTS: weights, **beside}.items():
            shards = _shards(tensors, max_shard_bytes)
            for number, shard in enumerate(shards, 1):
                of = "" if len(shards) == 1 else f"-{number:02d}-of-{len(shards):02d}"
                write_tensors(temporary / f"{name}{of}.safetensors", shard)
        stamped = configs.to_dict(provenance) | {
            "versions": provenance.versions or installed_versions(),
            "weights_hash": _hash(temporary),
            "beside": {name: _hash(temporary, name) for name in beside},
        }
        (temporary / _CONFIG).write_text(configs.dumps(config))
        (temporary / _PROVENANCE).write_text(json.dumps(stamped, indent=2) + "\n")


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write a safetensors file that others may read."""
    plain = {k: v.detach().cpu().contiguous() for k, v in tensors.items()}
    try:
        save_file(plain, path)
    except SafetensorError as error:
        raise OSError(f"{path}: not written ({error})") from error
    path.chmod(0o644)  # safetensors keeps files private


def release(
    folder: Path,
    config: Any,
    weights: dict[str, Tensor],
    exact: Collection[str],
    provenance: Provenance,
    beside: Mapping[str, dict[str, Tensor]] = MappingProxyType({}),
) -> None:
    """Write a small model folder: bf16 shards, except for tensors named in `exact`."""

    def small(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {k: v if k in exact else v.bfloat16() for k, v in tensors.items()}

    others = {name: small(tensors) for name, tensors in beside.items()}
    if whole := provenance.weights_hash:
        parents = provenance.parents | {_UNROUNDED: whole}
        provenance = replace(provenance, parents=parents)
    save(folder, config, small(weights), provenance, SHARD_BYTES, others)


def place(folder: Path | str, kind: str) -> Path:
    """The folder of a model: in the package for `base`, otherwise the folder itself or
    the `model` inside a run folder."""
    if str(folder) == RELEASED:
        return PRETRAINED / kind
    inner = Path(folder) / "model"
    return inner if inner.is_dir() else Path(folder)


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder that holds anything but a model, which would be lost."""
    files = [*_files(folder), *_files(folder, PREDICTOR)]
    known = {_CONFIG, _PROVENANCE, *(path.name for path in files)}
    atomic.refuse_foreign(folder, known, "model")


def load(
    folder: Path | str, config_class: type[T], kind: str = ""
) -> tuple[T, dict[str, Tensor]]:
    """Read config and weights (on the CPU) of a model of some kind: `base`, its folder
    or the folder of its run."""
    folder = place(folder, kind)
    config_path = folder / _CONFIG
    if not config_path.is_file():
        raise FileNotFoundError(
            f"{folder}: no model here ({_CONFIG} is missing); name one that training "
            "wrote, or `base` for the released model"
        )
    provenance = load_provenance(folder)
    if kind and provenance.kind != kind:
        raise ValueError(f"{folder}: a {provenance.kind} model, not a {kind} model")
    config = configs.loads(config_class, config_path.read_text(), str(config_path))
    return config, _read(folder, _WEIGHTS, provenance.weights_hash)


def load_beside(folder: Path, name: str) -> dict[str, Tensor] | None:
    """Read other tensors of a model's folder; None where it has none of that name."""
    expected = load_provenance(folder).beside.get(name)
    return None if expected is None else _read(folder, name, expected)


def _read(folder: Path, name: str, expected: str) -> dict[str, Tensor]:
    if _hash(folder, name) != expected:
        raise ValueError(
            f"{folder}: the {name} are not those of provenance.json; "
            "a shard is missing or was changed"
        )
    tensors: dict[str, Tensor] = {}
    for path in _files(folder, name):
        tensors.update(load_file(path))
    return tensors


def fill(model: nn.Module, weights: dict[str, Tensor], folder: Path | str) -> None:
    """Put a folder's weights, in float32, into the model of its configuration."""
    floats = {k: v.float() if v.is_floating_point() else v for k, v in weights.items()}
    try:
        model.load_state_dict(floats)
    except RuntimeError as error:
        raise ValueError(f"{folder}: weights do not fit config.json: {error}") from None


def load_provenance(folder: Path | str, kind: str = "") -> Provenance:
    """Read the provenance of a model, which may be `base` if its kind is known."""
    folder = place(folder, kind)
    path = folder / _PROVENANCE
    if not path.is_file():
        raise FileNotFoundError(f"{folder}: no model here ({_PROVENANCE} is missing)")
    values = configs.parse(path.read_text(), str(path))
    # Checked first: a newer format may have keys that are unknown here.
    found = values.get("format_version") if isinstance(values, dict) else None
    if isinstance(found, int) and found > VERSION:
        raise ValueError(
            f"{path}: format {found} is newer than this package understands "
            f"({VERSION}); upgrade spectral-skills"
        )
    return configs.from_dict(Provenance, values, str(path))


def _shards(weights: dict[str, Tensor], limit: int | None) -> list[dict[str, Tensor]]:
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in weights.items():
        if limit is not None and shards[-1] and size + tensor.nbytes > limit:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    return shards


def _files(folder: Path, name: str = _WEIGHTS) -> list[Path]:
    return sorted(folder.glob(f"{name}*.safetensors"))


def _hash(folder: Path, name: str = _WEIGHTS) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path in _files(folder, name):
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
