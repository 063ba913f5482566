"""`spectral export`: turns trained models into a bundle that runs without torch.

A bundle is put in place only if every graph agrees with its model on what simulated
robots observe that execute two of its bases.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.numpy import save
from tqdm import tqdm

from spectral_skills import atomic
from spectral_skills import config as configs
from spectral_skills.control import bundle
from spectral_skills.control.bundle import JointOrder, Layout, Manifest
from spectral_skills.models import Models
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.planner.model import Planner, check_text
from spectral_skills.planner.routes import longest
from spectral_skills.planner.text import TextEncoder, TextStates, text_encoder
from spectral_skills.robot import g1
from spectral_skills.runtime import graphs
from spectral_skills.runtime.bases import (
    NAMES,
    RELEASED_FILE,
    BaseClip,
    CorpusBank,
    base_clips,
)
from spectral_skills.runtime.graphs import Observed
from spectral_skills.skill.encoder import SkillEncoder
from spectral_skills.tracking.observations import ACTION_LIMIT, HISTORY
from spectral_skills.tracking.policy import PHASE

FOLLOWED = 2
"""Number of bases that robots execute for the comparison."""
_PLANS = 20
_BLOCKS = ("joints", "joint_velocities", "last_action")
_PROPRIO = (
    *(("gravity", 3), ("angular_velocity", 3)),
    *((block, g1.NUM_JOINTS) for block in _BLOCKS),
)


class Exported(NamedTuple):
    """The manifest that was written, and how far each graph is from its model."""

    manifest: Manifest
    differences: dict[str, float]


def export(
    models: Models,
    out: Path,
    bases: Sequence[str] = NAMES,
    corpus: Corpus | None = None,
    joint_order: JointOrder = "mujoco",
    words: TextEncoder | None = None,
) -> Exported:
    """Write a bundle to a folder, replacing a bundle that is there.

    `corpus` supplies clips that are not generated bases, and the skills that distances
    are measured to; it is the embedded one by default. `words` encodes the planner's
    sentences; by default it is the language model that planners are trained with.
    """
    refuse_foreign(out)
    wanted = base_clips(models.skill_encoder, bases, corpus)
    with stages(5 + len(bases)) as stage, atomic.replacing_folder(out) as folder:
        clips = []
        for name in bases:
            stage(name)
            clips.append(next(wanted))
        stage("corpus")
        bank = _bank(models.skill_encoder, corpus)
        stage("controller")
        graph = graphs.controller_onnx(models.controller, joint_order)
        atomic.write_file(folder / bundle.CONTROLLER, graph)
        stage("encoder")
        atomic.write_file(
            folder / bundle.ENCODER, graphs.encoder_onnx(models.skill_encoder)
        )
        stage("planner")
        text = _write_planner(models, words, folder)
        stage("comparison")
        rows = [clip.motion.rows for clip in clips[:FOLLOWED]]
        observed = graphs.observe(models.controller, models.skill_encoder, rows)
        differences = _differences(models, folder, joint_order, observed, text)
        graphs.check(differences)
        atomic.write_file(folder / bundle.BASES, save(_arrays(clips)))
        bank.save(folder / bundle.SUPPORT)
        if models.directions is not None:
            models.directions.save(folder / bundle.DIRECTIONS)
        manifest = _manifest(models, folder, clips, bank, joint_order)
        atomic.write_file(folder / bundle.MANIFEST, configs.dumps(manifest))
        bundle.Bundle.open(folder)  # a bundle that cannot be read is not put in place
    return Exported(manifest, differences)


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder that holds anything but a bundle, which would be lost."""
    known, path = {bundle.MANIFEST}, folder / bundle.MANIFEST
    if path.is_file():
        values = configs.parse(path.read_text(), str(path))
        files = values.get("files") if isinstance(values, dict) else None
        known |= set(files if isinstance(files, dict) else ())
    atomic.refuse_foreign(folder, known, "bundle")


@contextmanager
def stages(count: int) -> Iterator:
    """Show a progress bar; call `stage(name)` before each part."""
    # disable=None: silent when the output is not a terminal.
    with tqdm(total=count, unit="part", disable=None) as bar:
        begun = False

        def stage(name: str) -> None:
            nonlocal begun
            bar.update(int(begun))
            bar.set_description(name)
            begun = True

        yield stage
        bar.update()


def _bank(encoder: SkillEncoder, corpus: Corpus | None) -> CorpusBank:
    """Return skills of the corpus; those of the released models are shipped."""
    if corpus is None:
        released = CorpusBank.load(RELEASED_FILE)
        if released.encoder == encoder.fingerprint():
            return released
        corpus = Corpus.open(embedded_corpus())
    return CorpusBank.build(encoder, corpus)


def _write_planner(
    models: Models, words: TextEncoder | None, folder: Path
) -> TextStates | None:
    """Write the planner's graph and its learned sentences; return the latter."""
    planner = models.planner
    if planner is None:
        return None
    words = words or text_encoder()
    check_text(planner, words)
    text = words.encode(planner.config.about.sentences)
    graph = graphs.planner_onnx(planner, models.skill_encoder)
    atomic.write_file(folder / bundle.PLANNER, graph)
    arrays = {"states": text.states.numpy(), "mask": text.mask.numpy()}
    atomic.write_file(folder / bundle.SENTENCES, save(arrays))
    return text


def _differences(
    models: Models,
    folder: Path,
    order: JointOrder,
    seen: Observed,
    text: TextStates | None,
) -> dict[str, float]:
    """Return the difference of each graph, as the runtime reads it."""
    controller = bundle.OnnxController(folder / bundle.CONTROLLER, order)
    encoder = bundle.OnnxEncoder(folder / bundle.ENCODER)
    largest = graphs.largest_difference
    senses = zip(seen.history, seen.command, strict=True)
    places = zip(seen.rows, seen.robot, strict=True)
    found = {
        bundle.CONTROLLER: largest(controller, senses, seen.action),
        bundle.ENCODER: largest(encoder, places, seen.skill),
    }
    if models.planner is not None and text is not None:
        spread = np.linspace(0, len(seen.history) - 1, _PLANS).astype(int)
        given = folder, text, seen.history[spread]
        found[bundle.PLANNER] = _planner_difference(models, models.planner, *given)
    return found


def _planner_difference(
    models: Models,
    planner: Planner,
    folder: Path,
    text: TextStates,
    histories: np.ndarray,
) -> float:
    """Return the difference of plans, one sentence for each history."""
    model = graphs.skill_planner(planner, models.skill_encoder)
    graph = bundle.OnnxPlanner(folder, _sentences(planner))
    random, head = torch.Generator().manual_seed(0), planner.config.head
    spread = np.linspace(0, len(graph.sentences) - 1, len(histories)).astype(int)
    found = []
    for history, at in zip(histories, spread, strict=True):
        noise = torch.randn(1, head.chunk, head.action, generator=random)
        one = TextStates(text.states[at : at + 1], text.mask[at : at + 1])
        with torch.no_grad():
            right = model(torch.from_numpy(history)[None], *one, noise)[0].numpy()
        plan = graph.plan(history, graph.sentences[at][1], noise[0].numpy())
        found.append(np.abs(plan - right).max())
    return float(np.max(found))


def _sentences(planner: Planner) -> tuple[tuple[str, str], ...]:
    motions = planner.config.about.motions
    return tuple((motion.name, s) for motion in motions for s in motion.sentences)


def _arrays(clips: Sequence[BaseClip]) -> dict[str, np.ndarray]:
    found = {}
    for clip in clips:
        found[f"{clip.facts.name}.skills"] = clip.motion.skills.numpy()
        found[f"{clip.facts.name}.rows"] = clip.motion.rows.numpy()
    return found


def _manifest(
    models: Models,
    folder: Path,
    clips: Sequence[BaseClip],
    bank: CorpusBank,
    joint_order: JointOrder,
) -> Manifest:
    command, planner = models.controller.config.command, models.planner
    motions = () if planner is None else planner.config.about.motions
    encodes = planner is not None and planner.config.output == "pose"
    route = "re-encode" if encodes else "skills"
    return Manifest(
        version=bundle.VERSION,
        made_with=f"spectral-skills {version('spectral-skills')}",
        robot=bundle.robot_facts(ACTION_LIMIT),
        layout=Layout(
            history=HISTORY,
            proprio=_PROPRIO,
            skill=command.width,
            phase=PHASE,
            hold=command.hold,
            window=(models.skill_encoder.first, models.skill_encoder.last),
            joint_order=joint_order,
        ),
        controller=models.hashes["controller"],
        encoder=models.skill_encoder.fingerprint(),
        planner=models.hashes.get("planner", ""),
        bases=tuple(clip.facts for clip in clips),
        typical=bank.typical,
        far=bank.far,
        plan_every=longest(route, models.skill_encoder),
        sentences=() if planner is None else _sentences(planner),
        takes_s={motion.name: motion.frames / FPS for motion in motions},
        files={p.name: bundle.file_hash(p) for p in sorted(folder.iterdir())},
    )
