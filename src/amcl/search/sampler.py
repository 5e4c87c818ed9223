"""The sampler of a study: TPE, seeded anew for each trial."""

import optuna
from optuna.trial import FrozenTrial

from amcl.seeds import seed_of
from amcl.sweep.engine import RUN

_STARTUP_TRIALS = 10  # random trials before the model of past trials is used


class SeededSampler(optuna.samplers.TPESampler):
    """Tree-structured Parzen estimator; each trial's randomness follows from its number.

    So an interrupted study resumes as if it had not been, and workers do not repeat each other.

    Args:
        seed: Seed of the study.
    """

    def __init__(self, seed: int) -> None:
        self._study_seed = seed
        self._start(0)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        self._start(int(trial.user_attrs.get(RUN, 0)))
        super().before_trial(study, trial)

    def _start(self, number: int) -> None:
        seed = seed_of("trial", self._study_seed, number) % 2**32
        super().__init__(n_startup_trials=_STARTUP_TRIALS, seed=seed, constant_liar=True)
