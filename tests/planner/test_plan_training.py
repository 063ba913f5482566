"""Training: it learns what it is shown, killed runs go on, bad rows are named."""

import json
import math
from dataclasses import replace

import pytest
import torch
from small_planner import CONFIG, HEAD, ROBOTS, Letters, make_rows

from spectral_skills import artifact
from spectral_skills.planner.model import Planner
from spectral_skills.planner.text import TextStates
from spectral_skills.planner.train import Phrases, PlanTrainer, train
from spectral_skills.plots.curves import draw_curves
from spectral_skills.runs import read_log


class StopError(Exception):
    pass


def _stop_at(update: int):
    def watch(run):
        if read_log(run)[-1]["update"] == update:
            raise StopError

    return watch


def test_a_planner_learns_what_sentences_ask_for(tmp_path):
    """Robots that sense the same do one thing or another: the words decide. The flow
    ends where it was shown to, from whatever noise."""
    config = replace(
        CONFIG,
        head=replace(HEAD, width=64, output=64, dropout=0.0),
        updates=250,
        batch=16,
        learning_rate=5e-3,
        evaluate_every=125,
        checkpoint_every=250,
    )
    rows = make_rows()
    planner = train(config, rows, Letters(), tmp_path / "run", "cpu")
    first, last = read_log(tmp_path / "run")
    assert last["loss"] < first["loss"] and last["held_out"] < 0.1
    batch = rows.batch(torch.tensor([0, 1, 0]), "skill")
    text = Letters().encode(["walk", "turn around", "go forward now"])
    error = planner.plan(batch.history, text) - batch.chunk
    assert error.abs().mean() < 0.1 * batch.chunk.std()
    swapped = planner.plan(batch.history, Letters().encode(["turn around"]))
    assert (swapped - batch.chunk)[1].abs().mean() < 0.1 * batch.chunk.std()
    assert (swapped - batch.chunk)[0].abs().mean() > 0.5 * batch.chunk.std()


def test_a_run_writes_what_it_did(tmp_path):
    """A planner with its parents, a log, and curves through `watch`."""
    rows = make_rows()
    config = replace(CONFIG, evaluate_every=4)
    planner = train(
        *(config, rows, Letters(), tmp_path / "run", "cpu"),
        command="spectral plan",
        watch=draw_curves,
    )
    assert (tmp_path / "run" / "curves.png").is_file() and not planner.training
    log = read_log(tmp_path / "run")
    assert [row["update"] for row in log] == [4, 6]
    names = {"loss", "gradient_norm", "held_out", "paraphrased", "seconds"}
    assert all(names <= set(row) for row in log)
    found = artifact.load_provenance(tmp_path / "run" / "model")
    assert found.parents == {"controller": "the controller", "skill": "the encoder"}
    assert (found.kind, found.data_hash) == ("planner", rows.hash)
    assert (found.command, found.seed) == ("spectral plan", 0)
    again = Planner.load(tmp_path / "run")
    for name, value in planner.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def test_poses_are_planned_by_the_same_code(tmp_path):
    """38 numbers each."""
    config = replace(CONFIG, output="pose", updates=2)
    planner = train(config, make_rows(), Letters(), tmp_path / "run", "cpu")
    text = Letters().encode(["walk"])
    assert planner.plan(torch.randn(2, 10, 93), text).shape == (2, 30, 38)


def test_a_killed_run_continues_the_same_numbers(tmp_path):
    """Log and weights equal those of a run that was never stopped, dropout included."""
    config = replace(CONFIG, checkpoint_every=3)
    rows, letters = make_rows(), Letters()
    whole = train(config, rows, letters, tmp_path / "whole", "cpu")
    with pytest.raises(StopError):
        train(config, rows, letters, tmp_path / "cut", "cpu", watch=_stop_at(4))
    torch.randn(7)  # numbers drawn elsewhere change nothing
    resumed = train(config, rows, letters, tmp_path / "cut", "cpu")
    for row, same in zip(
        read_log(tmp_path / "whole"), read_log(tmp_path / "cut"), strict=True
    ):
        assert row | {"seconds": 0} == same | {"seconds": 0}
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_a_finished_run_is_left_alone(tmp_path, capsys):
    """And another one in its folder is refused by what differs."""
    rows, letters, out = make_rows(), Letters(), tmp_path / "run"
    train(CONFIG, rows, letters, out, "cpu")
    before = (out / "model" / "weights.safetensors").read_bytes()
    train(CONFIG, rows, letters, out, "cpu")
    assert "nothing left to do" in capsys.readouterr().out
    assert (out / "model" / "weights.safetensors").read_bytes() == before
    with pytest.raises(ValueError, match="another updates, batch"):
        train(replace(CONFIG, updates=9, batch=4), rows, letters, out, "cpu")
    letters.name = "numbers"
    with pytest.raises(ValueError, match="another corpus"):
        train(CONFIG, rows, letters, out, "cpu")


def test_rows_that_are_not_finite_are_named(tmp_path, monkeypatch):
    """Before the first update where they are seen, else at the update that met them."""
    rows = make_rows()
    rows._frames["proprio"][0, 6] = float("nan")
    with pytest.raises(ValueError, match="row 6 of the rows"):
        train(CONFIG, rows, Letters(), tmp_path / "run", "cpu")
    monkeypatch.setattr("spectral_skills.planner.train._TYPICAL", 2)
    met = replace(CONFIG, batch=400, updates=3, evaluate_every=3)
    with pytest.raises(ValueError, match="update 1 is not finite; row 6 of the rows"):
        train(met, rows, Letters(), tmp_path / "run", "cpu")


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path, monkeypatch):
    """The update is named, the last good checkpoint stays."""
    true = PlanTrainer.update

    def update(self, number):
        loss, norm = true(self, number)
        return loss * (float("nan") if number == 5 else 1), norm

    monkeypatch.setattr(PlanTrainer, "update", update)
    with pytest.raises(ValueError, match="update 5 .* try a lower learning rate"):
        train(CONFIG, make_rows(), Letters(), tmp_path / "run", "cpu")
    state = json.loads((tmp_path / "run" / "checkpoint" / "state.json").read_text())
    assert state["update"] == 4


@pytest.mark.parametrize(("last", "named"), [(0.6, r"0\.600"), (math.nan, "nan")])
def test_a_run_that_breaks_down_stops_with_its_last_good_model(
    last, named, tmp_path, monkeypatch
):
    """Planners did so suddenly, after thousands of updates."""
    losses = iter((0.5, 0.45, last))
    monkeypatch.setattr(
        PlanTrainer, "evaluate", lambda self: {"held_out": next(losses)}
    )
    with pytest.raises(ValueError, match=rf"from 0\.450 to {named} by update 6"):
        train(CONFIG, make_rows(), Letters(), tmp_path / "run", "cpu")
    state = json.loads((tmp_path / "run" / "checkpoint" / "state.json").read_text())
    assert state["update"] == 4 and state["best"] == 0.45


def test_draws_follow_the_head_s_schedule():
    """Times nearer to noise, all rows, and a tenth of the states left out."""
    trainer = PlanTrainer(CONFIG, make_rows(), Letters())
    draws = trainer.draw(1, trainer.training_rows, 50_000)
    assert 0 <= draws.time.min() and draws.time.max() <= 0.999
    # E u = 1.5 / 2.5 of Beta(1.5, 1), and P(u < 1/2) = 1/2^1.5
    assert abs(float(draws.time.mean()) - 0.999 * 0.4) < 0.005
    late = float((draws.time > 0.999 / 2).float().mean())
    assert abs(late - 0.5**1.5) < 0.01
    assert abs(float((~draws.keep).float().mean()) - 0.1) < 0.01
    assert set(draws.rows.tolist()) == set(trainer.training_rows.tolist())
    assert set(trainer.held.tolist()) == {49, ROBOTS - 1}
    same = trainer.draw(1, trainer.training_rows, 50_000)
    assert all(torch.equal(a, b) for a, b in zip(draws, same, strict=True))
    other = trainer.draw(2, trainer.training_rows, 50_000)
    assert not torch.equal(draws.noise, other.noise)


def test_sentences_are_drawn_evenly_among_those_of_the_motion():
    """Never another motion's; padded to a number that eight divides."""
    letters = Letters()
    groups = [("a", "b b", "c"), ("d",), ("e", "f")]
    phrases = Phrases(groups, letters, torch.device("cpu"))
    motion = torch.arange(3).repeat(3000)
    picked = phrases.pick(motion, torch.rand(9000))
    assert picked.mask.shape == (9000, 8)
    for number, group in enumerate(groups):
        ours = picked.states[motion == number, 0]
        for sentence in group:
            word = letters.encode([sentence]).states[0, 0]
            share = (ours == word).all(-1).float().mean()
            assert abs(share - 1 / len(group)) < 0.04


def _blurred(**words: float) -> tuple[TextStates, TextStates]:
    """Sentences of motions, and how a trainer with these settings hears them."""
    trainer = PlanTrainer(replace(CONFIG, **words), make_rows(), Letters())
    motion = torch.arange(2).repeat(500)
    text = trainer.phrases["held_out"].pick(motion, torch.rand(1000))
    torch.manual_seed(0)
    return text, trainer._blurred(text)


def test_words_are_heard_as_they_are_said_unless_blurred():
    text, heard = _blurred()
    assert torch.equal(text.states, heard.states) and torch.equal(text.mask, heard.mask)


def test_noise_of_words_is_told_in_their_deviations():
    text, heard = _blurred(word_noise=0.5)
    off = (heard.states - text.states)[text.mask]
    said = Letters().encode(make_rows().about.sentences)
    deviation = float(said.states[said.mask].std())
    assert float(off.std()) == pytest.approx(0.5 * deviation, rel=0.05)
    assert abs(float(off.mean())) < 0.05 * deviation
    assert torch.equal(heard.mask, text.mask)
    # Anew for every row: the same sentence is never heard twice alike.
    assert len(heard.states[:, 0].unique(dim=0)) == 1000


def test_some_tokens_are_not_heard_but_the_first_always_is():
    text, heard = _blurred(word_dropout=0.3)
    assert heard.mask[:, 0].all() and not (heard.mask & ~text.mask).any()
    later = text.mask[:, 1:]
    missing = float((later & ~heard.mask[:, 1:]).sum() / later.sum())
    assert missing == pytest.approx(0.3, abs=0.05)
    assert torch.equal(heard.states, text.states)


def test_only_training_hears_words_blurred():
    """Evaluations are of the sentences as they are; a plan is of neither."""
    rows, letters = make_rows(), Letters()
    plain = PlanTrainer(CONFIG, rows, letters)
    blurred = PlanTrainer(
        replace(CONFIG, word_noise=3.0, word_dropout=0.5), rows, letters
    )
    assert plain.evaluate() == blurred.evaluate()
    losses = [trainer.update(1)[0] for trainer in (plain, blurred)]
    assert not torch.equal(*losses)


def test_a_killed_run_hears_words_blurred_alike(tmp_path):
    config = replace(CONFIG, word_noise=0.4, word_dropout=0.2, checkpoint_every=3)
    rows, letters = make_rows(), Letters()
    whole = train(config, rows, letters, tmp_path / "whole", "cpu")
    with pytest.raises(StopError):
        train(config, rows, letters, tmp_path / "cut", "cpu", watch=_stop_at(4))
    torch.randn(7)
    resumed = train(config, rows, letters, tmp_path / "cut", "cpu")
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_the_learning_rate_rises_and_falls():
    """In a straight line, then along a cosine to zero."""
    config = replace(CONFIG, updates=1000, warmup=0.1, learning_rate=1.0)
    assert [config.rate(i) for i in (1, 50, 100)] == [0.01, 0.5, 1.0]
    assert config.rate(550) == pytest.approx(0.5)
    assert config.rate(1000) == pytest.approx(0.0)
    assert replace(CONFIG, updates=1).rate(1) > 0
