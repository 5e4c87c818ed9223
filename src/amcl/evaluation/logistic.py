"""Logistic regression on frozen features, by scikit-learn."""

import warnings
from dataclasses import dataclass
from typing import Any

import torch

from amcl.evaluation.labelled import (
    check_grid,
    check_labelled,
    check_share,
    choosing,
    edge_notes,
    top_k,
)
from amcl.seeds import seed_of
from amcl.settings import whole_number


@dataclass(frozen=True, kw_only=True)
class LogisticSettings:
    """How the logistic regression is fitted: L2 penalty, L-BFGS."""

    costs: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
    """scikit-learn's C to choose from, smaller for a stronger penalty; one value: no choice."""
    hold_out: float = 0.1
    """Share of the training images that choose the cost; all of them are in the last fit."""
    max_iter: int = 1000
    """Steps of L-BFGS, at most."""
    standardise: bool = False
    """Features to mean 0 and variance 1, by the images fitted; else they are used raw."""

    def __post_init__(self) -> None:
        check_grid("costs", self.costs)
        check_share("hold_out", self.hold_out)
        whole_number("max_iter", self.max_iter)


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A fitted logistic regression."""

    model: Any
    """scikit-learn's, with the standardisation if there is one."""
    converged: bool
    """Whether L-BFGS came to its end within the steps it had."""

    def accuracy(self, x: torch.Tensor, truth: torch.Tensor, k: int = 1) -> float:
        """Share of x: (N, D) whose true class is among the k likeliest."""
        likely = torch.from_numpy(self.model.predict_proba(_numpy(x)))
        seen = torch.from_numpy(self.model.classes_).long()
        # A class without training images is never predicted.
        scores = torch.full((len(x), max(int(seen.max()) + 1, k)), -torch.inf).to(likely)
        scores[:, seen] = likely
        return top_k(scores, truth.cpu(), k).double().mean().item()


def fit(
    x: torch.Tensor,
    labels: torch.Tensor,
    cost: float,
    *,
    max_iter: int = 1000,
    standardise: bool = False,
    start: Fitted | None = None,
) -> Fitted:
    """Logistic regression of labels (N,) on x: (N, D), in double precision.

    It begins at `start`, the regression of another cost: L-BFGS then has less left to do.

    >>> x, y = torch.tensor([[-1.0], [-2.0], [1.0], [2.0]]), torch.tensor([0, 0, 1, 1])
    >>> fit(x, y, cost=1.0).accuracy(x, y)
    1.0
    """
    # Here, for whoever pre-trains needs none of it: it takes 90 MB.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if len(labels.unique()) < 2:
        raise ValueError(
            "logistic regression needs images of two classes or more, and all "
            f"{len(labels)} training images are of one."
        )
    model = LogisticRegression(C=cost, max_iter=max_iter, warm_start=start is not None)
    if start is not None:
        before = start.model[-1] if standardise else start.model
        model.coef_, model.intercept_ = before.coef_.copy(), before.intercept_.copy()
    steps = make_pipeline(StandardScaler(), model) if standardise else model
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        steps.fit(_numpy(x), labels.cpu().numpy())
    others = [one for one in caught if not issubclass(one.category, ConvergenceWarning)]
    for one in others:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return Fitted(model=steps, converged=len(others) == len(caught))


def logistic(
    train_x: torch.Tensor,
    train_y: torch.Tensor,
    test_x: torch.Tensor,
    test_y: torch.Tensor,
    classes: int,
    settings: LogisticSettings,
    seed: int = 0,
) -> dict[str, Any]:
    """Accuracy on the test images of a logistic regression fitted to the training images.

    The cost is the one that does best on a hold-out of the training images (of equals, the
    smallest); the regression is then fitted to all of them. train_x: (N, D), test_x: (M, D).

    >>> x, y = torch.eye(4).repeat(10, 1), torch.arange(4).repeat(10)
    >>> found = logistic(x, y, x, y, classes=4, settings=LogisticSettings(costs=(1.0,)))
    >>> found["top1"], found["converged"]
    (1.0, True)
    """
    check_labelled("training", train_x, train_y, classes)
    check_labelled("test", test_x, test_y, classes)
    chance = seed_of(seed, "logistic", "hold-out")
    kept, held = choosing("costs", settings.costs, train_y.cpu(), settings.hold_out, chance)
    tops, notes = {}, []
    found, fits = None, dict[float, Fitted]()
    for cost in sorted(settings.costs) if len(held) else ():
        found = fits[cost] = _fit(train_x[kept], train_y[kept], cost, settings, found)
        tops[cost] = found.accuracy(train_x[held], train_y[held])
        if not found.converged:
            notes.append(f"cost {cost:g} had not converged when it was compared: raise max_iter.")
    cost = max(settings.costs, key=lambda cost: (tops.get(cost, 0.0), -cost))
    found = _fit(train_x, train_y, cost, settings, fits.get(cost))
    if not found.converged:
        notes.append(f"the last fit, with cost {cost:g}, had not converged: raise max_iter.")
    return {
        "top1": found.accuracy(test_x, test_y),
        "top5": found.accuracy(test_x, test_y, 5) if classes > 5 else None,
        "train_top1": found.accuracy(train_x, train_y),
        "cost": cost,
        "converged": found.converged,
        "hold_out_images": len(held),
        "hold_out_top1": {f"{cost:g}": top1 for cost, top1 in tops.items()},
        "notes": edge_notes("cost", cost, settings.costs) + notes,
    }


def _fit(
    x: torch.Tensor,
    labels: torch.Tensor,
    cost: float,
    settings: LogisticSettings,
    start: Fitted | None,
) -> Fitted:
    return fit(
        x,
        labels,
        cost,
        max_iter=settings.max_iter,
        standardise=settings.standardise,
        start=start,
    )


def _numpy(x: torch.Tensor) -> Any:
    return x.detach().cpu().double().numpy()
