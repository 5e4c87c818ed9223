"""Average precision of a detector as a table."""

from amcl.checkpoints.evaluations import Result
from amcl.results.table import Table

_COLUMNS = ("AP", "AP50", "AP75", "AP_small", "AP_medium", "AP_large", "AR")


def precision_table(result: Result) -> Table:
    """Return a row for boxes and one for masks, in percent.

    Args:
        result: Result of the protocol "detect".

    Returns:
        The table; a size of which there are no objects has a dash.

    Example:
        >>> result = Result(
        ...     protocol="detect",
        ...     data="coco",
        ...     split="test",
        ...     metrics={"box_AP": 0.123, "box_AP50": 0.3},
        ...     model={},
        ...     settings={},
        ...     seed=0,
        ... )
        >>> print(precision_table(result).to_markdown(), end="")
        |  | AP | AP50 | AP75 | AP small | AP medium | AP large | AR |
        | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
        | boxes | 12.3 | 30.0 | – | – | – | – | – |
    """
    rows = []
    for kind, name in (("box", "boxes"), ("mask", "masks")):
        values = [result.metrics.get(f"{kind}_{column}") for column in _COLUMNS]
        if any(value is not None for value in values):
            rows.append([name, *("–" if v is None else f"{100 * v:.1f}" for v in values)])
    return Table(["", *(column.replace("_", " ") for column in _COLUMNS)], rows)
