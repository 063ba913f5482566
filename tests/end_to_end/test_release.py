"""`runs/release.sh`: what it makes, what it skips, and what a change makes again.

Most tests give it a stand-in for `spectral` that writes the name of its command to
every file that it should make. One runs all of it, in small.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "runs" / "release.sh"
STAGES = (
    "embedded cmu g1_moves skill first controller directions catalogue bases rows "
    "planner motions bundle results pictures install tables card"
).split()
STAND_IN = """#!/usr/bin/env bash
set -euo pipefail
echo "$@" >>"$CALLS"
[[ "$1 ${2:-}" != "${FAIL:-}" ]] || exit 3
words=("$@")
put() { mkdir -p "$(dirname "$1")" && echo "${words[*]} ${SALT:-}" >"$1"; }
[[ "$1 $2" != "report card" ]] || put "$3/CARD.md"
while (($#)); do
    case $1 in
        --out | --release | --record) case $2 in
            *.safetensors | *.jsonl | *.png) put "$2" ;;
            *) put "$2/model.txt" && put "$2/support.safetensors" && put "$2/run.png" ;;
        esac ;;
    esac
    shift
done
"""


@pytest.fixture
def release(tmp_path):
    """Runs the script with the stand-in; returns the stages made and the exit code."""
    stand_in = tmp_path / "spectral"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    calls = tmp_path / "calls"

    def run(*stages: str, **variables: str):
        calls.write_text("")
        known = {"SPECTRAL": str(stand_in), "CALLS": str(calls), "SMOKE": "1"}
        known |= {"OUT": str(tmp_path / "out")} | variables
        command = ["bash", str(SCRIPT), *stages]
        done = subprocess.run(
            command, env=os.environ | known, capture_output=True, text=True
        )
        lines = [line.split(": ") for line in done.stdout.splitlines()]
        made = [name for name, what in lines if what == "being made"]
        skipped = [name for name, what in lines if what == "up to date"]
        wanted = [name for name, what in lines if what == "would be made"]
        run.calls = calls.read_text().splitlines()
        run.error = done.stderr
        return made or wanted, skipped, done.returncode

    run.out = tmp_path / "out"
    return run


def test_everything_is_made_once(release):
    """In the order of dependence; a second run calls nothing."""
    assert release() == (STAGES, [], 0)
    package = release.out / "package"
    found = {path.name for path in package.iterdir()}
    assert found == {
        *("skill", "controller", "planner", "CARD.md"),
        *(
            f"{name}.safetensors"
            for name in ("directions", "bases", "motions", "support")
        ),
    }
    assert release() == ([], STAGES, 0) and not release.calls


def test_a_changed_parent_makes_what_follows_again(release):
    """Rows make the planner, and what is made of it; not the controller."""
    release()
    (release.out / "rows" / "model.txt").write_text("other rows")
    assert release(DRY="1", SALT="new")[0] == ["planner"]
    made, _, code = release(SALT="new")
    again = ["planner", *"motions bundle pictures install tables card".split()]
    assert (made, code) == (again, 0)
    (release.out / "corpora" / "cmu" / "model.txt").write_text("other motions")
    made, skipped, _ = release(SALT="newer")
    assert skipped == ["embedded", "cmu", "g1_moves"]
    assert made == STAGES[3:]
    text = (release.out / "package" / "skill" / "model.txt").read_text()
    assert text.endswith("newer\n")


def test_what_a_stage_had_made_of_other_parents_is_removed(release):
    """So that no run continues on other motions; what was killed does continue."""
    release("embedded", "cmu", "g1_moves")
    assert release("skill", FAIL="pretrain release-smoke")[2] == 1
    assert "skill: failed; the same command continues" in release.error
    half = release.out / "skill" / "checkpoint"
    half.parent.mkdir(parents=True)
    half.write_text("half a run")
    release("skill", FAIL="pretrain release-smoke")
    assert half.exists()
    (release.out / "corpora" / "cmu" / "model.txt").write_text("other motions")
    release("skill", FAIL="pretrain release-smoke")
    assert not half.exists()


def test_a_stage_fails_with_any_of_its_commands(release):
    """Also with one that others follow."""
    release(*STAGES[: STAGES.index("results")])
    assert release("results", FAIL="report skill")[2] == 1
    assert "results: failed; the same command continues" in release.error
    assert release("results") == (["results"], [], 0)


def test_a_missing_output_is_made_again(release):
    """Whatever its stamp says."""
    release()
    (release.out / "pretrained" / "planner" / "model.txt").unlink()
    (release.out / "pretrained" / "planner" / "support.safetensors").unlink()
    (release.out / "pretrained" / "planner" / "run.png").unlink()
    (release.out / "pretrained" / "planner").rmdir()
    made, _, _ = release()
    assert made == ["planner"]


def test_stages_can_be_made_alone(release):
    """Only those that are named, and only if their names are known."""
    assert release("g1_moves") == (["g1_moves"], [], 0)
    assert release("walk")[2] == 1 and "there are embedded cmu" in release.error
    assert not release.calls


def test_what_was_made_elsewhere_is_taken_as_it_is(release):
    """And is up to date from then on; it must be there."""
    release("embedded", "cmu", "g1_moves")
    assert release("skill", GIVEN="skill")[2] == 1
    assert "skill: given, but not all of" in release.error
    for name in ("skill", "pretrained/skill"):
        (release.out / name).mkdir(parents=True)
    assert release("skill", GIVEN="skill") == ([], [], 0) and not release.calls
    assert release("skill") == ([], ["skill"], 0)
    assert release(GIVEN="walk")[2] == 1 and "no stage 'walk'" in release.error


def test_where_it_runs_is_no_part_of_what_is_made(release):
    """A device is passed on to what learns, and changes no stamp."""
    release("embedded", "cmu", "g1_moves", "skill", DEVICE="cuda")
    assert [call.endswith("--device cuda") for call in release.calls] == [0, 0, 0, 1]
    assert release("skill", DEVICE="cpu") == ([], ["skill"], 0)


def test_sources_must_be_named(release, tmp_path):
    """Without them nothing is made of the real motions."""
    _, _, code = release("cmu", SMOKE="")
    assert code == 1 and "CMU=DIR runs/release.sh" in release.error
    assert not release.calls
    (tmp_path / "motions").mkdir()
    assert release("cmu", SMOKE="", CMU=str(tmp_path / "motions"))[2] == 0
    assert release.calls[0].startswith(f"retarget {tmp_path}/motions --no-page")


def test_results_have_the_names_that_are_in_the_docs(release, tmp_path):
    """Another run replaces its rows, and adds no second table beside them."""
    silent = tmp_path / "silent"  # it writes nothing to the docs
    silent.write_text('#!/usr/bin/env bash\necho "$@" >>"$CALLS"\n')
    silent.chmod(0o755)
    (tmp_path / "cmu").mkdir()
    (tmp_path / "cmu" / "index.csv").touch()
    own = {"SMOKE": "", "SPECTRAL": str(silent), "CMU": str(tmp_path / "cmu")}
    assert release("results", **own)[2] == 0
    lines = (ROOT / "docs" / "results.jsonl").read_text().splitlines()
    tables = {json.loads(line)["table"] for line in lines}
    names = {
        "evaluate tracking": "Tracking: {}",
        "report skill": "Skill space of {}: prediction",
        "report tracking": "Tracking: learning on {}",
    }
    found = []
    for call in release.calls:
        if label := re.search("--label (.*?) --", call):
            verb = " ".join(call.split()[:2])
            found.append(names[verb].format(label[1]))
        assert ("--kinds" in call) == ("CMU held out" in call)
    assert len(found) == 7 and set(found) <= tables


def test_every_table_of_the_docs_can_be_measured_again(release, tmp_path):
    """On what is installed; the experiments' tables have the names of the docs."""
    silent = tmp_path / "silent"
    silent.write_text('#!/usr/bin/env bash\necho "$@" >>"$CALLS"\n')
    silent.chmod(0o755)
    own = {"SMOKE": "", "SPECTRAL": str(silent), "PYTHON": str(silent)}
    own |= {"LAFAN1": "lafan1", "OTHERS": "one two"}
    assert release("tables", **own)[2] == 0
    lines = (ROOT / "docs" / "results.jsonl").read_text().splitlines()
    tables = {json.loads(line)["table"] for line in lines}
    for call in release.calls:
        words = call.split()
        assert "--record docs/results.jsonl" in call or words[0] != "evaluate"
        assert "--controller" not in call or words[0] == "directions"
        if words[:2] in (["evaluate", "composition"], ["evaluate", "planning"]):
            planned = ", planned" * ("--planned" in words)
            assert f"{words[1].capitalize()}: {words[2]}{planned}" in tables
        if words[0].endswith(".py"):
            assert (ROOT / words[0]).is_file()
    assert "ingest one two --out" in "\n".join(release.calls)
    own |= {"OUT": str(tmp_path / "other"), "PACKAGE": str(tmp_path / "package")}
    elsewhere = release("tables", **own)
    assert elsewhere == (["tables"], [], 0) and not release.calls


def test_all_of_it_in_small(tmp_path):
    """Every stage with the real commands; models that fit each other, and a card."""
    from spectral_skills.models import Models

    environment = os.environ | {
        "SPECTRAL": f"{sys.executable} -m spectral_skills.cli",
        **{"SMOKE": "1", "OUT": str(tmp_path), "DEVICE": "cpu"},
    }
    done = subprocess.run(
        ["bash", str(SCRIPT)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    package = tmp_path / "package"
    models = Models.load(
        controller=package / "controller",
        skill=package / "skill",
        directions=package / "directions.safetensors",
        planner=package / "planner",
    )
    assert [one["direction"] for one in models.known_directions.measured] == ["turn"]
    card = (package / "CARD.md").read_text()
    for name in ("embedded", "cmu", "g1_moves"):
        assert f"| {name} | 8 | 1 |" in card
    for role in ("controller", "skill", "directions", "planner"):
        assert f"`{models.hashes[role][:8]}`" in card
    assert "Tracking: the release, embedded held out" in card
    assert (tmp_path / "bundle" / "bundle.json").is_file()
    assert (tmp_path / "pictures" / "steered.png").is_file()
    again = subprocess.run(
        ["bash", str(SCRIPT)], env=environment, capture_output=True, text=True
    )
    assert again.stdout == "".join(f"{stage}: up to date\n" for stage in STAGES)
