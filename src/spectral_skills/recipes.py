"""Named runs: each a function that returns a whole configuration.

Those of controllers are in `tracking/recipes.py`.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from spectral_skills.motion.synthetic.generate import SynthConfig
from spectral_skills.motion.windows import WindowConfig
from spectral_skills.planner.head import HeadConfig
from spectral_skills.planner.trainer import PlanConfig
from spectral_skills.skill.bottleneck import BottleneckConfig
from spectral_skills.skill.encoder import EncoderConfig
from spectral_skills.skill.model import SkillConfig
from spectral_skills.skill.predictor import PredictorConfig, Target
from spectral_skills.skill.trainer import PretrainConfig
from spectral_skills.tracking.recipes import track as track


def synth_base() -> SynthConfig:
    """The embedded corpus: about an hour, what released models are made from."""
    return SynthConfig(clips=512, seed=0)


def synth_smoke() -> SynthConfig:
    """A few clips, in seconds."""
    return SynthConfig(clips=8, seed=0)


def pretrain_paper() -> PretrainConfig:
    """The paper's settings, whole: 50,000 updates of 8,192 windows."""
    return PretrainConfig()


def pretrain_lafan1() -> PretrainConfig:
    """Few clips: four held out, and the weights that predict them best are kept."""
    return replace(
        pretrain_paper(), updates=4000, held_out=4, evaluate_every=250, patience=4
    )


def pretrain_authors() -> PretrainConfig:
    """As the authors' public code trains: raw inputs, and a sum of errors that SIGReg
    and the penalty hardly weigh against."""
    return PretrainConfig(
        model=SkillConfig(
            encoder=EncoderConfig(input_floor=None),
            scale_context=False,
            target_statistics="batch",
        ),
        reduction="sum",
        # They weigh the integral with a normal density, we with exp(-t^2 / 2).
        sigreg=1 / math.sqrt(2 * math.pi),
        regularizer=1e-3 / 64,
        held_out=0.1,
    )


def pretrain_lafan1_authors() -> PretrainConfig:
    """The same for LAFAN1: 3,000 updates on all clips, as the paper says."""
    return replace(pretrain_authors(), updates=3000, held_out=0)


def pretrain_hub() -> PretrainConfig:
    """The same as in the authors' ablations: concat, context of the pose now."""
    authors = pretrain_authors()
    model = replace(
        authors.model,
        windows=WindowConfig(context=1),
        predictor=PredictorConfig(kind="concat"),
    )
    return replace(authors, model=model)


def pretrain_lafan1_all() -> PretrainConfig:
    """All of LAFAN1 and its mirror image, seen by robots that have drifted, with the
    authors' balance of losses."""
    authors = pretrain_authors()
    return replace(
        pretrain_paper(),
        updates=3000,
        reduction=authors.reduction,
        sigreg=authors.sigreg,
        regularizer=authors.regularizer,
        held_out=0,
        mirror=True,
        anchor_noise=(0.1, 0.1),
        evaluate_every=500,
    )


def pretrain_base() -> PretrainConfig:
    """The released skill space, from the embedded corpus and its mirror image."""
    return replace(
        pretrain_paper(), updates=10_000, held_out=0.05, mirror=True, patience=20
    )


def pretrain_smoke() -> PretrainConfig:
    """Seconds on a CPU: the same code, small."""
    return PretrainConfig(
        model=SkillConfig(
            encoder=EncoderConfig(hidden=(256, 128)),
            predictor=PredictorConfig(
                # The noise has 418 dimensions: a narrower last layer cannot hold it.
                embed=64,
                rank=16,
                context_hidden=(64, 64),
                target_hidden=(512,),
            ),
        ),
        updates=60,
        batch=256,
        learning_rate=1e-3,
        head_learning_rate=1e-3,
        held_out=1,
        evaluate_every=20,
        evaluation_windows=256,
        checkpoint_every=20,
    )


def _ablation(**changes) -> PretrainConfig:
    """The paper's model with one thing changed, for a corpus of LAFAN1's size.

    Hardly any regulariser: arms are compared by what they are trained to tell.
    """
    common = {"updates": 2000, "evaluate_every": 100, "patience": 20}
    return replace(pretrain_lafan1(), **(common | {"regularizer": 1e-3 / 64} | changes))


def _encoder(**changes) -> PretrainConfig:
    return _ablation(model=SkillConfig(encoder=EncoderConfig(**changes)))


def _bottleneck(kind, target: Target = "chunk") -> PretrainConfig:
    encoder = EncoderConfig(bottleneck=BottleneckConfig(kind))
    model = SkillConfig(encoder=encoder, target=target)
    if kind == "vq":
        # A code needs commitment: the weight of van den Oord et al., 2017.
        return _ablation(model=model, regularizer=0.25 / 64)
    return _ablation(model=model)


def _target(target: Target, **changes) -> PretrainConfig:
    return _ablation(model=SkillConfig(target=target), **changes)


def _windows(**changes) -> PretrainConfig:
    return _ablation(model=SkillConfig(windows=WindowConfig(**changes)))


PRETRAIN: dict[str, Callable[[], PretrainConfig]] = {
    "paper": pretrain_paper,
    "lafan1": pretrain_lafan1,
    "lafan1-all": pretrain_lafan1_all,
    "authors": pretrain_authors,
    "lafan1-authors": pretrain_lafan1_authors,
    "hub": pretrain_hub,
    "base": pretrain_base,
    "smoke": pretrain_smoke,
    # Table predictive_target.
    "ablation-ours": _ablation,
    "ablation-endpoint": lambda: _target("endpoint", head_learning_rate=1e-4),
    "ablation-endpoint-det": lambda: _target("endpoint-det"),
    # The error is against skills that move: a lower one is not a better one.
    "ablation-next-skill": lambda: _target("next-skill", patience=None),
    # Table repr_ablation, what is trained before the controller.
    "ablation-recon": lambda: _target("reconstruction"),
    "ablation-recon-fsq": lambda: _bottleneck("fsq", "reconstruction"),
    "ablation-recon-vq": lambda: _bottleneck("vq", "reconstruction"),
    # Table design_ablation.
    "ablation-width128": lambda: _encoder(width=128),
    "ablation-width256": lambda: _encoder(width=256),
    "ablation-fsq": lambda: _bottleneck("fsq"),
    "ablation-gumbel": lambda: _bottleneck("gumbel"),
    "ablation-categorical": lambda: _bottleneck("categorical"),
    "ablation-vq": lambda: _bottleneck("vq"),
    "ablation-velocity": lambda: _encoder(sees="velocity"),
    "ablation-stride5": lambda: _windows(stride=5),
    "ablation-full-window": lambda: _encoder(sees="full"),
    "ablation-horizon5": lambda: _windows(chunk=5),
    "ablation-horizon20": lambda: _windows(chunk=20),
    "ablation-robot-frame": lambda: _windows(anchor="pose"),
    "ablation-expert-heading": lambda: _windows(anchor="reference"),
    # The original form of the predictor; the paper's sum with SIGReg's factor N.
    "ablation-concat": lambda: _ablation(
        model=SkillConfig(predictor=PredictorConfig(kind="concat"))
    ),
    "ablation-sum": lambda: _ablation(reduction="sum", sigreg=8192.0),
}


def pretrain(name: str) -> PretrainConfig:
    """A pretraining recipe by name."""
    if name not in PRETRAIN:
        raise ValueError(f"no recipe {name!r}; there are {', '.join(PRETRAIN)}")
    return PRETRAIN[name]()


def plan_paper() -> PlanConfig:
    """The paper's head, whole: 522 M parameters."""
    return PlanConfig()


def plan_base() -> PlanConfig:
    """The released planner: the same layout in a hundredth of the size, so that a plan
    takes a CPU core less than a control step."""
    return PlanConfig(
        head=HeadConfig(
            layers=6,
            heads=4,
            width=256,
            mlp=2,
            state_hidden=512,
            output=256,
            dropout=0.0,
            positions=30,
        ),
        batch=256,
        learning_rate=4e-4,
        word_dropout=0.1,
        word_noise=0.4,
        evaluate_every=1000,
        checkpoint_every=3000,
    )


def plan_smoke() -> PlanConfig:
    """Seconds on a CPU: the same code, small."""
    head = HeadConfig(
        layers=2, heads=2, width=64, mlp=2, state_hidden=64, output=64, positions=30
    )
    return PlanConfig(
        head=head,
        updates=200,
        batch=32,
        learning_rate=2e-3,
        evaluate_every=50,
        evaluation_rows=64,
        checkpoint_every=50,
    )


PLAN: dict[str, Callable[[], PlanConfig]] = {
    "paper": plan_paper,
    "base": plan_base,
    "smoke": plan_smoke,
}


def plan(name: str) -> PlanConfig:
    """A planning recipe by name."""
    if name not in PLAN:
        raise ValueError(f"no recipe {name!r}; there are {', '.join(PLAN)}")
    return PLAN[name]()
