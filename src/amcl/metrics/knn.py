"""Weighted k-nearest-neighbor classification of features: exact, in blocks of bounded size."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from amcl.settings import choose, positive_number, whole_number

Metric = Literal["cosine", "euclidean"]

MOST_NEIGHBORS = 200  # usual for large sets (Wu et al., 2018)
_ROWS = 1024  # queries in a block: fewer slow the product down, more do not speed it up
_BYTES = 2**27  # memory for a block of similarities


@dataclass(frozen=True, kw_only=True)
class KnnSettings:
    """Settings of the votes of neighbors."""

    k: int | None = None
    """Number of neighbors that vote, at most as many as there are labeled images; none: as many as
    a class of median size has images, at most 200."""
    tau: float = 0.1
    """Temperature of the votes exp(s/τ): small values listen to the nearest, inf to all alike."""
    metric: Metric = "cosine"
    """Similarity s of two features: cosine, or euclidean for −½‖x − y‖²."""

    def __post_init__(self) -> None:
        if self.k is not None:
            whole_number("k", self.k, "leave it out to follow the size of classes")
        if self.tau != math.inf:
            positive_number("tau", self.tau, "choose a value above 0, or inf for equal votes")
        choose("metric", self.metric, get_args(Metric))


def default_k(labels: torch.Tensor) -> int:
    """Return k for labeled images: the median size of their classes, at most 200.

    With more neighbors than a class has images, the others among them are wrong whatever the
    features are, and large classes outvote small ones.

    >>> default_k(torch.arange(10).repeat(500)), default_k(torch.arange(10).repeat(36))
    (200, 36)
    """
    sizes = labels.unique(return_counts=True)[1]
    return min(MOST_NEIGHBORS, int(sizes.median()))


def knn(
    bank: torch.Tensor,
    labels: torch.Tensor,
    queries: torch.Tensor,
    truth: torch.Tensor,
    settings: KnnSettings,
    classes: int,
) -> tuple[dict[str, float], torch.Tensor]:
    """Classify queries and measure the accuracy.

    Classes with equal scores are ranked in their order; one without a vote is never a hit.

    Args:
        bank: Features (N, D) of labeled images.
        labels: Classes (N,), 0 … classes − 1.
        queries: Features (M, D).
        truth: True classes (M,) of the queries.
        settings: Settings of the votes.
        classes: Number of classes.

    Returns:
        Top-1 accuracy, with more than 5 classes top-5 too, and the predicted classes (M,).

    Example:
        >>> bank = torch.eye(4)
        >>> labels = torch.tensor([0, 0, 1, 1])
        >>> knn(bank, labels, bank, torch.tensor([0, 1, 1, 1]), KnnSettings(k=1), classes=2)
        ({'top1': 0.75}, tensor([0, 0, 1, 1]))
    """
    _check_labels("truth", truth, queries, classes)
    truth = truth.to(bank.device)
    votes = _log_votes(bank, labels, queries, classes, settings)
    results = [(_rank(scores, truth[rows]), scores.argmax(1)) for rows, scores in votes]
    rank, predicted = (torch.cat(part) for part in zip(*results, strict=True))
    tops = (1, 5) if classes > 5 else (1,)
    return {f"top{n}": (rank < n).double().mean().item() for n in tops}, predicted.cpu()


def knn_scores(
    bank: torch.Tensor,
    labels: torch.Tensor,
    queries: torch.Tensor,
    classes: int,
    *,
    k: int | None = None,
    tau: float = 0.1,
    metric: Metric = "cosine",
    block: int | None = None,
) -> torch.Tensor:
    """Return the share of the votes of its k nearest neighbors that each class gets.

    Neighbors vote with weight exp(s/τ), where s is the cosine or −½‖x − y‖²: on unit vectors both
    give the same, for there s differs by 1 alone. Of neighbors at one distance the first in the
    bank is taken.

    Args:
        bank: Features (N, D) of labeled images.
        labels: Classes (N,), 0 … classes − 1.
        queries: Features (M, D).
        classes: Number of classes.
        k: Number of neighbors, at most N; None takes `default_k`.
        tau: Temperature τ of the votes.
        metric: Similarity s, "cosine" or "euclidean".
        block: Number of queries at a time; None takes as many as fit in 128 MB of similarities.

    Returns:
        Shares (M, classes).

    Example:
        >>> knn_scores(torch.eye(2), torch.tensor([0, 1]), torch.ones(1, 2), classes=3, k=2)
        tensor([[0.5000, 0.5000, 0.0000]])
    """
    settings = KnnSettings(k=k, tau=tau, metric=metric)
    votes = _log_votes(bank, labels, queries, classes, settings, block)
    return torch.cat([log_scores.softmax(1) for _, log_scores in votes])


def knn_predict(
    bank: torch.Tensor,
    labels: torch.Tensor,
    queries: torch.Tensor,
    *,
    k: int | None = None,
    tau: float = 0.1,
    metric: Metric = "cosine",
    block: int | None = None,
) -> torch.Tensor:
    """Classify queries by the votes of their nearest neighbors.

    Args:
        bank: Features (N, D) of labeled images.
        labels: Classes (N,), any whole numbers.
        queries: Features (M, D).
        k: Number of neighbors, at most N; None takes `default_k`.
        tau: Temperature τ of the votes exp(s/τ).
        metric: Similarity s, "cosine" or "euclidean" for −½‖x − y‖².
        block: Number of queries at a time; None takes as many as fit in 128 MB of similarities.

    Returns:
        Predicted classes (M,).

    Example:
        >>> bank = torch.eye(3)
        >>> knn_predict(bank, torch.tensor([5, 6, 7]), bank.flip(0), k=1).tolist()
        [7, 6, 5]
    """
    settings = KnnSettings(k=k, tau=tau, metric=metric)
    names, index = labels.to(bank.device).unique(return_inverse=True)
    votes = _log_votes(bank, index, queries, len(names), settings, block)
    predicted: torch.Tensor = names[torch.cat([log_scores.argmax(1) for _, log_scores in votes])]
    return predicted


def knn_accuracy(
    bank: torch.Tensor,
    labels: torch.Tensor,
    queries: torch.Tensor,
    truth: torch.Tensor,
    *,
    k: int | None = None,
    tau: float = 0.1,
    metric: Metric = "cosine",
    block: int | None = None,
) -> float:
    """Return the share of queries whose predicted class is the true one.

    Args:
        bank: Features (N, D) of labeled images.
        labels: Classes (N,), any whole numbers.
        queries: Features (M, D).
        truth: True classes (M,) of the queries.
        k: Number of neighbors, at most N; None takes `default_k`.
        tau: Temperature τ of the votes, as in `knn_predict`.
        metric: Similarity, "cosine" or "euclidean".
        block: Number of queries at a time.

    Returns:
        The accuracy, from 0 to 1.

    Example:
        >>> bank = torch.eye(4)
        >>> labels = torch.tensor([0, 0, 1, 1])
        >>> knn_accuracy(bank, labels, bank, torch.tensor([0, 1, 1, 1]), k=1)
        0.75
    """
    _check_count("truth", truth, queries)
    predicted = knn_predict(bank, labels, queries, k=k, tau=tau, metric=metric, block=block)
    return (predicted == truth.to(predicted.device)).double().mean().item()


def unit_rows(x: torch.Tensor) -> torch.Tensor:
    """Scale the rows of x (N, D) to unit vectors, however long or short they are; 0 stays 0."""
    largest = torch.linalg.vector_norm(x, torch.inf, dim=1, keepdim=True)
    # First to a largest value of 1: squares of very long or short vectors leave the number range.
    unit: torch.Tensor = x / largest.where(largest > 0, 1)
    unit /= torch.linalg.vector_norm(unit, dim=1, keepdim=True).clamp(min=1)
    return unit


def check_finite(name: str, features: torch.Tensor) -> None:
    """Raise an error with the number of rows of features (N, D) that hold NaN or infinity."""
    if features.ndim != 2 or not features.shape[1] or not features.is_floating_point():
        raise ValueError(
            f"{name} must be floating-point features of shape (N, D), got {features.dtype} of "
            f"shape {tuple(features.shape)}."
        )
    largest = torch.linalg.vector_norm(features, torch.inf, dim=1)
    if bad := int((~largest.isfinite()).sum()):
        raise ValueError(
            f"{bad} of {len(features)} rows of {name} hold NaN or infinity: the network that made "
            "them has diverged, or its input is not finite."
        )


@torch.no_grad()
def _log_votes(
    bank: torch.Tensor,
    labels: torch.Tensor,
    queries: torch.Tensor,
    classes: int,
    settings: KnnSettings,
    block: int | None = None,
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Yield blocks of queries and the log of their votes (rows, classes): −∞ without a vote.

    In logarithms, for at small τ the votes of far neighbors are too small for a number.
    """
    _check_labels("labels", labels, bank, classes)
    _check_features(bank, queries)
    labels = labels.to(bank.device)
    left, right = _factors(queries.to(bank.device), bank, settings.metric)
    k = min(default_k(labels) if settings.k is None else settings.k, len(bank))
    # The result of the search takes memory as well, if there are many neighbors or classes.
    step = min(_ROWS, max(_BYTES // (16 * max(k, classes)), 1))
    step = step if block is None else whole_number("block", block)
    # One memory for all blocks: allocating it each time costs a tenth of all time.
    rows = min(step, len(left))
    size = min(max(_BYTES // left.element_size(), rows * k), rows * len(bank))
    memory = left.new_empty(size)
    for start in range(0, max(len(left), 1), step):
        part = slice(start, start + step)
        similarity, nearest = _nearest(left[part], right, k, memory)
        tau = max(settings.tau, torch.finfo(similarity.dtype).tiny)  # less would count as 0
        vote = (similarity - similarity.amax(1, keepdim=True)) / tau
        yield part, _log_sums(vote, labels[nearest], classes)


def _log_sums(vote: torch.Tensor, index: torch.Tensor, classes: int) -> torch.Tensor:
    """Return log Σ exp(vote) by class (rows, classes) from votes and their classes (rows, k)."""
    vote = vote.clamp(min=torch.finfo(vote.dtype).min)  # a difference of infinities would be NaN
    best = vote.new_full((len(vote), classes), -math.inf).scatter_reduce_(1, index, vote, "amax")
    share = (vote - best.gather(1, index)).exp_()
    return best.add_(torch.zeros_like(best).scatter_add_(1, index, share).log_())


def _factors(
    queries: torch.Tensor, bank: torch.Tensor, metric: Metric
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two matrices whose product is the similarity, up to a constant for each query.

    −½‖x − y‖² is x·y − ½‖y‖² less ½‖x‖², and so the product of (x, 1) and (y, −½‖y‖²). Its terms
    cancel where features are long, for which float32 is too coarse: it is taken in float64.
    """
    if metric == "cosine":
        dtype = torch.promote_types(torch.promote_types(bank.dtype, queries.dtype), torch.float32)
        return unit_rows(queries.to(dtype)), unit_rows(bank.to(dtype))
    # Distances do not change when all features are shifted, and without their mean no digits are
    # lost to it. The shift has few bits: whole numbers stay exact, and equal distances equal.
    origin = bank.mean(0, dtype=torch.float64).bfloat16().double()
    left, right = (x.new_ones(len(x), x.shape[1] + 1, dtype=torch.float64) for x in (queries, bank))
    torch.sub(queries, origin, out=left[:, :-1])
    torch.sub(bank, origin, out=right[:, :-1])
    squares = [torch.linalg.vecdot(x[:, :-1], x[:, :-1]) for x in (left, right)]
    if not torch.cat(squares).isfinite().all():
        raise ValueError("squares of these features are too large for float64: scale them down.")
    right[:, -1] = -0.5 * squares[1]
    return left, right


def _nearest(
    queries: torch.Tensor, bank: torch.Tensor, k: int, memory: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k largest of queries @ bank.T and their indices in the bank, in its order.

    The bank is taken in parts whose products fit into `memory`.
    """
    most = max(len(memory) // max(len(queries), 1), 1)
    columns = math.ceil(len(bank) / math.ceil(len(bank) / most))  # parts of one width
    best = queries.new_empty(len(queries), 0)
    best_index = best.long()
    for start in range(0, len(bank), columns):
        part = bank[start : start + columns]
        product = memory[: len(queries) * len(part)].view(len(queries), len(part))
        similarity, index = _top(torch.mm(queries, part.T, out=product), k)
        index = torch.cat([best_index, index + start], 1)
        best, chosen = _top(torch.cat([best, similarity], 1), k)
        best_index = index.gather(1, chosen)
    return best, best_index


def _top(values: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k largest of each row, or all, and their indices: both in the row's order.

    Of equal values the first are taken, which `topk` does not promise.
    """
    width = values.shape[1]
    if width <= k:
        return values, torch.arange(width, device=values.device).expand_as(values)
    largest, index = _candidates(values, k + 1)
    least, last = largest.min(1, keepdim=True)
    index = index.scatter_(1, last, width).sort(1).values[:, :k]
    tied = ((largest == least).sum(1) > 1).nonzero().squeeze(1)
    for rows in tied.split(max(_BYTES // (16 * width), 1)):
        index[rows] = _first(values[rows], least[rows], k)
    return values.gather(1, index), index


def _candidates(values: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k largest of each row and their indices, in any order.

    They lie in the k groups with the largest maxima: the rest of a long row is never sorted.
    """
    width = values.shape[1]
    size = math.isqrt(width // k)
    if size < 2:
        return values.topk(k, dim=1, sorted=False)
    groups = width // size
    maxima = values[:, : size * groups].unflatten(1, (size, groups)).amax(1)
    group = maxima.topk(k, dim=1, sorted=False).indices
    steps = torch.arange(0, size * groups, groups, device=values.device)
    members = (group[:, None] + steps[:, None]).flatten(1)
    rest = torch.arange(size * groups, width, device=values.device).expand(len(values), -1)
    index = torch.cat([members, rest], 1)
    largest, chosen = values.gather(1, index).topk(k, dim=1, sorted=False)
    return largest, index.gather(1, chosen)


def _first(values: torch.Tensor, least: torch.Tensor, k: int) -> torch.Tensor:
    """Return k indices in each row: of values above `least` (rows, 1), then the first equal."""
    above = values > least
    equal = values == least
    room = k - above.sum(1, keepdim=True)
    chosen = above | (equal & (equal.cumsum(1, dtype=torch.int32) <= room))
    return chosen.nonzero()[:, 1].view(len(values), k)


def _rank(scores: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """Return the number of classes ranked before the true one; all of them if it got no vote."""
    true_score = scores.gather(1, truth[:, None])
    before = torch.arange(scores.shape[1], device=scores.device) < truth[:, None]
    rank = ((scores > true_score) | ((scores == true_score) & before)).sum(1)
    return rank.where(true_score.squeeze(1) > -math.inf, scores.shape[1])


def _check_features(bank: torch.Tensor, queries: torch.Tensor) -> None:
    check_finite("bank", bank)
    check_finite("queries", queries)
    if bank.shape[1] != queries.shape[1]:
        raise ValueError(
            f"bank has features of {bank.shape[1]} numbers and queries of {queries.shape[1]}: "
            "take both from one network."
        )


def _check_count(name: str, labels: torch.Tensor, features: torch.Tensor) -> None:
    if labels.shape != features.shape[:1] or not len(features):
        raise ValueError(
            f"{len(features)} features and {name} of shape {tuple(labels.shape)}: "
            "give one label to each, and at least 1."
        )


def _check_labels(name: str, labels: torch.Tensor, features: torch.Tensor, classes: int) -> None:
    _check_count(name, labels, features)
    whole_number("classes", classes)
    least = labels.min().item()
    most = labels.max().item()
    if labels.is_floating_point() or least < 0 or most >= classes:
        raise ValueError(
            f"{name} must be whole numbers from 0 to {classes - 1} for {classes} classes, got "
            f"{labels.dtype} from {least} to {most}."
        )
