"""Named pretraining runs: each is a function that returns a whole configuration."""

import math
from collections.abc import Callable
from dataclasses import replace

from spectral_skills.motion.windows import WindowConfig
from spectral_skills.skill.bottleneck import BottleneckConfig
from spectral_skills.skill.encoder import EncoderConfig
from spectral_skills.skill.model import SkillConfig
from spectral_skills.skill.predictor import PredictorConfig, Target
from spectral_skills.skill.trainer import PretrainConfig


def paper() -> PretrainConfig:
    """The paper's settings: 50,000 updates of 8,192 windows."""
    return PretrainConfig()


def lafan1() -> PretrainConfig:
    """Few clips: four are held out, and the weights that predict them best are kept."""
    return replace(paper(), updates=4000, held_out=4, evaluate_every=250, patience=4)


def authors() -> PretrainConfig:
    """The settings of the authors' public code: raw inputs, and a sum of errors beside
    which SIGReg and the penalty hardly count."""
    encoder = EncoderConfig(input_floor=None)
    return PretrainConfig(
        model=SkillConfig(
            encoder=encoder, scale_context=False, target_statistics="batch"
        ),
        reduction="sum",
        # They weight the integral with a normal density, we with exp(-t^2 / 2).
        sigreg=1 / math.sqrt(2 * math.pi),
        regularizer=1e-3 / 64,
        held_out=0.1,
    )


def lafan1_authors() -> PretrainConfig:
    """The authors' settings for LAFAN1: 3,000 updates on all clips."""
    return replace(authors(), updates=3000, held_out=0)


def hub() -> PretrainConfig:
    """The settings of the authors' ablations: concat, with the current pose as
    context."""
    base, concat = authors(), PredictorConfig(kind="concat")
    windows = WindowConfig(context=1)
    return replace(base, model=replace(base.model, windows=windows, predictor=concat))


def lafan1_all() -> PretrainConfig:
    """All of LAFAN1 and its mirror image, seen by robots that have drifted, with the
    authors' balance of losses."""
    balance = {n: getattr(authors(), n) for n in ("reduction", "sigreg", "regularizer")}
    changes = {"updates": 3000, "held_out": 0, "mirror": True, "evaluate_every": 500}
    return replace(paper(), **balance, **changes, anchor_noise=(0.1, 0.1))


def base() -> PretrainConfig:
    """The released skill space, from the embedded corpus and its mirror image."""
    return replace(paper(), updates=10_000, held_out=0.05, mirror=True, patience=20)


def smoke() -> PretrainConfig:
    """The same code at a small size: seconds on a CPU."""
    predictor = PredictorConfig(
        # The noise has 418 dimensions: a narrower last layer cannot hold it.
        embed=64,
        rank=16,
        context_hidden=(64, 64),
        target_hidden=(512,),
    )
    encoder = EncoderConfig(hidden=(256, 128))
    return PretrainConfig(
        model=SkillConfig(encoder=encoder, predictor=predictor),
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
    """The paper's model with one change, for a corpus of LAFAN1's size.

    There is hardly any regulariser: arms are compared by what they are trained to
    predict.
    """
    common = {"updates": 2000, "evaluate_every": 100, "patience": 20}
    return replace(lafan1(), **(common | {"regularizer": 1e-3 / 64} | changes))


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
    "paper": paper,
    "lafan1": lafan1,
    "lafan1-all": lafan1_all,
    "authors": authors,
    "lafan1-authors": lafan1_authors,
    "hub": hub,
    "base": base,
    "smoke": smoke,
    # Table predictive_target.
    "ablation-ours": _ablation,
    "ablation-endpoint": lambda: _target("endpoint", head_learning_rate=1e-4),
    "ablation-endpoint-det": lambda: _target("endpoint-det"),
    # The error is against skills that change: a lower one is not a better one.
    "ablation-next-skill": lambda: _target("next-skill", patience=None),
    # Table repr_ablation, models trained before the controller.
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
