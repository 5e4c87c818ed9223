"""The sampler of a study: TPE, seeded anew for each trial."""

from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial

from amcl.seeds import seed_of
from amcl.sweep.engine import RUN

_RANDOM = 10  # trials at random before the model of the others is believed


class SeededSampler(optuna.samplers.BaseSampler):
    """Tree-structured Parzen estimator; each trial's randomness follows from its number.

    So a study that was stopped resumes as if it had not been, and workers do not repeat each other.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._tpe = self._for(0)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        self._tpe = self._for(int(trial.user_attrs.get(RUN, 0)))

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self._tpe.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._tpe.sample_relative(study, trial, search_space)

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        return self._tpe.sample_independent(study, trial, param_name, param_distribution)

    def _for(self, number: int) -> optuna.samplers.TPESampler:
        seed = seed_of("trial", self.seed, number) % 2**32
        return optuna.samplers.TPESampler(n_startup_trials=_RANDOM, seed=seed, constant_liar=True)
