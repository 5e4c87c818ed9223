"""Pruners: they cut trials short that lie below others by more than noise."""

import math

import optuna
from optuna.trial import FrozenTrial, TrialState

from amcl.results.intervals import standard_error
from amcl.search.folder import Definition

_STARTUP_TRIALS = 5  # complete trials before the median of them is used
_REDUCTION = 3  # successive halving keeps one of this number of trials


def pruner_of(definition: Definition, images: int | None) -> optuna.pruners.BasePruner:
    """Return the pruner of a study.

    Args:
        definition: Definition of the study.
        images: Number of images that the objective is an accuracy on; None if it is no accuracy.
    """
    run = definition.config.run
    pruner: optuna.pruners.BasePruner
    if definition.pruner == "off":
        return optuna.pruners.NopPruner()
    if definition.pruner == "median":
        pruner = optuna.pruners.MedianPruner(n_startup_trials=_STARTUP_TRIALS)
        share = 0.5
    else:
        first = min(run.probe_every, run.epochs)
        pruner = optuna.pruners.SuccessiveHalvingPruner(first, reduction_factor=_REDUCTION)
        share = 1 / _REDUCTION
    return pruner if images is None else NoisePruner(pruner, share, images)


class NoisePruner(optuna.pruners.BasePruner):
    """Cuts a trial short where another pruner would, and only by more than noise.

    The trial must lie below the accuracy that the better `share` of the other trials had at that
    epoch by more than the standard error of a difference, and by more than one image.
    """

    def __init__(self, pruner: optuna.pruners.BasePruner, share: float, images: int) -> None:
        self.pruner = pruner
        self.share = share
        self.images = images

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        epoch = trial.last_step
        if epoch is None or not self.pruner.prune(study, trial):
            return False
        states = (TrialState.COMPLETE,) if self.share == 0.5 else None  # as the median pruner has
        others = [
            other.intermediate_values[epoch]
            for other in study.get_trials(deepcopy=False, states=states)
            if other.number != trial.number and epoch in other.intermediate_values
        ]
        best = max(trial.intermediate_values.values())  # a trial is judged by its best probe
        return is_below(best, others, self.share, self.images)


def is_below(value: float, others: list[float], share: float, images: int) -> bool:
    """Return True if an accuracy lies below the better `share` of others by more than noise.

    >>> is_below(0.143, [0.179] * 9, 0.5, images=28), is_below(0.143, [0.179] * 9, 0.5, 1000)
    (False, True)
    """
    ranked = sorted((other for other in others if math.isfinite(other)), reverse=True)
    if not ranked:
        return False
    limit = ranked[max(0, math.ceil(share * len(ranked)) - 1)]
    noise = math.hypot(standard_error(value, images), standard_error(limit, images))
    return limit - value > max(noise, 1.5 / images)  # one image and rounding
