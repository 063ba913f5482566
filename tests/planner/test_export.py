"""An exported planner plans what the planner plans."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from spectral_skills.planner.export import INPUTS, export
from spectral_skills.planner.model import Planner
from spectral_skills.planner.text import TextStates


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> tuple[Planner, onnxruntime.InferenceSession]:
    """The released planner, twice."""
    path: Path = tmp_path_factory.mktemp("onnx") / "planner.onnx"
    planner = Planner.load("base")
    export(planner, path)
    providers = ["CPUExecutionProvider"]
    return planner, onnxruntime.InferenceSession(path, providers=providers)


@pytest.mark.parametrize("words", [3, 12, 31])
def test_plans_are_the_same_for_sentences_of_any_length(exported, words):
    planner, session = exported
    torch.manual_seed(words)
    history, noise = torch.randn(1, 10, 93), torch.randn(1, 30, 64)
    text = TextStates(torch.randn(1, words, 384), torch.ones(1, words).bool())
    text.mask[0, -1] = words < 10  # one that is not heard, too
    expected = planner.plan(history, text, noise).numpy()
    given = (history, *text, noise)
    feed = {name: v.numpy() for name, v in zip(INPUTS, given, strict=True)}
    (found,) = session.run(None, feed)
    np.testing.assert_allclose(found, expected, atol=2e-5, rtol=1e-5)
