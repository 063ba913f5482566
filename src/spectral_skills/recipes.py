"""Named runs: each a function that returns a whole configuration."""

import math
from collections.abc import Callable
from dataclasses import replace

from spectral_skills.motion.synthetic.generate import SynthConfig
from spectral_skills.motion.windows import WindowConfig
from spectral_skills.physics.settings import FAST
from spectral_skills.planner.head import HeadConfig
from spectral_skills.planner.trainer import PlanConfig
from spectral_skills.skill.bottleneck import BottleneckConfig
from spectral_skills.skill.encoder import EncoderConfig
from spectral_skills.skill.heads import Target
from spectral_skills.skill.model import SkillConfig
from spectral_skills.skill.predictor import PredictorConfig
from spectral_skills.skill.trainer import PretrainConfig
from spectral_skills.tracking import rewards
from spectral_skills.tracking.config import TrackConfig
from spectral_skills.tracking.env import EnvConfig
from spectral_skills.tracking.joint import CommandConfig
from spectral_skills.tracking.observations import joint_bounds
from spectral_skills.tracking.policy import ControllerConfig
from spectral_skills.tracking.ppo import PPOConfig
from spectral_skills.tracking.randomization import RandomizationConfig, scaled
from spectral_skills.tracking.sac import SACConfig
from spectral_skills.tracking.sampler import SamplerConfig, everywhere
from spectral_skills.tracking.terminations import TerminationConfig


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
    """All of LAFAN1 and its mirror image, seen by robots that have drifted."""
    return replace(
        pretrain_paper(),
        updates=2000,
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


def _authors(**changes) -> EnvConfig:
    """The environment of the paper's authors, but for where episodes start."""
    settings = EnvConfig(
        rewards=rewards.final(),
        terminations=TerminationConfig(
            low_average=False, anneal_frames=(5_000_000, 30_000_000)
        ),
        episode_steps=500,
        clip_end="terminal",
    )
    return replace(settings, **changes)


def _resets(*uniform: tuple[int, float]) -> SamplerConfig:
    """The authors' starts, with a share of uniform ones that changes."""
    return SamplerConfig(uniform=uniform, lead=199, rate_cap=200.0, clip_cap=None)


_AUTHORS_CONTROLLER = ControllerConfig(
    init_std=1.0, min_std=None, max_std=None, critic_command=True
)
_AUTHORS_PPO = PPOConfig(value_clip=0.2, one_norm=True, kl_each_step=True)


def track_hub() -> TrackConfig:
    """The run of the authors' ablations, each on another skill model: 2 B frames,
    better than `combo` up to there. The controller sees one frame of history."""
    return TrackConfig(
        env=_authors(sampler=_resets((0, 0.8), (1_000_000_000, 0.2))),
        controller=replace(_AUTHORS_CONTROLLER, history=1),
        ppo=replace(
            _AUTHORS_PPO,
            epochs=5,
            # Steps with 368,640 of the 491,520 frames, and with the other 122,880.
            minibatches=4,
            merged=(3, 1),
            weight_decay=0.0,
            critic_lr_end=1e-3,
        ),
        physics=FAST,
        robots=20_480,
        frames=2_000_000_000,
    )


def track_combo() -> TrackConfig:
    """The run of the paper's controller: 50 B frames of 16,384 robots."""
    # In two stretches, the second of which begins at 8.6 B frames.
    sampler = _resets(
        *((0, 0.8), (4_000_000_000, 0.5)),
        *((8_600_000_000, 0.5), (12_600_000_000, 0.2)),
    )
    return TrackConfig(
        env=_authors(sampler=sampler),
        controller=_AUTHORS_CONTROLLER,
        ppo=_AUTHORS_PPO,
        physics=FAST,
        probe_every=500_000_000,
        probe_clips=1024,
        checkpoint_every=100_000_000,
    )


def track_expert_heading() -> TrackConfig:
    """*Expert heading*: `hub`, for a skill model of `ablation-expert-heading`, whose
    windows are seen from the reference's own place and heading, also in rollouts."""
    return track_hub()


def track_base() -> TrackConfig:
    """The released controller, from the embedded corpus and its mirror image.

    For few frames: a third of the paper's in an iteration, since what an iteration may
    change is limited, and half of SONIC's randomisation. A new actor begins gently,
    once statistics and critic know something: first steps of 1e-3 on a large batch can
    put it where it hardly learns.
    """
    return TrackConfig(
        env=EnvConfig(
            randomization=scaled(RandomizationConfig(), 0.5),
            sampler=SamplerConfig(uniform=((0, 0.8), (300_000_000, 0.2))),
            episode_steps=500,
        ),
        ppo=PPOConfig(steps=8, actor_lr=1e-4, critic_warmup=5),
        physics=FAST,
        frames=1_500_000_000,
        mirror=True,
        log_every=30,
    )


def track_refine() -> TrackConfig:
    """For a controller that tracks already (--init): all of SONIC's randomisation, and
    smaller steps, since what an iteration gains is largest at a quarter of the usual
    change of the policy."""
    base = track_base()
    return replace(
        base,
        env=replace(base.env, randomization=RandomizationConfig()),
        ppo=replace(base.ppo, kl_target=0.01),
    )


def track_lafan1_ppo() -> TrackConfig:
    """LAFAN1 by PPO: few clips, of minutes each, so episodes end before they do."""
    return replace(track_base(), frames=5_000_000_000)


def track_lafan1() -> TrackConfig:
    """LAFAN1, learned off-policy: the authors' rewards and annealed thresholds, half of
    the randomisation, starts everywhere. Small networks that see one frame of history:
    more updates in the same time."""
    return TrackConfig(
        env=EnvConfig(
            rewards=rewards.final(),
            terminations=TerminationConfig(
                low_average=False, anneal_frames=(5_000_000, 30_000_000)
            ),
            randomization=scaled(RandomizationConfig(), 0.5),
            sampler=everywhere(),
            episode_steps=500,
        ),
        controller=ControllerConfig(
            hidden=(1024, 1024, 512),
            critic_hidden=(1024, 1024, 512),
            history=1,
            bounds=joint_bounds(),
            init_std=0.3,
            min_std=0.05,
            max_std=0.4,
        ),
        learner="sac",
        physics=FAST,
        frames=2_000_000_000,
        mirror=True,
        log_every=30,
    )


def track_deploy() -> TrackConfig:
    """For a robot: begin with `base` (--init); steadier, for worse hardware.

    What the authors' deployment controller ended with, after seven stages from 50 B to
    89.5 B frames, at once. Delays and gains are drawn once for every robot. The
    learner is that of `base`: the authors' 1e-5 for the critic is for one that has
    learned already.
    """
    base = track_base()
    random = replace(
        RandomizationConfig(),
        stiffness=(0.9, 1.1),
        damping=(0.9, 1.1),
        delay_substeps=(0, 1),
        anchor_walk_m=0.002,
        anchor_jitter_m=0.005,
        anchor_jump_m=0.03,
    )
    env = _authors(
        rewards=replace(
            rewards.final(),
            action_rate=-0.5,
            joint_limit=-50.0,
            power=-1e-4,
            posture=rewards.Kernel(0.05, math.sqrt(0.5)),
            default_pose=-0.001,
        ),
        terminations=TerminationConfig(joint_limit=0.5, low_average=False),
        randomization=random,
        sampler=_resets((0, 0.1)),
    )
    return replace(base, env=env, ppo=replace(base.ppo, steps=24))


def track_smoke() -> TrackConfig:
    """Seconds on a CPU: the same code, small."""
    return TrackConfig(
        controller=ControllerConfig(hidden=(64, 64), critic_hidden=(64, 64)),
        ppo=PPOConfig(steps=8),
        robots=8,
        frames=4 * 8 * 8,
        log_every=1,
        probe_every=2 * 8 * 8,
        probe_clips=2,
        checkpoint_every=2 * 8 * 8,
    )


def track_smoke_sac() -> TrackConfig:
    """The same with the off-policy learner."""
    smoke = track_smoke()
    return replace(
        smoke,
        controller=replace(smoke.controller, bounds=joint_bounds()),
        learner="sac",
        sac=SACConfig(updates=2, batch=64, warmup=8, memory=64),
    )


def _command(**changes) -> TrackConfig:
    """The ablations' run with commands of another kind."""
    hub = track_hub()
    controller = replace(hub.controller, command=CommandConfig(**changes))
    return replace(hub, controller=controller)


TRACK: dict[str, Callable[[], TrackConfig]] = {
    "paper": track_combo,
    "base": track_base,
    "refine": track_refine,
    "lafan1": track_lafan1,
    "lafan1-ppo": track_lafan1_ppo,
    "deploy": track_deploy,
    "smoke": track_smoke,
    "smoke-sac": track_smoke_sac,
    # The authors' two runs.
    "hub": track_hub,
    "combo": track_combo,
    # Arms of the ablations: the same run on another skill model, or other commands.
    "ablation": track_hub,
    "expert-heading": track_expert_heading,
    "hold10": lambda: _command(hold=10),
    # The next reference pose in place of a skill.
    "explicit": lambda: _command(kind="pose"),
    # Table repr_ablation, what is trained together with the controller.
    "joint-recon": lambda: _command(kind="joint", gradient=False),
    "joint-recon-pg": lambda: _command(kind="joint"),
    "joint-fsq": lambda: _command(kind="joint", bottleneck=BottleneckConfig("fsq")),
    "joint-vq": lambda: _command(kind="joint", bottleneck=BottleneckConfig("vq")),
}


def track(name: str) -> TrackConfig:
    """A tracking recipe by name."""
    if name not in TRACK:
        raise ValueError(f"no recipe {name!r}; there are {', '.join(TRACK)}")
    return TRACK[name]()


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
