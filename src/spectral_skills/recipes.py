"""Named runs: each a function that returns a whole configuration."""

from collections.abc import Callable
from dataclasses import replace

from spectral_skills.motion.synthetic.generate import SynthConfig
from spectral_skills.motion.windows import WindowConfig
from spectral_skills.skill.bottleneck import BottleneckConfig
from spectral_skills.skill.encoder import EncoderConfig
from spectral_skills.skill.heads import Target
from spectral_skills.skill.model import SkillConfig
from spectral_skills.skill.predictor import PredictorConfig
from spectral_skills.skill.trainer import PretrainConfig


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


def pretrain_base() -> PretrainConfig:
    """The released skill space, from the embedded corpus and its mirror image."""
    return replace(
        pretrain_paper(), updates=12_000, held_out=0.05, mirror=True, patience=20
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
    # The original form of the predictor, and the other balanced pair of losses.
    "ablation-concat": lambda: _ablation(
        model=SkillConfig(predictor=PredictorConfig(kind="concat"))
    ),
    "ablation-sum": lambda: _ablation(reduction="sum"),
}


def pretrain(name: str) -> PretrainConfig:
    """A pretraining recipe by name."""
    if name not in PRETRAIN:
        raise ValueError(f"no recipe {name!r}; there are {', '.join(PRETRAIN)}")
    return PRETRAIN[name]()
