"""An exported planner plans what the planner plans."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from small_planner import SKILL, TEXT, make_planner

from spectral_skills.planner.model import Planner
from spectral_skills.planner.text import TextStates
from spectral_skills.runtime.graphs import INPUTS, export


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> tuple[Planner, onnxruntime.InferenceSession]:
    """A small planner, twice."""
    path: Path = tmp_path_factory.mktemp("onnx") / "planner.onnx"
    planner = make_planner()
    export(planner, path)
    providers = ["CPUExecutionProvider"]
    return planner, onnxruntime.InferenceSession(path, providers=providers)


@pytest.mark.parametrize("words", [1, 5, 31])
def test_plans_are_the_same_for_sentences_of_any_length(exported, words):
    planner, session = exported
    torch.manual_seed(words)
    history, noise = torch.randn(1, 10, 93), torch.randn(1, 30, SKILL)
    text = TextStates(torch.randn(1, words, TEXT), torch.ones(1, words).bool())
    text.mask[0, -1] = words == 1  # one that is not heard, too
    expected = planner.plan(history, text, noise).numpy()
    given = (history, *text, noise)
    feed = {name: v.numpy() for name, v in zip(INPUTS, given, strict=True)}
    (found,) = session.run(None, feed)
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-5)
