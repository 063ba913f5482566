"""Small skill models and the motions they are trained on."""

from dataclasses import replace
from pathlib import Path

import pytest

from spectral_skills import recipes
from spectral_skills.motion.corpus import Corpus
from spectral_skills.skill.predictor import PredictorConfig
from spectral_skills.skill.trainer import PretrainConfig


@pytest.fixture(scope="session")
def shrink():
    """A recipe with all its choices and hardly any width."""

    def shrink(name: str, **changes) -> PretrainConfig:
        config = recipes.pretrain(name)
        model = config.model
        bottleneck = replace(model.encoder.bottleneck, codes=16)
        small = replace(
            model,
            encoder=replace(
                model.encoder, width=6, hidden=(24, 16), bottleneck=bottleneck
            ),
            predictor=PredictorConfig(
                kind=model.predictor.kind,
                embed=12,
                rank=5,
                context_hidden=(16, 16),
                target_hidden=(24, 16),
                concat_hidden=(16, 12),
            ),
        )
        settings = {
            "updates": 4,
            "batch": 32,
            "held_out": 1,
            "evaluate_every": 2,
            "evaluation_windows": 24,
            "checkpoint_every": 2,
            "slices": 8,
        }
        return replace(config, model=small, **(settings | changes))

    return shrink


@pytest.fixture(scope="session")
def folder(make_clip, make_corpus, tmp_path_factory) -> Path:
    """Six short clips, where other processes find them."""
    folder = tmp_path_factory.mktemp("corpus") / "walks"
    clips = [make_clip(f"walk{i}", 160 + 7 * i, seed=i) for i in range(6)]
    make_corpus(folder, clips)
    return folder


@pytest.fixture(scope="session")
def corpus(folder) -> Corpus:
    """The same, opened."""
    return Corpus.open(folder)
