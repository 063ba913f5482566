"""Named runs: each a function that returns a whole configuration."""

from spectral_skills.motion.synthetic.generate import SynthConfig


def synth_base() -> SynthConfig:
    """The embedded corpus: about an hour, what released models are made from."""
    return SynthConfig(clips=512, seed=0)


def synth_smoke() -> SynthConfig:
    """A few clips, in seconds."""
    return SynthConfig(clips=8, seed=0)
