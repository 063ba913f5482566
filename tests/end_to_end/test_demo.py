"""The README's second command, in small."""

import re

from PIL import Image

from spectral_skills.motion.corpus import Corpus
from spectral_skills.report.demo import build
from spectral_skills.robot.render import backend


def test_demo_writes_a_page_with_pictures(tmp_path, monkeypatch):
    """Every picture the page shows exists and is a picture."""
    monkeypatch.setenv("SPECTRAL_GL", "software")
    backend.cache_clear()
    try:
        page = build(tmp_path / "demo")
    finally:
        backend.cache_clear()  # other tests draw as this machine can
    text = page.read_text()
    pictures = re.findall(r'src="([^"]+)"', text)
    assert len(pictures) == 1 + len(Corpus.open(tmp_path / "demo" / "corpus"))
    for picture in pictures:
        with Image.open(page.parent / picture) as image:
            assert min(image.size) > 200
    assert "teleport.npz: frame 150" in text
    assert "accepted" in text and "refused   2" in text
