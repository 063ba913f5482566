"""An exported planner plans what the planner plans."""

import numpy as np
import onnxruntime
import pytest
import torch
from small_planner import SKILL, TEXT, make_planner

from spectral_skills.planner.model import Planner
from spectral_skills.planner.text import TextStates
from spectral_skills.runtime.graphs import INPUTS, planner_onnx


def _session(graph: bytes) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])


def _planned(session, history, text, noise) -> np.ndarray:
    given = zip(INPUTS, (history, *text, noise), strict=True)
    return session.run(None, {name: values.numpy() for name, values in given})[0]


@pytest.fixture(scope="module")
def exported(encoder) -> tuple[Planner, onnxruntime.InferenceSession]:
    """A small planner, twice."""
    planner = make_planner()
    return planner, _session(planner_onnx(planner, encoder))


@pytest.mark.parametrize("words", [1, 5, 31])
def test_plans_are_the_same_for_sentences_of_any_length(exported, words):
    planner, session = exported
    torch.manual_seed(words)
    history, noise = torch.randn(1, 10, 93), torch.randn(1, 30, SKILL)
    text = TextStates(torch.randn(1, words, TEXT), torch.ones(1, words).bool())
    text.mask[0, -1] = words == 1  # one that is not heard, too
    expected = planner.plan(history, text, noise).numpy()
    found = _planned(session, history, text, noise)
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-5)


def test_planned_poses_become_skills(encoder):
    """Ten at a time, as they were planned: 21 steps of 30 poses."""
    planner = make_planner(output="pose")
    session = _session(planner_onnx(planner, encoder))
    history, noise = torch.randn(1, 10, 93), torch.randn(1, 30, 38)
    text = TextStates(torch.randn(1, 4, TEXT), torch.ones(1, 4).bool())
    found = _planned(session, history, text, noise)
    poses = planner.plan(history, text, noise)[0]
    with torch.no_grad():
        skills = [encoder.encode(poses[at : at + 10]) for at in range(21)]
    expected = torch.stack(skills).numpy()[None]
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=1e-4)
