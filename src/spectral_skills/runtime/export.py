"""`spectral export`: turns trained models into a bundle that runs without torch.

A bundle is put in place only if every graph agrees with its model on
what simulated robots observe that execute two of its bases.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save
from tqdm import tqdm

from spectral_skills import atomic
from spectral_skills import config as configs
from spectral_skills.control import bundle, played, recorded
from spectral_skills.control.bundle import JointOrder, Layout, Manifest, SkillSupport
from spectral_skills.control.looping import (
    headings,
    looped,
    speed_m_s,
    tilt_rad,
    turn_direction,
)
from spectral_skills.control.mixer import REST
from spectral_skills.control.played import PlayedBase
from spectral_skills.models import Models
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.synthetic import bases as generated
from spectral_skills.motion.synthetic.bases import NAMES
from spectral_skills.motion.synthetic.generate import embedded_corpus
from spectral_skills.planner.acts import acts
from spectral_skills.planner.model import Planner, check_text
from spectral_skills.planner.routes import longest
from spectral_skills.planner.text import MiniLM, TextEncoder, TextStates, pooled
from spectral_skills.robot import g1
from spectral_skills.runtime import graphs
from spectral_skills.runtime.graphs import Observed
from spectral_skills.skill.encoder import SkillBank, SkillEncoder
from spectral_skills.spectral.support import nearest
from spectral_skills.tracking.observations import ACTION_LIMIT, HISTORY
from spectral_skills.tracking.policy import PHASE

_STEPS, _CUT, _CUT_OF_CLIP = 750, 150, 50
"""Length of a generated base, and how much of the end of one, and of a clip, may be cut
for a longer loop."""
_TEXT = {
    "walk": "walk forward",
    "jog": "jog forward",
    "squat": "squat down and stand up again",
    "carry": "carry something while walking forward",
    "backward": "walk backward",
    "stand": "stand still",
    "turn-left": "turn in place to the left",
    "turn-right": "turn in place to the right",
}
RELEASED_SUPPORT = Path(__file__).parents[1] / "pretrained" / "support.safetensors"
"""Skills of the motions that the released models know, in their skill space."""
_SKILLS, _EVERY, _MEASURED = 8192, 10, 20_000
"""Number of skills in a bank, of frames between two skills of the corpus, and of skills
whose distance to the bank is measured."""
FOLLOWED = 2
"""Number of bases that robots execute for the comparison."""
_PLANS, _READ = 20, 256
"""Numbers of plans that are compared, and of sentences that are read together."""
_BLOCKS = ("joints", "joint_velocities", "last_action")
_PROPRIO = (
    *(("gravity", 3), ("angular_velocity", 3)),
    *((block, g1.NUM_JOINTS) for block in _BLOCKS),
)


def export(
    models: Models,
    out: Path,
    bases: Sequence[str] | None = None,
    corpora: Sequence[Corpus] = (),
    joint_order: JointOrder = "mujoco",
    words: TextEncoder | None = None,
    streams: Mapping[str, PlayedBase] | None = None,
    motions: Path | None = None,
) -> dict[str, float]:
    """Write a bundle to a folder, replacing a bundle that is there; return how far each
    graph is from its model.

    `bases` are by default the generated ones and all `streams`, bases of recorded
    motions, which by default come with the package. `corpora` supply clips that are
    neither, and the skills that distances are measured to; by default these are the
    embedded one, and what comes with the released models. `words` encodes the planner's
    sentences; by default it is the language model that planners are trained with.
    `motions` is a file of `spectral skills motions`: what is played instead of planned;
    by default it is the one that comes with the package.
    """
    refuse_foreign(out)
    encoder = models.skill_encoder
    if streams is None:
        streams = recorded.released(encoder.fingerprint())
    motions = motions or played.released(encoder.fingerprint())
    names = (*NAMES, *streams) if bases is None else bases
    wanted = played_bases(encoder, names, corpora, streams)
    with atomic.replacing_folder(out) as folder:
        shown = list(wanted)
        support = _support(models.skill_encoder, corpora)
        graph = graphs.controller_onnx(models.controller, joint_order)
        atomic.write_file(folder / bundle.CONTROLLER, graph)
        graph = graphs.encoder_onnx(models.skill_encoder)
        atomic.write_file(folder / bundle.ENCODER, graph)
        text = _write_planner(models, words, folder)
        differences = _differences(models, folder, joint_order, shown, text)
        graphs.check(differences)
        arrays = {}
        for base in shown:
            arrays |= base.arrays
        atomic.write_file(folder / bundle.BASES, save(arrays))
        support.save(folder / bundle.SUPPORT)
        if models.planner is not None:
            if motions is not None:
                atomic.write_file(folder / bundle.MOTIONS, motions.read_bytes())
            _write_said(words or MiniLM(), shown, motions, encoder, folder)
        if models.directions is not None:
            models.directions.save(folder / bundle.DIRECTIONS)
        manifest = _manifest(models, folder, shown, support, joint_order)
        atomic.write_file(folder / bundle.MANIFEST, configs.dumps(manifest))
        bundle.Bundle.open(folder)  # a bundle that cannot be read is not put in place
    return differences


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder that holds anything but a bundle, which would be lost."""
    known, path = {bundle.MANIFEST}, folder / bundle.MANIFEST
    if path.is_file():
        values = configs.parse(path.read_text(), str(path))
        files = values.get("files") if isinstance(values, dict) else None
        known |= set(files if isinstance(files, dict) else ())
    atomic.refuse_foreign(folder, known, "bundle")


def played_bases(
    encoder: SkillEncoder,
    names: Sequence[str] = NAMES,
    corpora: Sequence[Corpus] = (),
    streams: Mapping[str, PlayedBase] | None = None,
) -> Iterator[PlayedBase]:
    """Yield generated bases, given streams, or clips of the corpora, by their names."""
    given = streams or {}
    if not names:
        raise ValueError(f"no bases; there are {', '.join(NAMES)}, and clips")
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"the base {twice[0]!r} is named twice")
    if not corpora and not set(names) <= {*NAMES, *given}:
        corpora = [Corpus.open(embedded_corpus())]
    # disable=None: silent when the output is not a terminal.
    shown = tqdm(names, unit=" bases", disable=None)
    return (
        given[name] if name in given else _played_base(encoder, name, corpora)
        for name in shown
    )


def _played_base(
    encoder: SkillEncoder, name: str, corpora: Sequence[Corpus]
) -> PlayedBase:
    if name in NAMES:
        base, text, cut = generated.generate(name, _STEPS), _TEXT[name], _CUT
    else:
        corpus = next((one for one in corpora if name in one.names), corpora[0])
        base, cut = generated.of_clip(corpus, name), _CUT_OF_CLIP
        text = next(iter(corpus.entry(corpus.index(name)).text.splitlines()), "")
    rows, skills, loop = looped(encoder, base.rows, cut)
    turn = None if name == REST else turn_direction(encoder, rows).numpy()
    return PlayedBase(
        name,
        text,
        loop,
        base.fall_m,
        skills.numpy(),
        rows.numpy(),
        turn,
        headings(rows),
        tilt_rad=tilt_rad(rows),
        speed_m_s=speed_m_s(rows),
    )


def _support(encoder: SkillEncoder, corpora: Sequence[Corpus]) -> SkillSupport:
    """Sample corpora and their mirror images; the sample of the released models is
    shipped."""
    if not corpora:
        released = SkillSupport.load(RELEASED_SUPPORT)
        if released.encoder == encoder.fingerprint():
            return released
        corpora = [Corpus.open(embedded_corpus())]
    both = [corpus.with_mirror() for corpus in corpora]
    banks = [SkillBank.build(encoder, corpus, _EVERY) for corpus in both]
    skills = torch.cat([bank.skills.cpu() for bank in banks])
    before = np.cumsum([0, *map(len, both)])[:-1].tolist()
    found = zip(banks, before, strict=True)
    clips = torch.cat([bank.clips.cpu() + count for bank, count in found])
    order = torch.randperm(len(skills), generator=torch.Generator().manual_seed(0))
    kept, rest = order[:_SKILLS], order[_SKILLS : _SKILLS + _MEASURED]
    if not len(rest):  # a small corpus is kept whole
        rest = kept
    sample = skills[kept].half().float()
    distances = nearest(sample, skills[rest], clips[kept], clips[rest])
    typical, far = np.quantile(distances.numpy(), (0.5, 0.99)).tolist()
    return SkillSupport(sample.numpy(), typical, far, encoder.fingerprint())


def _write_planner(
    models: Models, words: TextEncoder | None, folder: Path
) -> TextStates | None:
    """Write the planner's graph and its learned sentences; return the latter."""
    if (planner := models.planner) is None:
        return None
    words = words or MiniLM()
    check_text(planner, words)
    text = words.encode(planner.config.about.sentences)
    graph = graphs.planner_onnx(planner, models.skill_encoder)
    atomic.write_file(folder / bundle.PLANNER, graph)
    # Language models give their states rounded to half precision.
    states, tokens = text.states[text.mask].half(), text.mask.sum(1).int()
    arrays = {"states": states.numpy(), "tokens": tokens.numpy()}
    atomic.write_file(folder / bundle.SENTENCES, save(arrays))
    return text


def _write_said(
    words: TextEncoder,
    shown: Sequence[PlayedBase],
    motions: Path | None,
    encoder: SkillEncoder,
    folder: Path,
) -> None:
    """Write the vectors of what people say for bases, for played motions and for acts,
    so that they need not be read when a text is understood."""
    own = played.read(motions, encoder.fingerprint()).values() if motions else ()
    said = [base.text for base in shown if base.text]
    said += [one for motion in own for one in motion.sentences]
    said += [one for _, act in acts() for one in act.sentences]
    said = list(dict.fromkeys(said))
    vectors = [
        pooled(words.encode(said[i : i + _READ])) for i in range(0, len(said), _READ)
    ]
    arrays = {"vectors": torch.cat(vectors).numpy()}
    about = {"model": words.name, "said": json.dumps(said)}
    atomic.write_file(folder / bundle.SAID, save(arrays, about))


def _differences(
    models: Models,
    folder: Path,
    order: JointOrder,
    played: Sequence[PlayedBase],
    text: TextStates | None,
) -> dict[str, float]:
    """Return the difference of each graph, as the runtime reads it."""
    seen = observe(models, played)
    controller = bundle.OnnxController(folder / bundle.CONTROLLER, order)
    encoder = bundle.Graph(folder / bundle.ENCODER)
    senses = zip(seen.history, seen.command, strict=True)
    places = zip(seen.rows, seen.robot, strict=True)
    found = {
        bundle.CONTROLLER: graphs.largest_difference(controller, senses, seen.action),
        bundle.ENCODER: graphs.largest_difference(encoder, places, seen.skill),
    }
    if models.planner is not None and text is not None:
        spread = np.linspace(0, len(seen.history) - 1, _PLANS).astype(int)
        given = folder, text, seen.history[spread]
        found[bundle.PLANNER] = _planner_difference(models, models.planner, *given)
    return found


def observe(models: Models, played: Sequence[PlayedBase]) -> Observed:
    """Let robots execute the first bases, and return what they observe."""
    moving = [base.rows for base in played if base.has_motion][:FOLLOWED]
    rows = [torch.from_numpy(one) for one in moving]
    return graphs.observe(models.controller, models.skill_encoder, rows)


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


def _manifest(
    models: Models,
    folder: Path,
    played: Sequence[PlayedBase],
    support: SkillSupport,
    joint_order: JointOrder,
) -> Manifest:
    command, planner = models.controller.config.command, models.planner
    motions = () if planner is None else planner.config.about.motions
    encodes = planner is not None and planner.config.output == "pose"
    route = "re-encode" if encodes else "skills"
    return Manifest(
        version=bundle.VERSION,
        made_with=f"spectral-skills {version('spectral-skills')}",
        robot=bundle.robot_facts(ACTION_LIMIT, models.controller.config.reach),
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
        bases=tuple(base.facts for base in played),
        typical=support.typical,
        far=support.far,
        plan_every=longest(route, models.skill_encoder),
        sentences=() if planner is None else _sentences(planner),
        takes_s={motion.name: motion.frames / FPS for motion in motions},
        files={p.name: bundle.file_hash(p) for p in sorted(folder.iterdir())},
    )
