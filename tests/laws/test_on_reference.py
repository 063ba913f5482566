"""The paper on tracking: what a robot on its reference gets and sees."""

from dataclasses import replace

import pytest
import torch

from spectral_skills import recipes, rotation
from spectral_skills.motion.windows import MotionTensors, WindowConfig, WindowSampler
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import EncoderConfig, SkillEncoder
from spectral_skills.tracking import randomization, rewards
from spectral_skills.tracking.env import EnvConfig, TrackingEnv, _Sim
from spectral_skills.tracking.policy import CommandConfig
from spectral_skills.tracking.references import References
from spectral_skills.tracking.rewards import RewardConfig
from spectral_skills.tracking.sampler import SamplerConfig
from spectral_skills.tracking.terminations import TerminationConfig


class Teleporter:
    """Physics in which every robot is on the next frame of its reference."""

    def __init__(self, count: int, references: References):
        self.count, self.device, self.references = (
            count,
            torch.device("cpu"),
            references,
        )
        self.qpos = torch.tensor(g1.DEFAULT_QPOS).float().repeat(count, 1)
        self.qvel = torch.zeros(count, 35)
        self.targets, self.held = torch.zeros(count, 29), torch.zeros(count, 29)
        self.delay = torch.zeros(count, dtype=torch.int32)
        self.qacc, self.torque = torch.zeros(count, 35), torch.zeros(count, 29)
        self.contact_force = torch.zeros(count, 30)
        self.broken = torch.zeros(count, dtype=torch.bool)
        self.shift = torch.zeros(count, 3)
        self.env: TrackingEnv

    def step(self) -> None:
        state = self.env._state
        reference = self.references.at(state.clip, state.frame + 1)
        self.qpos.copy_(reference.rows)
        self.qpos[:, :3] += self.shift
        self.qvel.copy_(reference.qvel)

    def vary(self, variation) -> None: ...

    def counters(self) -> dict[str, int]:
        return {}


@pytest.fixture(scope="module")
def motions(tmp_path_factory, make_clip, make_corpus):
    clips = [make_clip(f"clip{i}", 90 + 20 * i, i) for i in range(3)]
    corpus = make_corpus(tmp_path_factory.mktemp("tracking"), clips)
    return MotionTensors.load(corpus, "cpu")


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    return SkillEncoder(EncoderConfig(hidden=(32,)), WindowConfig()).eval()


def build(motions, encoder, command=None, count=16, **fields) -> TrackingEnv:
    references = References.build(motions)
    physics = Teleporter(count, references)
    config = EnvConfig(
        randomization=randomization.scaled(randomization.RandomizationConfig(), 0.0),
        **fields,
    )
    env = TrackingEnv(config, command or CommandConfig(), physics, references, encoder)
    physics.env = env
    return env


def displace(env: TrackingEnv, robots: slice, axis: int, metres: float) -> None:
    """From now on these robots are off their reference."""
    assert isinstance(env.physics, Teleporter)
    env.physics.shift[robots, axis] = metres


@pytest.mark.parametrize("rules", [rewards.sonic, rewards.tuned, rewards.final])
def test_reward_on_the_reference_is_the_maximum(motions, encoder, rules):
    # Fast wrists cost something even where the reference has them.
    env = build(motions, encoder, rewards=replace(rules(), anti_shake=0.0))
    best = rewards.maximum(env.config.rewards)
    for _ in range(5):
        outcome = env.step(env._state.last_action)
        torch.testing.assert_close(
            outcome.reward, torch.full((16,), best), atol=1e-4, rtol=0
        )


def test_only_the_first_action_may_be_any(motions, encoder):
    """It follows no other; each later one costs by how much it differs."""
    env = build(motions, encoder, rewards=RewardConfig(anti_shake=0.0))
    best = rewards.maximum(env.config.rewards)
    action = env._state.last_action + 1.0
    cost = 29 * 0.1 * rewards.STEP_S
    for expected in (best, best - cost):
        outcome = env.step(action)
        torch.testing.assert_close(
            outcome.reward, torch.full((16,), expected), atol=1e-4, rtol=0
        )
        action = action + 1.0


def test_a_smooth_controller_is_trained_with_what_it_keeps(motions, encoder):
    """Targets and the action that is sensed and paid for are those of run time."""
    env = build(motions, encoder, rewards=RewardConfig(anti_shake=0.0))
    env.smoothing = 0.25
    last = env._state.last_action
    for _ in range(2):
        env.step(last + 1.0)
        assert torch.allclose(env._state.last_action, last + 0.75)
        assert torch.allclose(env.observation.history[:, -1, -29:], last + 0.75)
        targets = env.body.targets(last + 0.75, env.offset)
        assert torch.allclose(env.physics.targets, targets)
        last = env._state.last_action


def test_reward_is_less_anywhere_else(motions, encoder):
    env = build(motions, encoder)
    displace(env, slice(None), 0, 0.1)
    outcome = env.step(env._state.last_action)
    assert (outcome.reward < rewards.maximum(env.config.rewards) - 5e-4).all()


def test_skill_on_the_reference_is_that_of_the_pretraining_window(motions, encoder):
    """The encoder sees at run time exactly what it was trained on."""
    env = build(motions, encoder)
    sampler = WindowSampler(motions, encoder.windows)
    for _ in range(3):
        env.step(env._state.last_action)
        clip, frame = env._state.clip, env._state.frame
        inside = frame + encoder.last + encoder.windows.future < motions.lengths[clip]
        inside &= frame >= encoder.windows.context
        assert inside.any()
        window = sampler.at(clip[inside], frame[inside])
        expected = encoder.encode(window.chunk)
        found = env.observation.source[inside]
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_skill_follows_the_robot_not_the_reference(motions, encoder):
    """A robot that is off its path is told so: its skill is another one."""
    on, off = build(motions, encoder), build(motions, encoder)
    displace(off, slice(None), 1, 0.2)
    on.step(on._state.last_action)
    off.step(off._state.last_action)
    assert torch.equal(on._state.frame, off._state.frame)
    gap = (on.observation.source - off.observation.source).norm(dim=1)
    assert (gap > 1e-3).all()


def test_a_clip_that_is_over_is_no_failure(motions, encoder):
    """Time-outs at the last frame, and the robot starts again somewhere."""
    env = build(motions, encoder, sampler=SamplerConfig(lead=0))
    last = env.references.lengths - 1
    env._state = env._state._replace(frame=last[env._state.clip] - 1)
    outcome = env.step(env._state.last_action)
    assert outcome.done.all() and outcome.timeout.all()
    assert (env._state.age == 0).all()
    assert (env._state.frame <= last[env._state.clip]).all()


def test_a_clip_end_may_be_terminal(motions, encoder):
    """Done, but no time-out and no failure, neither for the sampler nor in figures."""
    env = build(motions, encoder, clip_end="terminal", episode_steps=10**6)
    last = env.references.lengths - 1
    env._state = env._state._replace(frame=last[env._state.clip] - 1)
    outcome = env.step(env._state.last_action)
    assert outcome.done.all() and not outcome.timeout.any()
    assert not env.sampler._new_failures.any()
    assert env.statistics()["failures_per_s"] == 0.0
    # An episode that has lasted its time is a time-out all the same.
    env = build(motions, encoder, clip_end="terminal", episode_steps=1)
    env._state = env._state._replace(frame=torch.zeros_like(env._state.frame))
    outcome = env.step(env._state.last_action)
    assert outcome.done.all() and outcome.timeout.all()


def test_rules_tighten_with_the_frames_done(motions, encoder):
    """0.2 m too high passes at first, and fails once the anneal is over."""
    rules = TerminationConfig(anneal_frames=(5_000_000, 30_000_000))
    env = build(motions, encoder, terminations=replace(rules, foot_position_m=None))
    displace(env, slice(None), 2, 0.2)
    for frames, fails in ((0, False), (15_000_000, False), (30_000_000, True)):
        assert set(env.refresh(frames)) == {"sampler_entropy", "sampler_largest"}
        env._state = env._state._replace(frame=torch.zeros_like(env._state.frame))
        outcome = env.step(env._state.last_action)
        assert (outcome.done == fails).all()


def test_a_low_reference_may_be_told_by_its_height_now(motions, encoder):
    """A reference that has just sunk below 0.5 m: its average has not."""
    for average in (True, False):
        rules = TerminationConfig(low_average=average, foot_position_m=None)
        env = build(motions, encoder, terminations=rules)
        env.references.table[:, 2] = 0.3
        age = torch.ones_like(env._state.age)
        env._state = env._state._replace(
            frame=0 * age, age=age, height=torch.full((16,), 0.8)
        )
        displace(env, slice(None), 2, 0.3)
        outcome = env.step(env._state.last_action)
        assert (outcome.done == average).all()


def test_a_robot_far_off_fails_and_is_put_back(motions, encoder):
    env = build(motions, encoder)
    displace(env, slice(4), 2, 0.5)
    outcome = env.step(env._state.last_action)
    assert outcome.done[:4].all() and not outcome.timeout[:4].any()
    assert not outcome.done[4:].any() or outcome.timeout[4:][outcome.done[4:]].all()
    reference = env.references.at(env._state.clip, env._state.frame)
    torch.testing.assert_close(env.physics.qpos[:4], reference.rows[:4])
    found = env.statistics()
    assert found["cause/anchor_height"] == pytest.approx(4 / 16 / 0.02)


def test_history_of_a_new_start_is_its_first_frame(motions, encoder):
    env = build(motions, encoder)
    history = env.observation.history
    assert torch.equal(history, history[:, -1:].expand_as(history))


def test_held_commands_change_only_when_published(motions, encoder):
    env = build(motions, encoder, CommandConfig(hold=4))
    before = env.observation
    for step in range(1, 9):
        outcome = env.step(env._state.last_action)
        stays = ~outcome.done
        same = (env.observation.source == before.source).all(dim=1)[stays]
        held = (env._state.since != 0)[stays]
        assert (same == held).all()
        before = env.observation
        if not outcome.done.any():
            assert (env._state.since == step % 4).all()


def test_the_pose_command_is_the_next_frame_seen_by_the_robot(motions):
    env = build(motions, None, CommandConfig(kind="pose", width=38))
    env.step(env._state.last_action)
    state = env._state
    following = env.references.at(state.clip, state.frame + 1).rows
    heading = rotation.heading(env.physics.qpos[:, 3:7])
    ahead = rotation.rotate_inverse(heading, following[:, :3] - env.physics.qpos[:, :3])
    torch.testing.assert_close(
        env.observation.source[:, 29:31], ahead[:, :2], atol=1e-5, rtol=0
    )
    assert torch.equal(env.observation.source[:, :29], following[:, 7:])


@pytest.mark.parametrize("recipe", ["lafan1-ppo", "hub", "lafan1", "deploy"])
def test_the_step_is_one_graph(motions, encoder, recipe):
    """No host synchronisation, no break: dynamo traces the whole step at once."""
    torch._dynamo.reset()
    references = References.build(motions)
    physics, config = Teleporter(4, references), recipes.track(recipe).env
    env = TrackingEnv(config, CommandConfig(), physics, references, encoder)
    sim = _Sim(*(getattr(env.physics, name) for name in _Sim._fields))
    whole = torch.compile(env._advance, backend="eager", fullgraph=True)
    with torch.no_grad():
        state, *_ = whole(env._state, sim, torch.zeros(4, 29))
    assert (state.frame >= 0).all()
