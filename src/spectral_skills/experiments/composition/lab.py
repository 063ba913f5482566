"""A runner with the measures of the composition experiments."""

from spectral_skills.control.batch import Executed as Executed
from spectral_skills.control.batch import Runner
from spectral_skills.control.schedules import full_amplitude
from spectral_skills.experiments.effects import Effect, effect
from spectral_skills.experiments.findings import FindingsBuilder
from spectral_skills.motion.synthetic.bases import Base
from spectral_skills.results import Result


class Lab(Runner):
    """A controller, a skill space and its directions, on a device."""

    def cell(
        self, experiment, row, metric, value, unit="", n=1, paper="", seed=0
    ) -> Result:
        found = FindingsBuilder(experiment, "", self)
        found.add(row, metric, value, unit, n, seed, paper)
        return found.results[0]

    def hold(self, base: Base) -> slice:
        """Rows over which effects are measured."""
        return full_amplitude(base.steps)

    def effect(self, steered: Executed, plain: Executed) -> Effect:
        """What steering has changed over the steps of full amplitude."""
        return effect(steered.rows, plain.rows, self.hold(steered.run.base))
