"""Other trackers by command: read where they are used, refused where they are not."""

from pathlib import Path

import pytest
from untrained import explicit, tokens

from spectral_skills import artifact
from spectral_skills.artifact import Provenance, load_provenance
from spectral_skills.cli.evaluate import evaluate_chaining, evaluate_composition
from spectral_skills.control.batch import Runner
from spectral_skills.experiments import chaining, pass_rates
from spectral_skills.experiments.findings import Findings
from spectral_skills.skill.model import SkillConfig, SkillModel

BASE = Path("base")


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> dict[str, Path]:
    """Folders of the untrained models."""
    folder = tmp_path_factory.mktemp("models")
    controller, encoder = tokens()
    controller.release(folder / "tokens", Provenance("controller"))
    explicit().release(folder / "explicit", Provenance("controller"))
    model = SkillModel(SkillConfig(encoder=encoder.config, released=True))
    model.encoder.load_state_dict(encoder.state_dict())
    artifact.save(
        folder / "skill", model.config, model.state_dict(), Provenance("skill")
    )
    return {path.name: path for path in folder.iterdir()}


def test_chaining_is_given_both(saved, tmp_path, monkeypatch):
    given = {}

    def message(lab, seeds, **others):
        given.update(others, seeds=seeds)
        return Findings("chaining", "", ())

    monkeypatch.setattr(chaining, "chaining", message)
    fsq = saved["tokens"], saved["skill"]
    both = {"fsq": fsq, "explicit": saved["explicit"]}
    evaluate_chaining(out=tmp_path, device="cpu", seeds=[2], **both)
    assert given["seeds"] == (2,)
    found = Findings.load(tmp_path / "chaining.json")
    made = load_provenance("base", "controller")
    known = f"{made.frames / 1e6:,.0f} M frames, data {made.data_hash[:8]}"
    assert found.model == f"{known}, {made.command}"
    assert isinstance(given["others"]["FSQ"], Runner)
    assert given["others"]["FSQ"].controller.config.command.hold == 10
    assert isinstance(given["explicit"], Runner)
    assert given["explicit"].records == given["others"]["FSQ"].records


def test_pass_rates_are_given_tokens(saved, tmp_path, monkeypatch):
    given = {}

    def message(lab, **others):
        given.update(others)
        return Findings("pass_rates", "", ())

    monkeypatch.setattr(pass_rates, "pass_rates", message)
    fsq = saved["tokens"], saved["skill"]
    evaluate_composition("pass_rates", out=tmp_path, device="cpu", fsq=fsq, seeds=[1])
    assert given["tokens"].encoder.fingerprint() == tokens()[1].fingerprint()
    assert given["seeds"] == (1,)


def test_what_is_not_used_or_not_of_its_kind_is_refused(saved, tmp_path):
    with pytest.raises(ValueError, match="--fsq is for pass_rates"):
        evaluate_composition("dose", out=tmp_path, fsq=(BASE, BASE))
    with pytest.raises(ValueError, match="base: its skills are continuous"):
        evaluate_chaining(out=tmp_path, device="cpu", fsq=(BASE, BASE))
    with pytest.raises(ValueError, match="of pose commands, not of 'skill'"):
        evaluate_chaining(out=tmp_path, device="cpu", explicit=BASE)
    with pytest.raises(ValueError, match="one of skills is needed"):
        evaluate_chaining(
            out=tmp_path, device="cpu", fsq=(saved["explicit"], saved["skill"])
        )
    assert not list(tmp_path.iterdir())
