"""Directions as run time needs them: one safetensors file, read with NumPy alone."""

import difflib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from spectral_skills import config as configs
from spectral_skills.atomic import write_file

VERSION = 1
RELEASED_FILE = Path(__file__).parents[1] / "pretrained" / "directions.safetensors"
"""Directions of the skill space that comes with the package."""
Family = Literal["spectral", "part", "target", "robot"]
BY_PREDICTION = "predicted_"
"""Beginning of the name of a target's direction by what is predicted alone, where the
target's own name is that of the direction by what a robot does as well."""
DETERMINED = 0.9
"""Least |cos| at which two halves of the contexts agree on a direction."""
SINGLE_LIMB = 0.6
"""Least share of the energy for which a direction is said to move a single limb."""
LIMBS = ("left_leg", "right_leg", "left_arm", "right_arm")


@dataclass(frozen=True)
class Directions:
    """Unit steps in skill space and their predicted effects, per unit amplitude."""

    names: tuple[str, ...]
    families: tuple[Family, ...]
    """Origin: eigenvectors of the response Gram (spectral) or of one limb's Gram
    (part), or the solution for a goal by what is predicted (target), and by what a
    robot was measured to do as well (robot)."""
    vectors: np.ndarray
    """(k, d) of length 1."""
    gains: np.ndarray
    """(k,) rms change of the predicted motion over contexts; sqrt(lambda) for spectral
    directions."""
    amplitudes: np.ndarray
    """(k,) amplitude that reaches the goal of a target direction; 1 for others."""
    stability: np.ndarray
    """(k,) |cos| between the directions of two halves of the contexts."""
    sameness: np.ndarray
    """(k,) size of the mean change over its rms: 1 if equal in every context."""
    effect_mean: np.ndarray
    """(k, a) mean effect on each attribute."""
    effect_std: np.ndarray
    """(k, a) deviation of the effect over contexts."""
    group_shares: np.ndarray
    """(k, g) share of each part of the body in the energy."""
    hand_maps: np.ndarray
    """(2, d, 3) skill change per metre of the left and right hand's motion."""
    attributes: tuple[str, ...]
    units: tuple[str, ...]
    groups: tuple[str, ...]
    encoder: str
    """Fingerprint of the encoder to whose skills these directions are added."""
    data_hash: str
    """Hash of the corpus that the contexts were drawn from."""
    contexts: int
    seed: int
    hand_contexts: int
    """Number of contexts that the hand maps were computed from."""
    hand_standing: bool
    """Whether those were the standing contexts; if these are too few, all are used."""
    level: int = 0
    """Noise level of the responses that they were found from."""
    measured: tuple[dict[str, Any], ...] = ()
    """Measured effects on a robot, one entry for each direction and base: `direction`,
    `base`, `names` of both signs, `outcome`, `safe` amplitudes [low, high], and the
    noticeable `effects` of amplitudes by name, None after a fall. Written by `spectral
    evaluate composition catalogue --release`."""

    def __post_init__(self):
        k, d = self.vectors.shape
        a, g = len(self.attributes), len(self.groups)
        expected = {
            **dict.fromkeys(("gains", "amplitudes", "stability", "sameness"), (k,)),
            **dict.fromkeys(("effect_mean", "effect_std"), (k, a)),
            "group_shares": (k, g),
            "hand_maps": (2, d, 3),
        }
        for name, shape in expected.items():
            found = getattr(self, name).shape
            if found != shape:
                raise ValueError(f"directions: {name} has shape {found}, not {shape}")
        if not len(self.names) == len(self.families) == k or len(self.units) != a:
            raise ValueError("directions: names, families or units do not match")
        if len(set(self.names)) != k:
            raise ValueError("directions: two have the same name")

    def __len__(self) -> int:
        return len(self.names)

    def index(self, name: str) -> int:
        return position(name, self.names)

    def select(self, chosen: np.ndarray) -> "Directions":
        """Some of the directions, by a mask or by positions."""
        kept = np.arange(len(self))[chosen]
        each = [name for name in _ARRAYS if name != "hand_maps"]
        return replace(
            self,
            names=tuple(self.names[i] for i in kept),
            families=tuple(self.families[i] for i in kept),
            **{name: getattr(self, name)[kept] for name in each},
        )

    def extended(self, more: "Directions") -> "Directions":
        """These directions and more of the same encoder, which replace those of the
        same name, with what was measured of them."""
        more.check(self.encoder)
        if (self.attributes, self.groups) != (more.attributes, more.groups):
            raise ValueError("directions: of other attributes, compute them again")
        replaced = {name.split(" ")[0] for name in more.names}
        kept = self.select(np.array([name not in more.names for name in self.names]))
        each = [name for name in _ARRAYS if name != "hand_maps"]
        return replace(
            self,
            names=kept.names + more.names,
            families=kept.families + more.families,
            measured=tuple(m for m in self.measured if m["direction"] not in replaced),
            **{n: np.concatenate((getattr(kept, n), getattr(more, n))) for n in each},
        )

    def family(self, family: Family) -> np.ndarray:
        """Positions of the directions of a family."""
        return np.flatnonzero(np.array(self.families) == family)

    @property
    def determined(self) -> np.ndarray:
        """(k,) whether two halves of the contexts give the same direction."""
        return self.stability >= DETERMINED

    @property
    def single_limb(self) -> np.ndarray:
        """(k,) the limb that a direction moves, or an empty string."""
        limbs = [self.groups.index(name) for name in LIMBS]
        shares = self.group_shares[:, limbs]
        found = np.array(LIMBS)[shares.argmax(axis=1)]
        return np.where(shares.max(axis=1) >= SINGLE_LIMB, found, "")

    @property
    def eigenvalue_ratios(self) -> np.ndarray:
        """lambda_{k+1} / lambda_k of spectral directions: near 1 is near degenerate."""
        eigenvalues = self.gains[self.family("spectral")].astype(np.float64) ** 2
        return eigenvalues[1:] / np.maximum(eigenvalues[:-1], 1e-300)

    def fingerprint(self) -> str:
        """Hash of the vectors alone."""
        return hashlib.blake2b(self.vectors.tobytes(), digest_size=8).hexdigest()

    def check(self, encoder_fingerprint: str) -> None:
        """Refuse an encoder whose skills mean something else."""
        if encoder_fingerprint != self.encoder:
            raise ValueError(
                f"these directions belong to the encoder {self.encoder}, and this is "
                f"{encoder_fingerprint}; compute them again for this encoder"
            )

    def content_hash(self) -> str:
        """Hash of everything that a file of these directions holds."""
        return _hash(*self._contents())

    def save(self, path: Path | str) -> None:
        """Write one file, in one step."""
        arrays, text = self._contents()
        digest = _hash(arrays, text)
        metadata = {"version": str(VERSION), "hash": digest, "directions": text}
        write_file(Path(path), to_bytes(arrays, metadata))

    def _contents(self) -> tuple[dict[str, np.ndarray], str]:
        """The arrays, and everything else as JSON."""
        arrays = {n: np.ascontiguousarray(getattr(self, n)) for n in _ARRAYS}
        header = {k: v for k, v in configs.to_dict(self).items() if k not in _ARRAYS}
        return arrays, json.dumps(header)

    @classmethod
    def load(cls, path: Path | str) -> "Directions":
        """Read a file, or `base`; refuses a file that is damaged."""
        path = RELEASED_FILE if str(path) == "base" else Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no directions here")
        arrays, metadata = read_arrays(path)
        version = metadata.get("version", "")
        if "directions" not in metadata or not version.isdecimal():
            raise ValueError(f"{path}: a safetensors file, but not of directions")
        if int(version) != VERSION:
            raise ValueError(
                f"{path}: directions of version {version}, this package reads {VERSION}"
            )
        text = metadata["directions"]
        if set(arrays) != set(_ARRAYS) or _hash(arrays, text) != metadata.get("hash"):
            raise ValueError(f"{path}: damaged, it does not hold what was written")
        header = configs.parse(text, str(path))
        return configs.from_dict(cls, header | arrays, str(path))


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Arrays and metadata of a safetensors file; refuses one that is damaged."""
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}
            return arrays, file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path}: damaged or missing ({error})") from None


def position(name: str, names: Sequence[str]) -> int:
    """Position of a direction, by its name or by the part of it before a space.

    The rest of a name says what is predicted, which may differ between files.
    """
    short = [other.split(" ")[0] for other in names]
    for known in (list(names), short):
        if name in known:
            return known.index(name)
    near = difflib.get_close_matches(name, {*names, *short}, n=3, cutoff=0.3)
    hint = f"close to it: {', '.join(near)}"
    if not near:
        hint = f"there are {', '.join([*short[:5], *['...'][: len(short) > 5]])}"
    raise ValueError(f"no direction {name!r} among {len(names)}; {hint}")


_ARRAYS = tuple(f.name for f in fields(Directions) if f.type is np.ndarray)


def _hash(arrays: dict[str, np.ndarray], text: str) -> str:
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
