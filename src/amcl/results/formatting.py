"""Metrics as text: accuracies in percent, other numbers with four digits."""

import re

from amcl.checkpoints.evaluations import PRECISIONS, SHARES

MISSING = "–"


def is_share(metric: str) -> bool:
    """Return True if a metric is a share from 0 to 1 that is shown in percent.

    Example:
        >>> [is_share(name) for name in ("top1", "knn_validation", "linear_top1_test", "auroc")]
        [True, True, True, False]
    """
    return metric.startswith("knn") or any(part in metric for part in SHARES)


def is_accuracy(metric: str) -> bool:
    """Return True if a metric is an accuracy on images that were not trained on.

    Example:
        >>> [is_accuracy(name) for name in ("top1", "train_top1", "overlap", "box_AP50")]
        [True, False, False, False]
    """
    precision = any(part in metric for part in PRECISIONS)
    return is_share(metric) and "train" not in metric and not precision


def is_detail(metric: str) -> bool:
    """Return True for an average precision at one overlap or of one size, and for recalls.

    Example:
        >>> is_detail("detect_box_AP_test"), is_detail("detect_box_AP50_test")
        (False, True)
    """
    if not any(part in metric for part in PRECISIONS):
        return False
    return re.search(r"(box|mask)_AP(_test)?$", metric) is None


def format_number(
    value: float | None, share: bool, *, sign: bool = False, decimals: int = 1
) -> str:
    """Return a number without its unit; shares in percent.

    Args:
        value: The number, or None where there is none.
        share: Whether the number is a share from 0 to 1.
        sign: Whether to write the sign of positive numbers too, as for differences.
        decimals: Digits behind the point of a percentage.

    Example:
        >>> format_number(0.5, True), format_number(0.012, True, sign=True)
        ('50.0', '+1.2')
        >>> format_number(2.34567, False), format_number(None, True)
        ('2.346', '–')
    """
    if value is None:
        return MISSING
    plus = "+" if sign else ""
    if share:
        return f"{100 * value:{plus}.{decimals}f}"
    return f"{value:{plus}.3g}" if sign else f"{value:.4g}"


def format_spread(
    mean: float | None,
    std: float | None,
    share: bool,
    *,
    sign: bool = False,
    decimals: int = 1,
) -> str:
    """Return mean ± standard deviation without the unit; the mean alone where there is no std.

    Example:
        >>> format_spread(0.41, 0.0141, True), format_spread(-2.3957, 0.0707, False)
        ('41.0 ± 1.4', '-2.396 ± 0.071')
    """
    text = format_number(mean, share, sign=sign, decimals=decimals)
    if mean is None or std is None:
        return text
    return f"{text} ± {format_number(std, True, decimals=decimals) if share else f'{std:.2g}'}"


def format_metric(metric: str, mean: float | None, std: float | None = None) -> str:
    """Return a metric with its unit.

    Example:
        >>> format_metric("knn_validation", 0.5), format_metric("spread", 0.51239)
        ('50.0%', '0.5124')
    """
    share = is_share(metric)
    return format_spread(mean, std, share) + "%" * (share and mean is not None)


def percent(share: float | None) -> str:
    """Return a share from 0 to 1 in percent.

    Example:
        >>> percent(0.125), percent(None)
        ('12.5%', '–')
    """
    return MISSING if share is None else f"{share:.1%}"


def plural(count: int, noun: str) -> str:
    """Return a number of things.

    Example:
        >>> plural(1, "run"), plural(2000, "run")
        ('1 run', '2,000 runs')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"
