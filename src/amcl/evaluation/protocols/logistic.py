"""The protocol "logistic": logistic regression on frozen features, by scikit-learn."""

import warnings
from dataclasses import dataclass
from typing import Any

import torch

from amcl.data import DataSet
from amcl.evaluation.evaluation import Evaluation
from amcl.evaluation.hold_out import (
    GridScores,
    by_name,
    check_grid,
    check_labeled,
    check_share,
    hold_out_parts,
    top_k,
)
from amcl.evaluation.registry import Outcome, register_protocol
from amcl.progress import Progress
from amcl.seeds import seed_of
from amcl.settings import whole_number

FEW_IMAGES = 2000  # training images below which it is run by default


@dataclass(frozen=True, kw_only=True)
class LogisticSettings:
    """Settings of the logistic regression, which has an L2 penalty and is fitted by L-BFGS."""

    costs: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
    """scikit-learn's C to choose from, smaller for a stronger penalty; one value: no choice."""
    hold_out: float = 0.1
    """Share of the training images that choose the cost, by accuracy; where that is fewer than 200
    images, by the loss of up to five such shares in turn (cross-validation). All are
    in the last fit."""
    max_iter: int = 1000
    """Steps of L-BFGS, at most."""
    standardize: bool = False
    """Features to mean 0 and variance 1, by the images fitted; else they are used raw."""

    def __post_init__(self) -> None:
        check_grid("costs", self.costs)
        check_share("hold_out", self.hold_out)
        whole_number("max_iter", self.max_iter)


@dataclass(frozen=True, kw_only=True)
class Regression:
    """A fitted logistic regression."""

    model: Any
    """The scikit-learn model, with the standardization if there is one."""
    converged: bool
    """True if L-BFGS converged within its steps."""

    def log_probabilities(self, x: torch.Tensor, classes: int = 0) -> torch.Tensor:
        """Return log-probabilities (N, K) of x: (N, D), for at least `classes` classes.

        A class without training images has −∞.
        """
        values = torch.from_numpy(self.model.predict_log_proba(_numpy(x)))
        trained = torch.from_numpy(self.model.classes_).long()
        shape = (len(x), max(int(trained.max()) + 1, classes))
        scores = torch.full(shape, -torch.inf).to(values)
        scores[:, trained] = values
        return scores

    def accuracy(self, x: torch.Tensor, truth: torch.Tensor) -> float:
        """Return the share of x: (N, D) whose likeliest class is the true one."""
        return top_k(self.log_probabilities(x), truth.cpu(), 1).double().mean().item()


def fit(
    x: torch.Tensor,
    labels: torch.Tensor,
    cost: float,
    *,
    max_iter: int = 1000,
    standardize: bool = False,
    start: Regression | None = None,
) -> Regression:
    """Fit a logistic regression in double precision.

    Args:
        x: Features, (N, D).
        labels: Classes, (N,).
        cost: The C of scikit-learn.
        max_iter: Largest number of steps of L-BFGS.
        standardize: Whether features are brought to mean 0 and variance 1.
        start: Regression of another cost to start from, which saves steps.

    Example:
        >>> x, y = torch.tensor([[-1.0], [-2.0], [1.0], [2.0]]), torch.tensor([0, 0, 1, 1])
        >>> fit(x, y, cost=1.0).accuracy(x, y)
        1.0
    """
    # Imported here, since it takes 90 MB that pre-training does not need.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if len(labels.unique()) < 2:
        raise ValueError(
            "logistic regression needs images of two classes or more, and all "
            f"{len(labels)} training images are of one."
        )
    regression = LogisticRegression(C=cost, max_iter=max_iter, warm_start=start is not None)
    if start is not None:
        previous = start.model[-1] if standardize else start.model
        regression.coef_ = previous.coef_.copy()
        regression.intercept_ = previous.intercept_.copy()
    model = make_pipeline(StandardScaler(), regression) if standardize else regression
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(_numpy(x), labels.cpu().numpy())
    others = [w for w in caught if not issubclass(w.category, ConvergenceWarning)]
    for w in others:
        warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
    return Regression(model=model, converged=len(others) == len(caught))


def logistic(
    train_x: torch.Tensor,
    train_y: torch.Tensor,
    test_x: torch.Tensor,
    test_y: torch.Tensor,
    classes: int,
    settings: LogisticSettings,
    seed: int = 0,
) -> dict[str, Any]:
    """Fit a logistic regression to the training images and measure it on the test images.

    The cost is the one that does best on a hold-out of the training images (see `hold_out_parts`);
    the regression is then fitted to all of them.

    Args:
        train_x: Features of the training images, (N, D).
        train_y: Their classes, (N,).
        test_x: Features of the test images, (M, D).
        test_y: Their classes, (M,).
        classes: Number of classes.
        settings: Settings of the regression.
        seed: Seed of the hold-out.

    Returns:
        Accuracies "top1", "top5" (None for up to five classes) and "train_top1", the classes
        "predicted" (M,), and what the cost was chosen from.

    Example:
        >>> x, y = torch.eye(4).repeat(10, 1), torch.arange(4).repeat(10)
        >>> result = logistic(x, y, x, y, classes=4, settings=LogisticSettings(costs=(1.0,)))
        >>> result["top1"], result["converged"]
        (1.0, True)
    """
    check_labeled("training", train_x, train_y, classes)
    check_labeled("test", test_x, test_y, classes)
    split_seed = seed_of(seed, "logistic", "hold-out")
    parts = hold_out_parts(settings.costs, train_y.cpu(), settings.hold_out, split_seed)
    grid, fits, notes = _score_parts(train_x, train_y, parts, settings)
    choice = grid.choose("cost", settings.costs)
    regression = _fit(train_x, train_y, choice.value, settings, fits.get(choice.value))
    notes = [*choice.notes, *notes]
    if not regression.converged:
        notes.append(
            f"the last fit, with cost {choice.value:g}, had not converged: raise max_iter."
        )
    scores = regression.log_probabilities(test_x, classes)
    top1, top5 = (
        top_k(scores, test_y.cpu(), k).double().mean().item() for k in (1, min(5, classes))
    )
    return {
        "top1": top1,
        "top5": top5 if classes > 5 else None,
        "train_top1": regression.accuracy(train_x, train_y),
        "predicted": scores.argmax(1),
        "cost": choice.value,
        "converged": regression.converged,
        "hold_out_images": sum(map(len, parts)),
        "folds": len(parts),
        "hold_out_top1": by_name(grid.mean_top1(settings.costs)),
        "hold_out_loss": by_name(grid.mean_loss(settings.costs)),
        "notes": notes,
    }


def _has_few_images(data: DataSet) -> bool:
    return data.probe is not None and len(data.probe.bank.labels) < FEW_IMAGES


@register_protocol("logistic", LogisticSettings, shown=("standardize",), is_default=_has_few_images)
def run_logistic(evaluation: Evaluation, settings: LogisticSettings) -> Outcome:
    """Fit a logistic regression to the features of the training images."""
    features = evaluation.labeled_features
    details = logistic(*features, len(evaluation.probe.classes), settings, evaluation.seed)
    accuracies = {name: details.pop(name) for name in ("top1", "top5", "train_top1")}
    return Outcome(
        metrics={name: value for name, value in accuracies.items() if value is not None},
        predicted=details.pop("predicted"),
        details=details,
        truth=features[-1],
    )


def _score_parts(
    x: torch.Tensor, labels: torch.Tensor, parts: list[torch.Tensor], settings: LogisticSettings
) -> tuple[GridScores, dict[float, Regression], list[str]]:
    """Fit each cost to all images but each part, and score it on that part.

    Returns the scores, the last regression of each cost, and notes.
    """
    hits: dict[float, list[torch.Tensor]] = {cost: [] for cost in sorted(settings.costs)}
    losses: dict[float, list[torch.Tensor]] = {cost: [] for cost in hits}
    fits: dict[float, Regression] = {}
    not_converged: dict[float, None] = {}
    with Progress("fitting regressions", len(parts) * len(hits)) as progress:
        for part in parts:
            train = (
                torch.ones(len(labels), dtype=torch.bool)
                .index_fill_(0, part, False)
                .nonzero()[:, 0]
            )
            truth = labels[part].cpu().long()
            regression = None
            for cost in hits:
                regression = _fit(x[train], labels[train], cost, settings, regression)
                scores = regression.log_probabilities(x[part])
                hits[cost].append(top_k(scores, truth, 1))
                losses[cost].append(-scores.gather(1, truth[:, None])[:, 0])
                fits[cost] = regression
                if not regression.converged:
                    not_converged[cost] = None
                progress.advance(1)
    grid = GridScores(
        {cost: torch.cat(rows) for cost, rows in hits.items() if rows},
        {cost: torch.cat(rows) for cost, rows in losses.items() if rows},
        by_loss=len(parts) > 1,
    )
    note = "had not converged when it was compared: raise max_iter."
    return grid, fits, [f"cost {cost:g} {note}" for cost in not_converged]


def _fit(
    x: torch.Tensor,
    labels: torch.Tensor,
    cost: float,
    settings: LogisticSettings,
    start: Regression | None,
) -> Regression:
    return fit(
        x,
        labels,
        cost,
        max_iter=settings.max_iter,
        standardize=settings.standardize,
        start=start,
    )


def _numpy(x: torch.Tensor) -> Any:
    return x.detach().cpu().double().numpy()
