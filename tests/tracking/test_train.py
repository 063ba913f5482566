"""Training of controllers: runs end, go on, refuse what does not fit, lose nothing."""

import json
import math
import signal
import time
from dataclasses import replace

import pytest
import torch

from spectral_skills import api, recipes
from spectral_skills.artifact import Provenance, load_provenance
from spectral_skills.motion import motion_sets
from spectral_skills.motion.windows import WindowConfig
from spectral_skills.robot import g1
from spectral_skills.runs import read_log
from spectral_skills.skill.encoder import EncoderConfig, SkillEncoder
from spectral_skills.skill.pretrain import split
from spectral_skills.tracking import start
from spectral_skills.tracking.critics import critic_weights
from spectral_skills.tracking.env import TrackingEnv
from spectral_skills.tracking.observations import joint_bounds
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.ppo import PPOLearner
from spectral_skills.tracking.references import CommandConfig, References
from spectral_skills.tracking.rewards import weighted
from spectral_skills.tracking.sac import SACLearner
from spectral_skills.tracking.terminations import CAUSES
from spectral_skills.tracking.train import TrackTraining, train
from spectral_skills.updates import part

BATCH = 4 * 4


@pytest.fixture(scope="module")
def corpus(make_clip, make_corpus, tmp_path_factory):
    """Three short clips."""
    clips = [make_clip(f"walk{i}", 60 + i, seed=i) for i in range(3)]
    return make_corpus(tmp_path_factory.mktemp("corpus") / "walks", clips)


def _encoder(seed: int = 0) -> SkillEncoder:
    torch.manual_seed(seed)
    return SkillEncoder(EncoderConfig(width=8, hidden=(16,)), WindowConfig()).eval()


def _config(frames: int = 4 * BATCH, **changes):
    recipe = recipes.track("smoke")
    small = replace(recipe.controller, hidden=(16, 16), critic_hidden=(16, 16))
    settings = {
        "controller": small,
        "ppo": replace(recipe.ppo, steps=4),
        "robots": 4,
        "frames": frames,
        "checkpoint_every": 2 * BATCH,
        "probe_every": BATCH,
    }
    return replace(recipe, **(settings | changes))


def _off_policy(frames: int = 4 * BATCH, **sac):
    """The same by SAC: learns from the second iteration on."""
    recipe = recipes.track("smoke-sac")
    small = _config(frames).controller
    return _config(
        frames,
        controller=replace(small, bounds=recipe.controller.bounds),
        learner="sac",
        sac=replace(recipe.sac, steps=4, **sac),
    )


def _state(run) -> dict:
    return json.loads((run / "checkpoint" / "state.json").read_text())


def _same(one: Controller, two: Controller) -> bool:
    ours, theirs = one.state_dict(), two.state_dict()
    return all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_a_run_ends_with_model_log_and_checkpoint(corpus, tmp_path):
    """Every iteration is logged; the controller on disk is the one that is given."""
    encoder, run, drawn = _encoder(), tmp_path / "run", []
    config = _config()
    found = train(config, [corpus], encoder, run, "cpu", watch=drawn.append)
    rows = read_log(run)
    assert [row["frames"] for row in rows] == [BATCH * i for i in (1, 2, 3, 4)]
    known = {"kl", "actor_lr", "critic_lr", "std", "failures_per_s", "episode_s"}
    known |= {"sampler_entropy", "frames_per_s", "contacts", "constraints", "broken"}
    assert all(known <= set(row) for row in rows)
    # Falls linearly with the frames done before: a quarter of the way each.
    rates = [row["critic_lr"] for row in rows]
    steps = [a - b for a, b in zip(rates, rates[1:], strict=False)]
    assert steps == pytest.approx([0.25 * (1e-3 - 1e-5)] * 3, rel=1e-3)
    assert _state(run)["frames"] == 4 * BATCH and drawn == [run, run]
    assert found.config.command.encoder == encoder.fingerprint()
    assert found.config.command.width == 8
    assert _same(found, Controller.load(run))


def test_held_out_clips_are_measured_and_not_trained_on(
    corpus, tmp_path, monkeypatch, capsys
):
    """The same clips as in pretraining, whatever the seed, with their mirror images."""
    probed, built = [], []

    def probe_of(clips, *_):
        probed.append([name for part in clips for name in part.names])
        return lambda controller: {"success_rate": 0.5}

    true = References.build

    def build(motions):
        built.append(motions.lengths.tolist())
        return true(motions)

    monkeypatch.setattr("spectral_skills.experiments.tracking.probe_of", probe_of)
    monkeypatch.setattr(References, "build", build)
    config = _config(BATCH, held_out=1, mirror=True, seed=5)
    config = replace(
        config, controller=replace(config.controller, command=CommandConfig("pose"))
    )
    monkeypatch.setattr(api, "open_corpus", lambda folder: corpus)
    api.track("smoke", ["walks"], None, tmp_path / "run", settings=config, device="cpu")
    _, (unseen,) = motion_sets.hold_out([corpus], 1)
    assert probed == [unseen.names]
    rest = [60 + i for i in range(3) if f"walk{i}" not in unseen.names]
    assert built == [rest + rest]
    assert "1 of 3 clips are held out and measured" in capsys.readouterr().out
    motions, _ = split([corpus], 1, True, "cpu")
    assert motions.lengths.tolist() == built[0]


def test_a_killed_run_continues_its_log(corpus, tmp_path, monkeypatch):
    """From the last checkpoint, with its rates and counts; later lines come again."""
    config, true, calls = _config(), PPOLearner.update, []

    def update(self, rollouts, progress):
        calls.append(progress)
        if len(calls) == 4:
            raise MemoryError
        return true(self, rollouts, progress)

    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(PPOLearner, "update", update)
        train(config, [corpus], _encoder(), tmp_path, "cpu")
    assert [row["frames"] for row in read_log(tmp_path)] == [
        BATCH,
        2 * BATCH,
        3 * BATCH,
    ]
    assert _state(tmp_path)["frames"] == 2 * BATCH
    before = read_log(tmp_path)[:2]
    train(config, [corpus], _encoder(), tmp_path, "cpu")
    rows = read_log(tmp_path)
    assert rows[:2] == before
    assert [row["frames"] for row in rows] == [BATCH * i for i in (1, 2, 3, 4)]
    assert all(
        a["seconds"] < b["seconds"] for a, b in zip(rows, rows[1:], strict=False)
    )


def test_a_killed_off_policy_run_fills_its_memory_again(corpus, tmp_path, monkeypatch):
    """It goes on from the last checkpoint; nothing is learned from an empty memory."""
    config, true, calls = _off_policy(6 * BATCH), SACLearner.update, []

    def update(self, steps, progress):
        calls.append(self.iterations)
        if len(calls) == 4:
            raise MemoryError
        return true(self, steps, progress)

    monkeypatch.setattr(SACLearner, "update", update)
    with pytest.raises(MemoryError):
        train(config, [corpus], _encoder(), tmp_path, "cpu")
    assert _state(tmp_path)["frames"] == 2 * BATCH
    before = read_log(tmp_path)[:2]
    train(config, [corpus], _encoder(), tmp_path, "cpu")
    rows = read_log(tmp_path)
    assert rows[:2] == before
    assert [row["frames"] for row in rows] == [BATCH * i for i in range(1, 7)]
    # An iteration is 4 control steps, and the memory needs 8.
    assert ["value" in row for row in rows] == [False, True, False, True, True, True]
    assert calls == [0, 0, 1, 2, 1, 1, 2, 3]
    assert all("temperature" in row for row in rows)


def test_an_interrupt_waits_for_the_iteration_and_saves(corpus, tmp_path, monkeypatch):
    """The checkpoint is of the iteration in which it came."""
    true, calls = PPOLearner.update, []

    def update(self, rollouts, progress):
        calls.append(1)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return true(self, rollouts, progress)

    monkeypatch.setattr(PPOLearner, "update", update)
    with pytest.raises(KeyboardInterrupt):
        train(_config(), [corpus], _encoder(), tmp_path, "cpu")
    assert _state(tmp_path)["frames"] == 3 * BATCH
    assert Controller.load(tmp_path).config.command.width == 8


def test_a_diverged_policy_stops_and_keeps_the_last_good(corpus, tmp_path, monkeypatch):
    """The message says when; checkpoint and model are finite and older."""
    true, calls = PPOLearner.update, []

    def update(self, rollouts, progress):
        found = true(self, rollouts, progress)
        calls.append(1)
        if len(calls) == 3:
            self.controller.log_std.data.fill_(float("nan"))
        return found

    monkeypatch.setattr(PPOLearner, "update", update)
    with pytest.raises(ValueError, match=f"not finite after {2 * BATCH} frames"):
        train(_config(), [corpus], _encoder(), tmp_path, "cpu")
    assert _state(tmp_path)["frames"] == 2 * BATCH
    assert all(p.isfinite().all() for p in Controller.load(tmp_path).parameters())


def test_diverged_critics_stop_an_off_policy_run(corpus, tmp_path, monkeypatch):
    """The message names the rate to lower; the last checkpoint and model stay."""
    true, calls = SACLearner.update, []

    def update(self, steps, progress):
        calls.append(1)
        if len(calls) == 3:
            self.critic.last.bias.data.fill_(float("nan"))
        return true(self, steps, progress)

    monkeypatch.setattr(SACLearner, "update", update)
    with pytest.raises(ValueError, match=f"after {2 * BATCH} .*--sac.learning-rate"):
        train(_off_policy(), [corpus], _encoder(), tmp_path, "cpu")
    assert _state(tmp_path)["frames"] == 2 * BATCH
    assert all(p.isfinite().all() for p in Controller.load(tmp_path).parameters())


def test_the_model_is_the_last_controller(corpus, tmp_path):
    """Whatever probes say of it; they are in the log."""
    seen = []

    def probe(controller):
        seen.append({k: v.clone() for k, v in controller.state_dict().items()})
        return {"success_rate": 0.5, "mpjpe_global_mm": float("nan")}

    last = train(_config(), [corpus], _encoder(), tmp_path, "cpu", probe=probe)
    ours = last.state_dict()
    assert all(torch.equal(ours[k], v.to(ours[k])) for k, v in seen[-1].items())
    rows = read_log(tmp_path)
    assert [row["success_rate"] for row in rows] == [0.5] * 4
    assert "mpjpe_global_mm" not in rows[0]


@pytest.mark.parametrize(
    "where, number",
    [("probe", signal.SIGINT), ("watch", signal.SIGINT), ("watch", signal.SIGTERM)],
)
def test_an_interrupt_at_any_time_is_saved(corpus, tmp_path, where, number):
    """Also outside of the step, and what a cluster sends before it ends a job: what the
    log tells must be in the checkpoint."""

    def called(name: str):
        if name == where:
            signal.raise_signal(number)
        return {"success_rate": 0.0}

    with pytest.raises(KeyboardInterrupt):
        train(
            _config(100 * BATCH),
            [corpus],
            _encoder(),
            tmp_path,
            "cpu",
            probe=lambda _: called("probe"),
            watch=lambda _: None if called("watch") else None,
        )
    frames = _state(tmp_path)["frames"]
    assert frames == read_log(tmp_path)[-1]["frames"] >= BATCH


def test_a_second_interrupt_does_not_wait(corpus, tmp_path):
    def twice(_) -> dict[str, float]:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        return {}

    with pytest.raises(KeyboardInterrupt):
        train(_config(), [corpus], _encoder(), tmp_path, "cpu", probe=twice)
    assert not (tmp_path / "checkpoint").exists()


def test_a_run_that_came_to_nothing_does_not_keep_its_folder(corpus, tmp_path):
    with pytest.raises(ValueError, match="3 minibatches"):
        config = _config()
        odd = replace(config, ppo=replace(config.ppo, minibatches=3))
        train(odd, [corpus], _encoder(), tmp_path, "cpu")
    train(_config(), [corpus], _encoder(), tmp_path, "cpu")


def test_warmup_of_the_critic_survives_a_restart(corpus, tmp_path):
    """A released controller must not be judged by a critic that knows nothing."""
    encoder = _encoder()
    old = train(_config(), [corpus], encoder, tmp_path / "old", "cpu")
    old.release(tmp_path / "small", Provenance("controller"))
    init = tmp_path / "small"
    train(_config(BATCH), [corpus], encoder, tmp_path / "new", "cpu", init=init)
    train(_config(2 * BATCH), [corpus], encoder, tmp_path / "new", "cpu", init=init)
    assert not any("kl" in row for row in read_log(tmp_path / "new"))
    # And it is still known what it came from.
    parents = load_provenance(tmp_path / "new" / "model").parents
    assert parents["controller"] == load_provenance(init).weights_hash


def test_off_policy_critics_learn_alone_also_after_a_restart(corpus, tmp_path):
    """So many iterations that learn; those that only fill the memory do not count."""
    for frames in (3 * BATCH, 6 * BATCH):
        config = _off_policy(frames, critic_warmup=3)
        train(config, [corpus], _encoder(), tmp_path, "cpu")
    rows = read_log(tmp_path)
    assert ["value" in row for row in rows] == [False, True, True, False, True, True]
    assert ["entropy" in row for row in rows] == [*[False] * 5, True]


def test_minutes_end_a_call_and_the_next_goes_on(corpus, tmp_path):
    """A thousandth of a second is over after one iteration, each time."""
    config = _config(minutes=1e-5)
    for calls in (1, 2):
        train(config, [corpus], _encoder(), tmp_path, "cpu")
        assert _state(tmp_path)["frames"] == calls * BATCH


def test_init_begins_with_old_weights(corpus, tmp_path, monkeypatch):
    """Of actor and critic, and gently; from a release the critic learns alone first."""
    encoder = _encoder()
    old = train(_config(), [corpus], encoder, tmp_path / "old", "cpu")
    old.release(tmp_path / "small", Provenance("controller"))
    begun = []
    true = PPOLearner.__init__

    def spy(self, config, controller, critic, *rest):
        assert config.actor_lr == start.GENTLE_LR
        begun.append((config.critic_warmup, controller.state_dict()["log_std"].clone()))
        true(self, config, controller, critic, *rest)

    monkeypatch.setattr(PPOLearner, "__init__", spy)
    for name in ("old", "small"):
        out, init = tmp_path / f"from_{name}", tmp_path / name
        train(_config(BATCH), [corpus], encoder, out, "cpu", init=init)
    assert [warmup for warmup, _ in begun] == [0, start.NEW_CRITIC_WARMUP]
    assert all(torch.equal(log_std, old.log_std) for _, log_std in begun)
    # With the actor held, its weights are still those of the release.
    weight = Controller.load(tmp_path / "from_small").network.project.weight
    assert torch.equal(
        weight, Controller.load(tmp_path / "small").network.project.weight
    )


def test_compiling_is_no_progress(corpus, tmp_path, monkeypatch):
    """Rates fall with the minutes that are used, but not before anything is learned."""
    seen, true = [], TrackTraining.iterate

    def iterate(self, progress):
        seen.append(progress)
        if len(seen) == 1:
            time.sleep(1.0)
        return true(self, progress)

    monkeypatch.setattr(TrackTraining, "iterate", iterate)
    config = replace(_config(10**9), minutes=0.05)
    train(config, [corpus], _encoder(), tmp_path / "run", "cpu")
    assert seen[0] == 0.0 and seen[1] < 0.1 and seen == sorted(seen)
    assert 0.5 < seen[-1] <= 1.0


def test_rates_may_follow_the_time_of_several_calls(corpus, tmp_path, monkeypatch):
    """They fall once over all calls, not once in each."""
    calls, true = [], TrackTraining.iterate

    def iterate(self, progress):
        calls[-1].append(progress)
        return true(self, progress)

    monkeypatch.setattr(TrackTraining, "iterate", iterate)
    config = _config(10**9, minutes=0.01, planned_minutes=0.02)
    for _ in range(2):
        calls.append([])
        train(config, [corpus], _encoder(), tmp_path / "run", "cpu")
    first, second = calls
    assert first + second == sorted(first + second) and first[0] == 0.0
    assert first[-1] < 0.5 < second[-1]
    assert second[0] > 0.5 * first[-1]


def test_loose_thresholds_are_for_new_controllers(corpus, tmp_path, monkeypatch):
    """A run that begins with an old one, or goes on after that, has tight ones."""
    limits, true = [], TrackingEnv.refresh

    def refresh(self, frames):
        figures = true(self, frames)
        limits.append(float(self._limits[CAUSES.index("foot_position"), -1]))
        return figures

    monkeypatch.setattr(TrackingEnv, "refresh", refresh)
    found = []
    old, new = tmp_path / "old", tmp_path / "new"
    for out, init, frames in ((old, None, 1), (new, old, 1), (new, old, 2)):
        config = _config(frames * BATCH)
        rules = replace(config.env.terminations, anneal_frames=(10**6, 10**7))
        config = replace(config, env=replace(config.env, terminations=rules))
        train(config, [corpus], _encoder(), out, "cpu", init=init)
        found.append(limits[-1])
    assert found == pytest.approx([0.3, 0.2, 0.2])


def _begun(monkeypatch) -> list:
    """Learners as they are when a run begins: warm-up, controller, weights."""
    begun = []
    for kind in (PPOLearner, SACLearner):

        def spy(self, config, controller, critic, *rest, true=kind.__init__):
            true(self, config, controller, critic, *rest)
            weights = {k: v.clone() for k, v in self.tensors().items()}
            begun.append((config.critic_warmup, controller.config, weights))

        monkeypatch.setattr(kind, "__init__", spy)
    return begun


def _kept(run, weights: dict[str, torch.Tensor], name: str) -> bool:
    """Whether a learner began with the weights of a run."""
    of_critic, of_controller = critic_weights(run), Controller.load(run).state_dict()
    kept, here = (
        of_critic if "critic" in name else of_controller,
        part(weights, f"{name}."),
    )
    assert here.keys() == kept.keys()
    return all(torch.equal(value, kept[k]) for k, value in here.items())


def test_ppo_begins_with_an_off_policy_controller(corpus, tmp_path, monkeypatch):
    """It takes over bounds; its critic is new and learns alone first."""
    old, new = tmp_path / "old", tmp_path / "new"
    train(_off_policy(), [corpus], _encoder(), old, "cpu")
    begun = _begun(monkeypatch)
    found = train(_config(BATCH), [corpus], _encoder(), new, "cpu", init=old)
    ((warmup, config, weights),) = begun
    assert warmup == start.NEW_CRITIC_WARMUP
    assert found.config.bounds == config.bounds == _off_policy().controller.bounds
    assert _kept(old, weights, "controller")


def test_an_off_policy_run_begins_with_one_of_ppo(corpus, tmp_path, monkeypatch):
    """Bounds are its own; its critics are new and learn alone first."""
    old, new = tmp_path / "old", tmp_path / "new"
    train(_config(), [corpus], _encoder(), old, "cpu")
    begun = _begun(monkeypatch)
    config = _off_policy(3 * BATCH)
    found = train(config, [corpus], _encoder(), new, "cpu", init=old)
    ((warmup, _, weights),) = begun
    assert warmup == start.NEW_CRITIC_WARMUP and _kept(old, weights, "controller")
    assert found.config.bounds == config.controller.bounds
    # While the critics learn alone, the actor is as it was.
    network, before = found.network.state_dict(), Controller.load(old).network
    assert all(torch.equal(v, network[k]) for k, v in before.state_dict().items())
    assert "value" in read_log(new)[-1] and "entropy" not in read_log(new)[-1]


def test_an_off_policy_run_begins_with_its_own_critics(corpus, tmp_path, monkeypatch):
    """Unless values mean something else: with another discount they are new."""
    old = tmp_path / "old"
    train(_off_policy(), [corpus], _encoder(), old, "cpu")
    begun = _begun(monkeypatch)
    for name, changes in (("same", {}), ("other", {"gamma": 0.9})):
        config = _off_policy(BATCH, **changes)
        train(config, [corpus], _encoder(), tmp_path / name, "cpu", init=old)
    same, other = begun
    assert same[0] == 0 and _kept(old, same[2], "controller")
    assert _kept(old, same[2], "critic") and _kept(old, same[2], "slow_critic")
    assert other[0] == start.NEW_CRITIC_WARMUP and not _kept(old, other[2], "critic")


def test_a_batch_must_be_shared_equally():
    start.check_shares(_off_policy(), 2)
    with pytest.raises(ValueError, match="64 rows cannot .* 3 processes .*--sac.batch"):
        start.check_shares(replace(_off_policy(), robots=9), 3)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"bounds": ()}, "bounds"),
        ({"command": CommandConfig("joint")}, "--learner ppo"),
    ],
)
def test_what_cannot_learn_off_policy_is_refused(changes, named):
    config = _off_policy()
    with pytest.raises(ValueError, match=named):
        replace(config, controller=replace(config.controller, **changes))


def test_another_encoder_is_refused_by_name(corpus, tmp_path):
    """Both fingerprints are told, for --init and for a run that goes on."""
    ours, other = _encoder(), _encoder(1)
    train(_config(BATCH), [corpus], ours, tmp_path / "run", "cpu")
    with pytest.raises(ValueError) as refusal:
        out, init = tmp_path / "new", tmp_path / "run"
        train(_config(BATCH), [corpus], other, out, "cpu", init=init)
    assert ours.fingerprint() in str(refusal.value)
    assert other.fingerprint() in str(refusal.value)
    with pytest.raises(ValueError, match="another controller"):
        train(_config(BATCH), [corpus], other, tmp_path / "run", "cpu")
    with pytest.raises(ValueError, match="--skill is missing"):
        train(_config(BATCH), [corpus], None, tmp_path / "none", "cpu")
    assert not (tmp_path / "new").exists()


def test_init_of_another_size_is_refused(corpus, tmp_path):
    """The field is named."""
    train(_config(BATCH), [corpus], _encoder(), tmp_path / "run", "cpu")
    wide = _config(BATCH)
    wide = replace(wide, controller=replace(wide.controller, hidden=(32, 16)))
    with pytest.raises(ValueError, match="its hidden is"):
        out, init = tmp_path / "new", tmp_path / "run"
        train(wide, [corpus], _encoder(), out, "cpu", init=init)


def test_init_brings_its_reach(corpus, tmp_path, monkeypatch):
    """Robots are asked for as much as by the old controller; another reach is
    refused."""
    ankle, found, true = g1.joint_index("left_ankle_pitch"), [], TrackingEnv.refresh

    def refresh(self, frames):
        found.append(float(self.body.high[ankle]))
        return true(self, frames)

    monkeypatch.setattr(TrackingEnv, "refresh", refresh)
    config, old, new = _config(BATCH), tmp_path / "old", tmp_path / "new"
    wide = replace(config, controller=replace(config.controller, reach=4.0))
    train(wide, [corpus], _encoder(), old, "cpu")
    went_on = train(config, [corpus], _encoder(), new, "cpu", init=old)
    assert went_on.config.reach == 4.0
    assert found == pytest.approx([g1.target_limits(4.0)[ankle, 1]] * len(found))
    other = replace(config, controller=replace(config.controller, reach=2.0))
    words = r"its reach is 4.0, unlike this recipe's; give --controller.reach, or"
    with pytest.raises(ValueError, match=words):
        train(other, [corpus], _encoder(), tmp_path / "other", "cpu", init=old)


def test_init_with_other_bounds_is_refused(corpus, tmp_path):
    """Outputs of its network would mean other actions."""
    old, config = tmp_path / "old", _off_policy(BATCH)
    train(config, [corpus], _encoder(), old, "cpu")
    bounds = joint_bounds(4.0)
    other = replace(config, controller=replace(config.controller, bounds=bounds))
    with pytest.raises(ValueError, match="its bounds of actions are not this recipe's"):
        train(other, [corpus], _encoder(), tmp_path / "other", "cpu", init=old)


def test_a_corpus_without_usable_clips_is_explained(make_clip, make_corpus, tmp_path):
    """How many frames are needed, and how many there are."""
    short = make_corpus(tmp_path / "corpus", [make_clip("blink", 12)])
    with pytest.raises(ValueError, match="needs 25 frames, the longest has 12"):
        train(_config(), [short], _encoder(), tmp_path / "run", "cpu")


@pytest.mark.parametrize("name", ["explicit", "joint-recon", "joint-recon-pg"])
def test_other_commands_train_too(name, corpus, tmp_path):
    """Without a skill model, which would be refused."""
    command = recipes.track(name).controller.command
    config = _config(BATCH)
    config = replace(config, controller=replace(config.controller, command=command))
    found = train(config, [corpus], None, tmp_path / "run", "cpu")
    assert found.config.command == command
    with pytest.raises(ValueError, match="omit --skill"):
        train(config, [corpus], _encoder(), tmp_path / "other", "cpu")


def test_deployment_goes_on_with_the_critics_of_a_release(
    corpus, tmp_path, monkeypatch
):
    """Step by step, each with the critics of the one before; posture hardly changes
    what values can be."""
    begun, init, encoder = _begun(monkeypatch), None, _encoder()
    for name in ("release", "deploy-first", "deploy"):
        recipe = recipes.track(name)
        small = replace(recipe.controller, hidden=(16, 16), critic_hidden=(16, 16))
        sac = replace(recipe.sac, steps=4, warmup=4, updates=2, batch=64, memory=64)
        changes = {"robots": 4, "frames": 3 * BATCH, "held_out": 1, "log_every": 1}
        config = replace(recipe, controller=small, sac=sac, **changes)
        out = tmp_path / name
        train(config, [corpus], encoder, out, "cpu", init=init)
        rows = read_log(out)
        terms = {key for key in rows[-1] if key.startswith("reward/")}
        assert terms == {f"reward/{name}" for name in weighted(recipe.env.rewards)}
        assert all(math.isfinite(value) for row in rows for value in row.values())
        if init is not None:
            warmup, _, weights = begun[-1]
            assert warmup == 0 and _kept(init, weights, "critic")
        init = out
    parents = load_provenance(tmp_path / "deploy" / "model").parents
    first = load_provenance(tmp_path / "deploy-first" / "model")
    assert parents["controller"] == first.weights_hash and first.frames == 6 * BATCH


@pytest.mark.parametrize("name", ["hub", "combo"])
def test_recipes_of_the_authors_train(name, corpus, tmp_path):
    """With four robots and small networks: learner and environment as they are."""
    recipe = recipes.track(name)
    small = replace(recipe.controller, hidden=(16, 16), critic_hidden=(16, 16))
    batch = 4 * recipe.ppo.steps
    changes = {"robots": 4, "frames": 2 * batch, "log_every": 1, "mirror": False}
    config = replace(recipe, controller=small, **changes)
    train(config, [corpus], _encoder(), tmp_path, "cpu")
    rows = read_log(tmp_path)
    assert [row["frames"] for row in rows] == [batch, 2 * batch]
    terms = {key for key in rows[-1] if key.startswith("reward/")}
    assert terms == {f"reward/{name}" for name in weighted(recipe.env.rewards)}
    assert all(math.isfinite(value) for row in rows for value in row.values())
    assert ("gradient_norm" in rows[-1]) == recipe.ppo.one_norm


def test_memory_is_told_in_robots():
    """80 of 100 left for robots; 1,000 of them need 160: half fit, less a reserve."""
    assert start.robots_that_fit(1000, total=100, fixed=20, needed=180) == 256
    assert start.robots_that_fit(10, total=100, fixed=20, needed=180) == 4
    assert start._asked_for("Tried to allocate 1.50 GiB. GPU 0") == 3 << 29
    assert start._asked_for("Failed to allocate 512 bytes on device") == 512


def test_want_of_memory_becomes_advice(monkeypatch):
    """Other errors stay as they are."""
    memory = start.Memory(torch.device("cuda"), 1000)
    memory.fixed = 20 << 30
    monkeypatch.setattr(memory, "used", lambda: (100 << 30, 100 << 30))
    with pytest.raises(ValueError, match="1,000 robots a GPU; about 256 would fit"):
        with memory.advice():
            raise RuntimeError("CUDA out of memory. Tried to allocate 80.00 GiB.")
    with pytest.raises(RuntimeError, match="shapes"), memory.advice():
        raise RuntimeError("shapes do not match")
