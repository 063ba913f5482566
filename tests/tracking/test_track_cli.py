"""`spectral track`, `rollout` and `evaluate tracking` as they are typed."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from spectral_skills import artifact, recipes
from spectral_skills.artifact import Provenance, load_provenance
from spectral_skills.cli.main import _plain, main
from spectral_skills.config import from_dict
from spectral_skills.control.rollout import Rollout
from spectral_skills.experiments import lafan1
from spectral_skills.motion import motion_sets
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.motion_sets import LAFAN1_CLIPS
from spectral_skills.plots import film
from spectral_skills.results import Result
from spectral_skills.runs import read_log
from spectral_skills.skill.encoder import EncoderConfig
from spectral_skills.skill.model import SkillConfig, SkillModel
from spectral_skills.skill.predictor import PredictorConfig
from spectral_skills.tracking import rewards
from spectral_skills.tracking.critics import Critic, critic_weights
from spectral_skills.tracking.observations import joint_bounds
from spectral_skills.tracking.policy import Controller
from spectral_skills.tracking.randomization import RandomizationConfig


def _spectral(*arguments: object) -> int:
    """Exit code of a command in this process."""
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in arguments])
    return int(stop.value.code or 0)


@pytest.fixture(scope="module")
def places(make_clip, make_corpus, tmp_path_factory) -> dict[str, Path]:
    """A corpus, two skill models, and a small run with what it released."""
    folder = tmp_path_factory.mktemp("track")
    clips = [make_clip(f"walk{i}", 60 + i, seed=i) for i in range(3)]
    make_corpus(folder / "corpus", clips)
    for name in ("skill", "other"):
        # No paper-sized predictor, which nothing here asks for anything.
        small = PredictorConfig(
            embed=8, rank=4, context_hidden=(8,), target_hidden=(8,)
        )
        config = SkillConfig(
            encoder=EncoderConfig(width=8, hidden=(16,)), predictor=small
        )
        weights = SkillModel(config).state_dict()
        artifact.save(folder / name, config, weights, Provenance("skill"))
    names = ("corpus", "skill", "other", "run", "small")
    places = {name: folder / name for name in names}
    assert _spectral(*_track(places, places["run"]), "--release", places["small"]) == 0
    return places


@pytest.fixture(autouse=True)
def _no_curves(places, monkeypatch):
    """Only the first run draws its log: pictures take longer than the training."""
    monkeypatch.setattr("spectral_skills.plots.curves.draw_curves", lambda run: None)


def _track(places: dict[str, Path], out: Path) -> list:
    words = ["track", "smoke", "--corpus", places["corpus"], "--skill", places["skill"]]
    return [*words, "--out", out, "--device", "cpu", "--robots", "4"]


def test_a_small_run_ends_well(places):
    """All files are there; the release is the same controller without a critic."""
    names = {path.name for path in places["run"].iterdir()}
    files = {"config.json", "log.jsonl", "curves.png"}
    assert names == files | {"checkpoint", "model", "tensorboard"}
    assert any("success_rate" in row for row in read_log(places["run"]))
    whole, small = (Controller.load(places[name]) for name in ("run", "small"))
    assert small.config.released and not whole.config.released
    assert small.config.command == whole.config.command


def test_settings_of_the_recipe_are_options(capsys):
    """The ones people reach for first, with the recipe's values."""
    assert _spectral("track", "release", "--help") == 0
    text = capsys.readouterr().out
    for name in ("frames", "minutes", "robots", "init", "resume", "release", "mirror"):
        assert f"--{name}" in text
    for name in ("ppo.actor-lr", "env.rewards.action-rate", "controller.init-std"):
        assert f"--{name}" in text


def test_large_numbers_have_short_names():
    """In either spelling, for counts only."""
    words = ["--frames", "1.5B", "--robots=4k", "--out", "5k", "--probe-every", "2e6"]
    full = ["--frames", "1500000000", "--robots=4000", "--out", "5k"]
    assert _plain(words) == [*full, "--probe-every", "2000000"]


@pytest.mark.parametrize("name", recipes.TRACK)
def test_every_recipe_is_a_whole_configuration(name):
    """Built without an error, with robots that its minibatches can share."""
    config = recipes.track(name)
    assert config.robots % config.ppo.minibatches == 0
    assert config.frames >= config.robots * config.ppo.steps


def test_the_authors_recipes():
    """Steps and frames of an iteration, and what `paper` and `ablation` stand for."""
    hub, combo = recipes.track("hub"), recipes.track("combo")
    frames = hub.robots * hub.ppo.steps
    shares = [n / hub.ppo.minibatches for n in hub.ppo.merged]
    assert [round(frames * share) for share in shares] == [368_640, 122_880]
    assert hub.ppo.epochs * len(shares) == 10 and hub.frames == 2_000_000_000
    assert combo.robots * combo.ppo.steps == 393_216 and combo.ppo.epochs == 3
    assert (hub.controller.history, combo.controller.history) == (1, 10)
    assert hub.env.rewards == combo.env.rewards == rewards.final()
    for alias, name in (
        *(("paper", "combo"), ("ablation", "hub"), ("expert-heading", "hub")),
    ):
        assert recipes.track(alias) == recipes.track(name)
    # The arms see commands of other kinds, and differ in nothing else.
    explicit = recipes.track("explicit")
    assert explicit.controller.command.kind == "pose"
    same = replace(explicit.controller, command=hub.controller.command)
    assert replace(explicit, controller=same) == hub


def test_the_authors_numbers():
    """What their code runs with, as far as the recipes do not share it with `base`."""
    hub, combo = recipes.track("hub"), recipes.track("combo")
    for config in (hub, combo):
        env, ppo, actor = config.env, config.ppo, config.controller
        assert env.terminations.anneal_frames == (5_000_000, 30_000_000)
        assert not env.terminations.low_average and env.clip_end == "terminal"
        assert env.episode_steps == 500 and not config.mirror
        assert env.randomization == RandomizationConfig()
        assert (env.sampler.lead, env.sampler.rate_cap) == (199, 200.0)
        assert env.sampler.clip_cap is None and env.sampler.half_life is None
        assert (ppo.steps, ppo.gamma, ppo.gae_lambda, ppo.clip) == (24, 0.97, 0.95, 0.2)
        assert (ppo.value_clip, ppo.entropy, ppo.clip_norm) == (0.2, 0.0, 1.0)
        assert ppo.one_norm and ppo.kl_each_step and ppo.kl_target == 0.02
        assert (ppo.actor_lr, ppo.actor_lr_limits) == (1e-3, (1e-5, 1e-3))
        assert ppo.critic_lr == 1e-3 and not ppo.critic_warmup
        assert (actor.init_std, actor.min_std, actor.max_std) == (1.0, None, None)
        assert Critic(actor).input_width == 352
    assert [Controller(x.controller).input_width for x in (hub, combo)] == [159, 996]
    assert (hub.ppo.weight_decay, hub.ppo.critic_lr_end) == (0.0, 1e-3)
    assert (combo.ppo.weight_decay, combo.ppo.critic_lr_end) == (1e-2, 1e-5)
    assert (hub.robots, combo.robots, combo.frames) == (20_480, 16_384, 50 * 10**9)
    assert hub.env.sampler.uniform == ((0, 0.8), (10**9, 0.2))
    stretches = ((0, 0.8), (4.0, 0.5), (8.6, 0.5), (12.6, 0.2))
    wanted = tuple((round(billions * 1e9), u) for billions, u in stretches)
    assert combo.env.sampler.uniform == wanted


def test_the_release_may_leave_the_floor():
    """Wider targets, bounds that let actions ask for them, cheaper landings, and noise
    that lasts long enough to lift a robot."""
    lafan1, release = recipes.track("lafan1"), recipes.track("release")
    assert (lafan1.controller.reach, release.controller.reach) == (1.0, 4.0)
    bounds = joint_bounds(4.0)
    same = replace(lafan1.controller, reach=4.0, bounds=bounds)
    assert release.controller == same and bounds != lafan1.controller.bounds
    prices = replace(lafan1.env.rewards, foot_acceleration=-2.5e-7)
    assert release.env.rewards == prices
    assert (lafan1.sac.longest_hold, release.sac.longest_hold) == (1, 8)


def test_deployment_ends_where_the_authors_did():
    """Penalties, posture, delays, gains and an uncertain anchor, by steps; the rest is
    that of the controller it starts from."""
    release, first, last = map(recipes.track, ("release", "deploy-first", "deploy"))
    env = last.env
    rates = [run.env.rewards.action_rate for run in (release, first, last)]
    assert rates == [-0.03, -0.1, -0.5]
    changed = {"action_rate": -0.5, "joint_limit": -50.0, "power": -1e-4}
    changed |= {"default_pose": -0.001, "posture": rewards.Kernel(0.05, math.sqrt(0.5))}
    assert env.rewards == replace(rewards.final(), **changed)
    rules = release.env.terminations
    assert first.env.terminations == replace(rules, anneal_frames=None)
    assert env.terminations == replace(first.env.terminations, joint_limit=0.5)
    assert first.env.randomization == env.randomization
    assert env.randomization == RandomizationConfig(
        stiffness=(0.9, 1.1),
        damping=(0.9, 1.1),
        delay_substeps=(0, 1),
        anchor_walk_m=0.002,
        anchor_walk_limit_m=0.1,
        anchor_jitter_m=0.005,
        anchor_jump_m=0.03,
        anchor_jump_share=0.02,
    )
    assert env.sampler == replace(release.env.sampler, uniform=((0, 0.3),))
    smooth = replace(release.controller, smoothing=0.4)
    assert last.controller == smooth and last.held_out == 0.05
    assert first.sac.learning_rate == release.sac.learning_rate_end


def test_mistakes_get_one_line(places, tmp_path, capsys):
    """Exit code 1, the word that was wrong, no trace, nothing written."""
    out = tmp_path / "out"
    track = _track(places, out)
    play = ["rollout", "walk0", "--corpus", places["corpus"], "--out", out]
    play += ["--controller", places["run"], "--skill"]
    score = ["evaluate", "tracking", "--controller", places["run"]]
    score += ["--corpus", places["corpus"], "--skill"]
    for arguments, words in (
        (["track", "smokey"], "'smokey'; there are paper, lafan1"),
        ([*track, "--resume"], "no checkpoint to continue from"),
        ([*track, "--skill", tmp_path], "no model here"),
        ([*track, "--init", places["skill"]], "a skill model, not a controller"),
        ([*track, "--minutes", "0"], "minutes is 0"),
        ([*track, "--device", "gpu"], "no device 'gpu'"),
        ([*track, "--release", out], "choose another folder"),
        ([*play, places["other"]], "trained with the encoder"),
        ([*play, places["skill"], "--film-seconds", "0"], "must be above 0"),
        ([*score, places["skill"], "--out", out / "x.txt"], "ends in .jsonl"),
        ([*score, places["other"], "--out", out / "x.jsonl"], "trained with"),
    ):
        assert _spectral(*arguments) == 1, arguments
        message = capsys.readouterr()
        assert words in message.out + message.err and "Traceback" not in message.err
    assert not out.exists()


def test_resume_goes_on(places, tmp_path):
    """With more frames; the log continues."""
    arguments = _track(places, tmp_path / "run")
    assert _spectral(*arguments, "--frames", "64") == 0
    assert _spectral(*arguments, "--frames", "96", "--resume") == 0
    assert [row["frames"] for row in read_log(tmp_path / "run")] == [32, 64, 96]


@pytest.mark.usefixtures("coarse_pictures")
def test_rollout_writes_record_film_and_picture(places, tmp_path, monkeypatch, capsys):
    """And says how well it went and how fast."""
    monkeypatch.setattr(film, "SIZE", (64, 48))
    monkeypatch.setattr(film, "PANELS", 2)
    words = ["rollout", "walk1", "--corpus", places["corpus"], "--out", tmp_path]
    words += ["--controller", places["small"], "--skill", places["skill"]]
    assert _spectral(*words, "--film-seconds", "0.2") == 0
    message = capsys.readouterr().out
    assert all(word in message for word in ("success", "MPJPE-L", "x real time"))
    assert "followed  no, " in message and " gone, joints correlate by " in message
    record = Rollout.load(tmp_path / "walk1.npz")
    assert record.steps == 60 and record.names == ("walk1",)
    assert {"walk1.gif", "walk1.png"} <= {path.name for path in tmp_path.iterdir()}


def test_evaluate_writes_results(places, tmp_path, capsys):
    """Each line a Result; the row `all` has the success rate of all clips."""
    out, record = tmp_path / "scores.jsonl", tmp_path / "results.jsonl"
    words = ["evaluate", "tracking", "--corpus", places["corpus"], "--out", out]
    words += ["--controller", places["run"], "--skill", places["skill"]]
    words += ["--clips", tmp_path / "clips.jsonl", "--record", record]
    assert _spectral(*words, "--device", "cpu", "--label", "Walks") == 0
    results = [from_dict(Result, json.loads(x)) for x in out.read_text().splitlines()]
    (rate,) = [r for r in results if (r.row, r.metric) == ("all", "success_rate")]
    assert rate.table == "tracking" and rate.n == 3 and rate.run
    assert len((tmp_path / "clips.jsonl").read_text().splitlines()) == 3
    assert "success" in capsys.readouterr().out
    assert "Tracking: Walks" in (tmp_path / "results" / "tracking.md").read_text()


def test_evaluate_only_what_training_holds_out(places, tmp_path, capsys):
    """One of three clips, with a kind from a table; a label is a table's whole name."""
    corpus = Corpus.open(places["corpus"])
    ((index,),) = motion_sets.split(corpus, 1)[1:]
    name = corpus.names[index]
    table, out = tmp_path / "index.csv", tmp_path / "scores.jsonl"
    table.write_text(f"name,kind\n{name},ramble\n")
    words = ["evaluate", "tracking", "--corpus", places["corpus"], "--out", out]
    words += ["--controller", places["run"], "--skill", places["skill"]]
    words += ["--held-out", "1", "--kinds", table, "--clips", tmp_path / "clips.jsonl"]
    record = tmp_path / "results.jsonl"
    words += ["--record", record, "--label", "one walk"]
    assert _spectral(*words, "--device", "cpu") == 0
    tables = {json.loads(row)["table"] for row in record.read_text().splitlines()}
    assert tables == {"Tracking: one walk"}
    (line,) = (tmp_path / "clips.jsonl").read_text().splitlines()
    outcome = json.loads(line)
    assert (outcome["name"], outcome["kind"]) == (name, "ramble")
    assert outcome["followed"] is False and 0 <= outcome["path_share"] <= 1
    message = capsys.readouterr().out
    assert "1 of 3 clips, held out by 1" in message and "ramble" in message
    assert _spectral(*words, "--set", "lafan1", "--device", "cpu") == 1


def test_evaluate_lafan1_writes_a_page(
    places, make_clip, make_corpus, tmp_path, monkeypatch, capsys
):
    """One window of 10 frames of each clip, whole clips and their first 12 frames, in
    MuJoCo; everything lies beside the results."""
    for name, value in (("STARTS", 1), ("WINDOW_FRAMES", 10), ("FIRST_FRAMES", 12)):
        monkeypatch.setattr(lafan1, name, value)
    clips = [make_clip(name, 16, seed=i) for i, name in enumerate(LAFAN1_CLIPS)]
    make_corpus(tmp_path / "corpus", clips)
    words = ["evaluate", "tracking", "--corpus", tmp_path / "corpus", "--set", "lafan1"]
    words += ["--controller", places["run"], "--skill", places["skill"]]
    record = tmp_path / "record" / "results.jsonl"
    out = tmp_path / "out" / "scores.jsonl"
    words += ["--device", "cpu", "--out", out, "--record", record]
    assert _spectral(*words) == 0
    names = {path.name for path in out.parent.iterdir()}
    pictures = {"scores_kinds.png", "scores_clips.png"}
    assert names == pictures | {"scores.jsonl", "scores.md", "scores_clips.jsonl"}
    lines = (out.parent / "scores_clips.jsonl").read_text().splitlines()
    assert len(lines) == 3 * 40
    results = [from_dict(Result, json.loads(x)) for x in out.read_text().splitlines()]
    assert {"all", "windows"} < {r.row for r in results}
    assert "paper, 27.0 B" in capsys.readouterr().out
    assert "594 at 6 B" in (record.parent / "results" / "tracking.md").read_text()
    # A corpus without LAFAN1 is refused in a line.
    words[words.index("--corpus") + 1] = places["corpus"]
    assert _spectral(*words) == 1
    assert "LAFAN1 clips are missing" in capsys.readouterr().err


def test_a_controller_moves_to_another_space(places, tmp_path, capsys):
    words = ["adapt", "--controller", places["run"], "--old-skill", places["skill"]]
    words += ["--skill", places["other"], "--corpus", places["corpus"]]
    out, small = tmp_path / "moved", tmp_path / "small"
    words += ["--out", out, "--release", small, "--updates", "20", "--device", "cpu"]
    assert _spectral(*words) == 0
    assert "explained" in capsys.readouterr().out
    other = SkillModel.load(places["other"]).encoder.fingerprint()
    for folder in (out, small):
        assert Controller.load(folder).config.command.encoder == other
    assert _spectral(*words) == 1 and "there already" in capsys.readouterr().err
    again = ["track", "smoke", "--corpus", places["corpus"], "--skill", places["other"]]
    again += ["--init", out, "--device", "cpu", "--robots", "4"]
    again += ["--out", tmp_path / "on"]
    assert _spectral(*again) == 0
    message = [load_provenance(p).frames for p in (places["run"] / "model", out)]
    assert message[0] == message[1] > 0, "a moved controller has learned as long"
    assert load_provenance(tmp_path / "on" / "model").frames == 2 * message[0]


def test_a_controller_of_skills_becomes_one_of_poses(places, tmp_path, capsys):
    """It is tracked and trained on without a skill model."""
    out = tmp_path / "moved"
    words = ["adapt", "--controller", places["run"], "--old-skill", places["skill"]]
    words += ["--explicit", "--corpus", places["corpus"], "--out", out]
    assert _spectral(*words, "--updates", "20", "--device", "cpu") == 0
    assert "explained" in capsys.readouterr().out
    message = load_provenance(out)
    assert "--explicit" in message.command and set(message.parents) == {"controller"}
    score = ["evaluate", "tracking", "--controller", out, "--corpus", places["corpus"]]
    score += ["--out", tmp_path / "scores.jsonl", "--device", "cpu"]
    assert _spectral(*score) == 0
    more = ["track", "smoke", "--corpus", places["corpus"], "--init", out]
    more += ["--out", tmp_path / "on", "--device", "cpu", "--robots", "4"]
    for words, message in (
        (["--controller.command.adapter", "16"], "its command.adapter is (512, 512)"),
        (["--skill", places["skill"]], "omit --skill"),
    ):
        assert _spectral(*more, *words) == 1
        assert message in capsys.readouterr().err
    assert _spectral(*more) == 0
    states = (Controller.load(p).state_dict() for p in (out, tmp_path / "on"))
    first, last = (float(state["source.count"]) for state in states)
    assert last > first > 0, "statistics go on"


def test_the_released_controller_can_be_trained_further(places, tmp_path, capsys):
    """As the documentation has it: what its weights dictate need not be said."""
    words = ["--corpus", places["corpus"], "--skill", "base", "--init", "base"]
    words += ["--out", tmp_path / "run", "--device", "cpu", "--robots", "8"]
    words += ["--frames", "32", "--probe-clips", "0"]
    assert _spectral("track", "joint-recon", *words[:2], *words[4:]) == 1
    assert "a controller for the encoder" in capsys.readouterr().err
    # All at once: both layers and history are others.
    assert _spectral("track", "smoke", *words, "--controller.history", "5") == 1
    message = " ".join(capsys.readouterr().err.split())
    assert "its hidden is (1024, 1024, 512), its history is 1, unlike" in message
    assert "give --controller.hidden and --controller.history, or" in message
    words += ["--held-out", "0", "--sac.memory", "8", "--sac.batch", "64"]
    assert _spectral("track", "lafan1", *words) == 1  # it was trained with more reach
    assert "its bounds of actions are not this recipe's" in capsys.readouterr().err
    for _ in range(2):  # the second has nothing left to do
        assert _spectral("track", "release", *words) == 0
    old, new = (Controller.load(place) for place in ("base", tmp_path / "run"))
    assert new.config == replace(old.config, released=False)
    # The critic of so short a run is still alone with its learning.
    assert torch.equal(new.network.project.weight, old.network.project.weight)


@pytest.fixture(scope="module")
def off_policy(places) -> Path:
    """A small run of the other learner."""
    out = places["run"].with_name("off_policy")
    words = ["track", "smoke-sac", "--corpus", places["corpus"], "--out", out]
    words += ["--skill", places["skill"], "--device", "cpu", "--probe-clips", "0"]
    assert _spectral(*words, "--robots", "4", "--frames", "128") == 0
    return out


def test_a_controller_moves_without_its_critic(places, off_policy, tmp_path):
    """Which may have seen the old skills; a new one learns when it is trained on."""
    for run in (places["run"], off_policy):
        words = ["adapt", "--controller", run, "--old-skill", places["skill"]]
        words += ["--skill", places["other"], "--corpus", places["corpus"]]
        out = tmp_path / run.name
        assert _spectral(*words, "--out", out, "--updates", "2", "--device", "cpu") == 0
        assert not Controller.load(out).config.released and not critic_weights(out)


def test_adapting_needs_one_goal(places, tmp_path, capsys):
    words = ["adapt", "--controller", places["run"], "--old-skill", places["skill"]]
    words += ["--corpus", places["corpus"], "--out", tmp_path / "out"]
    for more in ([], ["--explicit", "--skill", places["other"]]):
        assert _spectral(*words, *more) == 1
        assert "either --skill DIR or --explicit" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
