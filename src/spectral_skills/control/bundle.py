"""A bundle: one folder with everything that a robot needs, read without torch.

`spectral export` writes it. To run its controller:

    bundle = Bundle.open("runs/bundle")
    action = bundle.controller()(history, command)
"""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import onnxruntime
from safetensors.numpy import save

from spectral_skills import config as configs
from spectral_skills.atomic import write_file
from spectral_skills.control.played import BaseFacts, PlayedBase, shown
from spectral_skills.control.played import read as read_motions
from spectral_skills.robot import g1
from spectral_skills.spectral.direction_file import Directions, read_arrays

VERSION = 2
MANIFEST, CONTROLLER, ENCODER = "bundle.json", "controller.onnx", "encoder.onnx"
PLANNER, SENTENCES = "planner.onnx", "sentences.safetensors"
SAID = "said.safetensors"
DIRECTIONS, BASES = "directions.safetensors", "bases.safetensors"
SUPPORT, MOTIONS = "support.safetensors", "motions.safetensors"
JointOrder = Literal["mujoco", "isaaclab"]


@dataclass(frozen=True)
class RobotFacts:
    """The robot as it was trained, joints in MuJoCo order."""

    joints: tuple[str, ...]
    default_rad: tuple[float, ...]
    action_scale_rad: tuple[float, ...]
    stiffness: tuple[float, ...]
    damping: tuple[float, ...]
    effort_nm: tuple[float, ...]
    velocity_rad_s: tuple[float, ...]
    limits_rad: tuple[tuple[float, float], ...]
    """Limits of the joints; targets are clipped to them and `reach` action scales
    more."""
    control_hz: int
    action_limit: float
    """Largest magnitude of an action; actions are clipped to it."""
    reach: float = 1.0
    """That of the controller; older bundles do not name it, and have this one."""


@dataclass(frozen=True)
class Layout:
    """Sizes and order of the inputs of the graphs."""

    history: int
    """Number of frames, the oldest first."""
    proprio: tuple[tuple[str, int], ...]
    """Parts of a frame and their sizes."""
    skill: int
    phase: int
    """Number of values after the skill in a command: sine and cosine of its age."""
    hold: int
    """Number of control steps that one command lasts."""
    window: tuple[int, int]
    """First and last frame that the encoder sees, counted from now."""
    joint_order: JointOrder
    """Order of the joints in the controller's graph."""


@dataclass(frozen=True)
class Manifest:
    """The content of bundle.json."""

    version: int
    made_with: str
    robot: RobotFacts
    layout: Layout
    controller: str
    """Hash of the controller's weights."""
    encoder: str
    """Fingerprint of the encoder."""
    planner: str
    """Hash of the planner's weights; empty without a planner."""
    bases: tuple[BaseFacts, ...]
    typical: float
    far: float
    """Those of `SkillSupport`."""
    plan_every: int
    """Number of control steps between two plans."""
    sentences: tuple[tuple[str, str], ...]
    """Every motion and sentence that the planner has learned."""
    takes_s: dict[str, float]
    """Duration of each motion."""
    files: dict[str, str]
    """Hash of every other file."""


@dataclass(frozen=True)
class SkillSupport:
    """A sample of a corpus's skills, from which the distance of others is measured."""

    bank: np.ndarray
    """(n, d) float32, kept in half precision."""
    typical: float
    """Median distance of the corpus's skills to the bank of other clips."""
    far: float
    """The 99th percentile of that distance."""
    encoder: str = ""
    """Fingerprint of the encoder of the skills."""

    def distance(self, skill: np.ndarray) -> float:
        """Return the distance from a skill to the nearest one of the bank."""
        skill = skill.astype(np.float32)
        # |b - z|^2 = |b|^2 - 2 b z + |z|^2: one product, at every control step. Small
        # differences of such sums are rounding, so they only find the nearest skill.
        nearest = (self._squares - 2.0 * (self.bank @ skill)).argmin()
        return float(np.linalg.norm(self.bank[nearest] - skill))

    @cached_property
    def _squares(self) -> np.ndarray:
        return np.square(self.bank).sum(axis=1)

    def save(self, path: Path) -> None:
        about = {"typical": repr(self.typical), "far": repr(self.far)}
        bank = {"bank": self.bank.astype(np.float16)}
        write_file(path, save(bank, about | {"encoder": self.encoder}))

    @classmethod
    def load(cls, path: Path) -> "SkillSupport":
        arrays, about = read_arrays(path)
        try:
            typical, far = float(about["typical"]), float(about["far"])
            bank = arrays["bank"].astype(np.float32)
            return cls(bank, typical, far, about["encoder"])
        except (KeyError, ValueError) as error:
            raise ValueError(f"{path}: damaged or no skill bank ({error})") from None


class Graph:
    """An ONNX graph, run on one thread; inputs and output lack the axis of a batch."""

    def __init__(self, path: Path):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        # The thread sleeps when it has nothing to do.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self.session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime has a class of its own for every cause
            raise ValueError(f"{path}: not a graph that runs here ({error})") from None
        kinds = {"tensor(float)": np.float32, "tensor(bool)": np.bool_}
        self._inputs = [(i.name, kinds[i.type]) for i in self.session.get_inputs()]

    def __call__(self, *values: np.ndarray) -> np.ndarray:
        given = {
            name: value.astype(kind)[None]
            for (name, kind), value in zip(self._inputs, values, strict=True)
        }
        return np.asarray(self.session.run(None, given)[0])[0]


class OnnxController(Graph):
    """Maps a history (10, 93) and a command (d + 2,) to an action (29,).

    Joints are in MuJoCo order, whatever order the graph has.
    """

    def __init__(self, path: Path, order: JointOrder):
        super().__init__(path)
        self._isaaclab = order == "isaaclab"

    def __call__(self, history: np.ndarray, command: np.ndarray) -> np.ndarray:
        if not self._isaaclab:
            return super().__call__(history, command)
        senses, *blocks = np.split(history, (6, 35, 64), axis=-1)
        blocks = (block[..., g1.MUJOCO_TO_ISAACLAB] for block in blocks)
        history = np.concatenate((senses, *blocks), axis=-1)
        return super().__call__(history, command)[g1.ISAACLAB_TO_MUJOCO]


def token_states(folder: Path) -> list[np.ndarray]:
    """Token states (tokens, width) of each learned sentence, in half precision."""
    arrays, _ = read_arrays(folder / SENTENCES)
    return np.split(arrays["states"], np.cumsum(arrays["tokens"])[:-1])


def said_vectors(folder: Path, model: str) -> dict[str, np.ndarray]:
    """Vectors (width,) of what people say besides the learned sentences; none if they
    are of another language model than `model`."""
    path = folder / SAID
    arrays, about = read_arrays(path) if path.is_file() else ({}, {})
    if about.get("model") != model:
        return {}
    return dict(zip(json.loads(about["said"]), arrays["vectors"], strict=True))


class OnnxPlanner:
    """Maps a history (10, 93) and a learned sentence to a chunk of skills (30, d)."""

    def __init__(self, folder: Path, sentences: tuple[tuple[str, str], ...]):
        self._graph, self.sentences = Graph(folder / PLANNER), sentences
        self._states = token_states(folder)
        self.noise_shape = tuple(self._graph.session.get_inputs()[3].shape[1:])

    def plan(self, history: np.ndarray, sentence: str, noise: np.ndarray) -> np.ndarray:
        """Return the chunk that grows out of `noise`."""
        states = self._states[self.index(sentence)].astype(np.float32)
        return self._graph(history, states, np.ones(len(states), bool), noise)

    def index(self, sentence: str) -> int:
        """Return the index of a sentence, or of the first one of a motion."""
        for names in zip(*self.sentences, strict=True):
            if sentence in names:
                return names.index(sentence)
        raise ValueError(f"the planner has not learned {sentence!r}")


@dataclass(frozen=True)
class Bundle:
    """A bundle; its graphs are opened only when they are asked for."""

    folder: Path
    manifest: Manifest
    directions: Directions | None
    bases: dict[str, PlayedBase]
    support: SkillSupport
    motions: dict[str, PlayedBase] = field(default_factory=dict)
    """Motions that the planner knows by words and that are played, as bases are."""

    @classmethod
    def open(cls, folder: Path | str) -> "Bundle":
        """Read a bundle, or say what is wrong with it."""
        folder = Path(folder)
        manifest = _manifest(folder)
        for name, expected in manifest.files.items():
            path = folder / name
            if not path.is_file():
                raise FileNotFoundError(f"{path}: missing; export the bundle again")
            if file_hash(path) != expected:
                raise ValueError(f"{path}: changed since the export; export it again")
        directions = None
        if DIRECTIONS in manifest.files:
            directions = Directions.load(folder / DIRECTIONS)
            directions.check(manifest.encoder)
        arrays, _ = read_arrays(folder / BASES)
        bases = {facts.name: PlayedBase.of(facts, arrays) for facts in manifest.bases}
        support, motions = SkillSupport.load(folder / SUPPORT), {}
        if MOTIONS in manifest.files:
            motions = read_motions(folder / MOTIONS, manifest.encoder)
        return cls(folder, manifest, directions, bases, support, motions)

    def base(self, name: str) -> PlayedBase:
        """A base, or a motion by its first sentence."""
        found = self.bases.get(name) or self.motions.get(name)
        if found is None:
            known = ", ".join(self.bases)
            raise ValueError(f"{self.folder}: no base {name!r}; there are {known}")
        return found

    def played_for(self, sentence: str) -> str | None:
        """The base or motion that is played for a sentence, if it is known as it is."""
        named = {said: motion for motion, said in self.manifest.sentences}
        own = self.motions.items()
        named |= {said: name for name, one in own for said in one.sentences}
        named |= {base.text: name for name, base in self.bases.items() if base.text}
        played = shown(self.bases, self.motions, self.manifest.sentences)
        return played.get(named.get(sentence, ""))

    def controller(self) -> OnnxController:
        order = self.manifest.layout.joint_order
        return OnnxController(self.folder / CONTROLLER, order)

    def encoder(self) -> Graph:
        """Maps reference rows (k, 36) and the robot's root (7,) to a skill (d,)."""
        return Graph(self.folder / ENCODER)

    def planner(self) -> OnnxPlanner | None:
        if PLANNER not in self.manifest.files:
            return None
        return OnnxPlanner(self.folder, self.manifest.sentences)


def robot_facts(action_limit: float, reach: float = 1.0) -> RobotFacts:
    return RobotFacts(
        joints=g1.JOINTS,
        default_rad=tuple(g1.DEFAULT_JOINTS.tolist()),
        action_scale_rad=tuple(g1.ACTION_SCALE.tolist()),
        stiffness=tuple(g1.STIFFNESS.tolist()),
        damping=tuple(g1.DAMPING.tolist()),
        effort_nm=tuple(g1.EFFORT_LIMIT.tolist()),
        velocity_rad_s=tuple(g1.VELOCITY_LIMIT.tolist()),
        limits_rad=tuple((low, high) for low, high in g1.JOINT_LIMITS.tolist()),
        control_hz=g1.CONTROL_HZ,
        action_limit=action_limit,
        reach=reach,
    )


def file_hash(path: Path) -> str:
    """Return the hash of a file that `Manifest.files` holds."""
    with path.open("rb") as file:
        made = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
    return made.hexdigest()


def _manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder}: no bundle here ({MANIFEST} is missing); make one with "
            "`spectral export --out DIR`"
        )
    values = configs.parse(path.read_text(), str(path))
    found = values.get("version") if isinstance(values, dict) else None
    if found != VERSION:
        raise ValueError(
            f"{path}: version {found}, this package reads {VERSION}; export it again"
        )
    manifest = configs.from_dict(Manifest, values, str(path))
    if manifest.robot.joints != g1.JOINTS:
        raise ValueError(f"{path}: a robot with other joints than the G1's")
    if not 0 <= (reach := manifest.robot.reach) <= g1.MOST_REACH:
        raise ValueError(
            f"{path}: reach is {reach}, must be 0 to {g1.MOST_REACH:g}; export it again"
        )
    if any("/" in name or name.startswith(".") for name in manifest.files):
        raise ValueError(f"{path}: a file outside of the bundle")
    return manifest
