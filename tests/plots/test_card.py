"""The card of the release: current, and free of numbers that nothing has measured."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from spectral_skills.artifact import PRETRAINED, load_provenance
from spectral_skills.cli.main import main
from spectral_skills.plots.card import CARD, DATA, card, write_data
from spectral_skills.plots.tables import load
from spectral_skills.results import Result

RESULTS = Path(__file__).parents[2] / "docs" / "results.jsonl"


def test_the_card_is_current():
    """It is what the released models and the results say now."""
    found = card(PRETRAINED, load(RESULTS))
    assert (PRETRAINED / CARD).read_text() == found, (
        "run: spectral report card src/spectral_skills/pretrained "
        "--results docs/results.jsonl"
    )


def test_every_model_is_on_the_card():
    """With its hash, its command and what it was made from."""
    text = card(PRETRAINED, [])
    for kind in ("skill", "controller", "planner"):
        made = load_provenance(PRETRAINED / kind)
        assert f"`{made.command}`" in text
        for parent in made.parents.values():
            assert f"`{parent[:8]}`" in text
    assert "Nothing was measured with the controller" in text


def test_only_results_of_these_models_are_shown():
    """By the controller's hash, in one column or the other."""
    name = load_provenance(PRETRAINED / "controller").weights_hash[:8]
    ours = Result("Tracking: ours", "all", "followed", 0.91, n=70, run=name)
    text = card(
        PRETRAINED,
        [
            ours,
            replace(ours, row="walk", value=0.87),
            replace(ours, table="Tracking: named", run="", models=f"controller {name}"),
            replace(ours, table="Tracking: another's", run="0badf00d"),
        ],
    )
    assert "Tracking: ours" in text and "Tracking: named" in text
    assert "| all | 70 | 0.91 |" in text
    assert "another's" not in text and "0.87" not in text


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> Path:
    """The release without its data and card."""
    folder = tmp_path_factory.mktemp("card") / "release"
    shutil.copytree(PRETRAINED, folder, ignore=shutil.ignore_patterns(CARD, DATA))
    return folder


def test_data_are_described_and_their_owners_thanked(
    copied, tmp_path, make_clip, make_corpus
):
    """Clips, hours, licences and what was held out; G1 Moves by its authors."""
    about = {"source": "experientialtech/g1-moves", "licence": "CC BY 4.0 (them)"}
    clips = [make_clip(f"clip_{i}", seed=i, **about) for i in range(5)]
    make_corpus(tmp_path / "moves", clips)
    write_data(copied, [tmp_path / "moves"], 2)
    (data,) = json.loads((copied / DATA).read_text())
    assert (data["clips"], data["held_out"]) == (5, 2)
    text = card(copied, [])
    assert "| moves | 5 | 2 |" in text and "CC BY 4.0 (them)" in text
    assert "*G1 Moves* by Experiential Technologies" in text
    assert "NSF" not in text and "not described" in text


def test_what_the_skill_model_learned_from_stays_described(
    tmp_path, make_clip, make_corpus
):
    """Where a corpus was made anew since; what no model knows is forgotten."""
    release = tmp_path / "release"
    shutil.copytree(PRETRAINED, release, ignore=shutil.ignore_patterns(CARD))
    before = json.loads((release / DATA).read_text())
    learned = load_provenance(release / "skill").data_hash.split("+")
    make_corpus(tmp_path / "new", [make_clip("clip", seed=0)])
    for _ in range(2):
        write_data(release, [tmp_path / "new"], 0)
        new, *kept = json.loads((release / DATA).read_text())
        assert new["name"] == "new"
        assert [one["hash"] for one in kept] == [
            one["hash"] for one in before if one["hash"] in learned
        ]
        assert all(one["name"].count("for the skill model") == 1 for one in kept)
    assert "not described" not in card(release, [])


def test_the_verb_writes_it(copied, tmp_path, capsys):
    """And refuses a folder that holds no release."""
    for folder, code in ((copied, 0), (tmp_path, 1)):
        with pytest.raises(SystemExit) as stop:
            main(["report", "card", str(folder), "--results", str(RESULTS)])
        assert int(stop.value.code or 0) == code
    assert "no controller here" in capsys.readouterr().err
    assert (copied / CARD).read_text().startswith("# The released models")
