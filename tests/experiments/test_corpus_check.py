"""Groups, the table of gaits, and what `corpus check --record` writes."""

import json
import re
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import pytest

from spectral_skills.experiments.corpus_check import (
    ORDER,
    factor_group,
    groups,
    is_generated,
    medians,
    plain_gaits,
    results,
)
from spectral_skills.motion.gait import Stride
from spectral_skills.motion.synthetic.generate import repertoire
from spectral_skills.plots.corpus import gait_table, print_check
from spectral_skills.plots.tables import load

STRIDE = Stride(**dict.fromkeys((f.name for f in fields(Stride)), 0.5))


def strides() -> list[Stride]:
    """Three slow walking strides, one run, and a walk too fast for any row."""
    slow = [replace(STRIDE, speed=0.4, flight_share=0.0, cadence=c) for c in (1, 2, 4)]
    run = replace(STRIDE, speed=1.8, flight_share=0.2, pelvis_bob=0.06)
    return [*slow, run, replace(STRIDE, speed=1.8, flight_share=0.0)]


def test_every_combination_has_a_group():
    """All that the generator makes falls into one of the groups, and all are used."""
    used = {factor_group(factors) for factors in repertoire()}
    assert used == set(ORDER)
    assert 12 <= len(ORDER) <= 18
    assert factor_group(frozenset()) == "stand"
    assert factor_group(frozenset({"forward"})) == "walk forward"
    assert factor_group(frozenset({"forward", "carry"})) == "travel + gesture"
    assert factor_group(frozenset({"turn", "bow"})) == "travel + squat or bow"


def test_generated_names_are_grouped_by_factors(make_clip, make_corpus, tmp_path):
    """Others by their kind; a corpus of both counts as not generated."""
    names = ["forward+jog_0001", "forward+wave_0002", "stand_0003"]
    corpus = make_corpus(tmp_path / "ours", [make_clip(n) for n in names])
    assert is_generated(corpus)
    assert groups(corpus) == ["travel + travel", "travel + gesture", "stand"]
    assert plain_gaits(corpus) == [0]
    names = ["walk1_subject1", "dance1_subject2", "run1_subject2"]
    corpus = make_corpus(tmp_path / "theirs", [make_clip(n) for n in names])
    assert groups(corpus) == ["walk", "dance", "run"]
    assert plain_gaits(corpus) == [0, 2]


def test_gaits_are_medians_by_speed():
    found = medians(strides())
    assert list(found) == ["walk 0.3 to 0.6 m/s", "run 1.35 to 2.1 m/s"]
    walk, run = found.values()
    assert walk["strides"] == 3 and run["strides"] == 1
    assert walk["cadence"] == 2
    assert run["pelvis bob"] == pytest.approx(6.0)
    assert run["knee range"] == pytest.approx(29)  # half a radian


def test_gait_table_puts_corpora_side_by_side():
    both = {"ours": medians(strides()), "theirs": medians(strides()[:3])}
    title, _, *lines = gait_table(both).splitlines()
    assert title.endswith("ours | theirs")
    assert re.split(r"\s{2,}", lines[0]) == ["strides", "3 | 3", "1 | -"]
    assert "no clip" in gait_table({"ours": {}})
    checks: Any = [
        SimpleNamespace(label=n, gaits=g, summary={}, corpus=SimpleNamespace(hash=""))
        for n, g in both.items()
    ]
    rows = [r.row for r in results(checks)]
    assert list(dict.fromkeys(rows)) == [
        "walk 0.3 to 0.6 m/s",
        "walk 0.3 to 0.6 m/s, theirs",
        "run 1.35 to 2.1 m/s",
    ]


def test_check_against_another_corpus(make_clip, make_corpus, tmp_path, capsys):
    """Tables of both, JSON of both, and results that say whose they are."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    make_corpus(ours, [make_clip(n, 60) for n in ("forward_0001", "wave_0002")])
    make_corpus(theirs, [make_clip(n, 60) for n in ("walk1_subject1",)])
    record = tmp_path / "results.jsonl"
    print_check(ours, label="Embedded corpus", against=theirs, record=record)
    message = capsys.readouterr().out
    assert "Embedded corpus: 2 clips" in message and "LAFAN1 (retargeted): 1" in message
    assert "-0.0 " not in message and "nan" not in message
    rows = {r.row for r in load(record) if r.table == "Embedded corpus: plausibility"}
    assert rows == {
        *("walk forward", "stand + gesture", "all"),
        "walk, LAFAN1 (retargeted)",
    }
    commands = {r.command for r in load(record)}
    assert commands == {"spectral corpus check --against LAFAN1"}
    print_check(ours, against=theirs, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"groups", "gait", "clips", "against"}
    assert set(found["clips"]) == {"forward_0001", "wave_0002"}
    assert set(found["against"]["groups"]) == {"walk", "all"}
