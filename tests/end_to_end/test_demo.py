"""The README's second command, in small."""

import re
from functools import partial

import pytest
from PIL import Image

from spectral_skills.motion.clip import Clip
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.synthetic.factors import factors_of
from spectral_skills.motion.synthetic.generate import (
    SynthConfig,
    chosen,
    embedded_corpus,
)
from spectral_skills.plots import corpus as corpus_plots
from spectral_skills.plots import demo, film, skills
from spectral_skills.plots.demo import FOLLOWED, GRIDS, SHEETS, demo_page, example


def _shortest(corpus: Corpus, wanted: str) -> Clip:
    """A clip with just these factors."""
    factors = frozenset(wanted.split("+")) - {""}
    own = [i for i, name in enumerate(corpus.names) if factors_of(name) == factors]
    return corpus.clip(min(own, key=lambda i: corpus.lengths[i]))


@pytest.mark.usefixtures("coarse_pictures")
def test_demo_writes_a_page_with_pictures(tmp_path, monkeypatch, make_corpus):
    """Every picture the page shows exists and is a picture."""
    # Fewer robots to draw: two columns, and two of the directions.
    monkeypatch.setattr(demo, "PANELS", 2)
    monkeypatch.setattr(film, "PANELS", 2)
    monkeypatch.setattr(corpus_plots, "PANELS", 2)
    monkeypatch.setattr(skills, "PANELS", 2)
    few = partial(skills.draw_poses, names=("s01", "right_arm"))
    monkeypatch.setattr(demo, "draw_poses", few)
    every = Corpus.open(embedded_corpus())
    clips = [_shortest(every, w) for w in ("", "forward", "squat", "turn")]
    corpus = make_corpus(tmp_path / "generated", clips)
    written = demo_page(tmp_path / "generated", tmp_path / "demo")
    text = written.read_text()
    pictures = re.findall(r'src="([^"]+)"', text)
    grids = [[example(corpus, w) for w in row] for row in GRIDS.values()]
    shown = sum(any(i is not None for i in row) for row in grids)
    sheets = sum(example(corpus, w) is not None for w in SHEETS)
    followed = sum(example(corpus, w) is not None for w in FOLLOWED)
    # Coverage, and of the skill space: map, poses, ranks.
    assert len(pictures) == 4 + shown + sheets + followed > 6
    for picture in pictures:
        with Image.open(written.parent / picture) as image:
            assert min(image.size) > 200
    assert "teleport.npz: frame 150" in text
    assert "accepted" in text and "refused   2" in text
    assert "unexplained force" in text and "<td>all</td>" in text


def test_the_embedded_corpus_has_every_row_of_the_demo():
    """All factors that the page shows are among those of the 512 clips."""
    there = {chosen(0, number) for number in range(SynthConfig().clips)}
    for wanted in (*SHEETS, *FOLLOWED, *(w for row in GRIDS.values() for w in row)):
        assert frozenset(wanted.split("+")) - {""} in there, wanted
