"""Logistic regression on frozen features, by scikit-learn."""

import warnings
from dataclasses import dataclass
from typing import Any

import torch

from amcl.evaluation.labeled import (
    Tried,
    check_grid,
    check_labeled,
    check_share,
    choosing,
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
class Fitted:
    """A fitted logistic regression."""

    model: Any
    """scikit-learn's, with the standardization if there is one."""
    converged: bool
    """Whether L-BFGS came to its end within the steps it had."""

    def log_scores(self, x: torch.Tensor, classes: int = 0) -> torch.Tensor:
        """Return log-probabilities of x, (N, D), for at least `classes` classes: (N, K).

        A class without training images has −∞.
        """
        likely = torch.from_numpy(self.model.predict_log_proba(_numpy(x)))
        seen = torch.from_numpy(self.model.classes_).long()
        scores = torch.full((len(x), max(int(seen.max()) + 1, classes)), -torch.inf).to(likely)
        scores[:, seen] = likely
        return scores

    def accuracy(self, x: torch.Tensor, truth: torch.Tensor, k: int = 1) -> float:
        """Share of x: (N, D) whose true class is among the k likeliest."""
        return top_k(self.log_scores(x, k), truth.cpu(), k).double().mean().item()


def fit(
    x: torch.Tensor,
    labels: torch.Tensor,
    cost: float,
    *,
    max_iter: int = 1000,
    standardize: bool = False,
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
        before = start.model[-1] if standardize else start.model
        model.coef_, model.intercept_ = before.coef_.copy(), before.intercept_.copy()
    steps = make_pipeline(StandardScaler(), model) if standardize else model
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

    The cost is the one that does best on a hold-out of the training images (see `choosing`); the
    regression is then fitted to all of them. train_x: (N, D), test_x: (M, D).

    >>> x, y = torch.eye(4).repeat(10, 1), torch.arange(4).repeat(10)
    >>> found = logistic(x, y, x, y, classes=4, settings=LogisticSettings(costs=(1.0,)))
    >>> found["top1"], found["converged"]
    (1.0, True)
    """
    check_labeled("training", train_x, train_y, classes)
    check_labeled("test", test_x, test_y, classes)
    chance = seed_of(seed, "logistic", "hold-out")
    parts = choosing(settings.costs, train_y.cpu(), settings.hold_out, chance)
    tried, fits, notes = _try(train_x, train_y, parts, settings)
    chosen = tried.choose("cost", settings.costs)
    found = _fit(train_x, train_y, chosen.value, settings, fits.get(chosen.value))
    notes = [*chosen.notes, *notes]
    if not found.converged:
        told = f"the last fit, with cost {chosen.value:g}, had not converged: raise max_iter."
        notes.append(told)
    scores = found.log_scores(test_x, classes)
    shares = [top_k(scores, test_y.cpu(), k).double().mean().item() for k in (1, min(5, classes))]
    return {
        "top1": shares[0],
        "top5": shares[1] if classes > 5 else None,
        "train_top1": found.accuracy(train_x, train_y),
        "predicted": scores.argmax(1),
        "cost": chosen.value,
        "converged": found.converged,
        "hold_out_images": sum(map(len, parts)),
        "folds": len(parts),
        "hold_out_top1": _spelled(tried.means(tried.hits)),
        "hold_out_loss": _spelled(tried.means(tried.losses)),
        "notes": notes,
    }


def _try(
    x: torch.Tensor, labels: torch.Tensor, parts: list[torch.Tensor], settings: LogisticSettings
) -> tuple[Tried, dict[float, Fitted], list[str]]:
    """Fits to all images but each part, judged on that part; the last of each cost; notes."""
    hits: dict[float, list[torch.Tensor]] = {cost: [] for cost in sorted(settings.costs)}
    losses: dict[float, list[torch.Tensor]] = {cost: [] for cost in sorted(settings.costs)}
    fits, slow = dict[float, Fitted](), dict[float, None]()
    for part in parts:
        kept = torch.ones(len(labels), dtype=torch.bool).index_fill_(0, part, False).nonzero()[:, 0]
        found, truth = None, labels[part].cpu().long()
        for cost in hits:
            found = fits[cost] = _fit(x[kept], labels[kept], cost, settings, found)
            scores = found.log_scores(x[part])
            hits[cost].append(top_k(scores, truth, 1))
            losses[cost].append(-scores.gather(1, truth[:, None])[:, 0])
            if not found.converged:
                slow[cost] = None
    tried = Tried(
        {cost: torch.cat(rows) for cost, rows in hits.items() if rows},
        {cost: torch.cat(rows) for cost, rows in losses.items() if rows},
        by_loss=len(parts) > 1,
    )
    told = "had not converged when it was compared: raise max_iter."
    return tried, fits, [f"cost {cost:g} {told}" for cost in slow]


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
        standardize=settings.standardize,
        start=start,
    )


def _spelled(means: dict[float, float]) -> dict[str, float]:
    return {f"{cost:g}": mean for cost, mean in means.items()}


def _numpy(x: torch.Tensor) -> Any:
    return x.detach().cpu().double().numpy()
