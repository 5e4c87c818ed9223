"""The most similar other images of every image: exact, in blocks of the matrix of all cosines."""

import math

import torch

from amcl.metrics.knn import check_finite, unit_rows
from amcl.progress import Progress
from amcl.settings import whole_number

BLOCK = 2048  # images a side of a block: 16 MB of cosines
_GROUP = 32  # columns whose maximum is compared first
_MANY = 16  # groups of a row, on average, above which all of a block is sorted


def nearest_images(
    x: torch.Tensor, k: int, *, block: int = BLOCK, show_progress: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the k most similar other images of each image.

    The matrix of cosines is symmetric: blocks on one side of its diagonal serve both.

    Args:
        x: Features (n, D) of unit length, as `unit_features` returns them.
        k: Number of neighbors; fewer where there are fewer other images.
        block: Number of rows and of columns of a block.
        show_progress: Show a progress bar on a terminal.

    Returns:
        Cosines (n, k), the highest first, and the indices (n, k) of the neighbors.

    Example:
        >>> angle = torch.tensor([0.0, 0.1, 0.3])
        >>> cosines, indices = nearest_images(torch.stack([angle.cos(), angle.sin()], 1), k=1)
        >>> indices.squeeze(1).tolist()
        [1, 0, 1]
    """
    n = len(x)
    k = min(whole_number("k", k), n - 1)
    if n < 2:
        return x.new_empty(n, 0), torch.empty(n, 0, dtype=torch.long)
    best = x.new_full((n, k), -math.inf)
    index = torch.zeros(n, k, dtype=torch.long)
    parts = [slice(start, min(start + block, n)) for start in range(0, n, block)]
    memory = x.new_empty(min(block, n) ** 2)
    with Progress("comparing all images", n * (n + 1) // 2, show_progress) as progress:
        for number, rows in enumerate(parts):
            for columns in parts[number:]:
                height = rows.stop - rows.start
                width = columns.stop - columns.start
                cosines = memory[: height * width].view(height, width)
                torch.mm(x[rows], x[columns].T, out=cosines)
                if rows is columns:
                    cosines.fill_diagonal_(-math.inf)
                else:
                    _merge(best[columns], index[columns], cosines.T, rows.start)
                _merge(best[rows], index[rows], cosines, columns.start)
                progress.advance(height * width if rows is not columns else height * width // 2)
    return best.clamp_(-1, 1), index


def unit_features(values: torch.Tensor) -> torch.Tensor:
    """Return features (n, D) scaled to unit length; an error if some are not finite.

    >>> unit_features(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    check_finite("features", values)
    return unit_rows(values.float())


def _merge(best: torch.Tensor, index: torch.Tensor, cosines: torch.Tensor, first: int) -> None:
    """Merge the highest cosines (rows, width) into the best (rows, k) of the same rows; in place.

    A block is read once, for the maxima of groups of columns. Few of them are above the lowest of
    the best, but for the first blocks, and only those are looked into.

    Args:
        best: The best so far, the highest first.
        index: The images that they are of.
        cosines: A block of cosines, or its transpose.
        first: Image of column 0.
    """
    maxima = _group_maxima(cosines)
    above = maxima > best[:, -1:]
    if int(above.sum()) > _MANY * above.shape[0]:
        rows = torch.arange(len(best))
        values, columns = cosines.topk(min(best.shape[1], cosines.shape[1]), dim=1, sorted=False)
    else:
        rows, values, columns = _candidates(best, cosines, above)
    values, chosen = torch.cat([best[rows], values], 1).topk(best.shape[1], dim=1)
    best[rows] = values
    index[rows] = torch.cat([index[rows], columns + first], 1).gather(1, chosen)


def _group_maxima(cosines: torch.Tensor) -> torch.Tensor:
    """Return the maxima (rows, groups) of groups of `_GROUP` columns; the last group may be short.

    Group g has columns g, g + groups, g + 2 · groups and so on.
    """
    groups = math.ceil(cosines.shape[1] / _GROUP)
    whole = cosines.shape[1] // groups * groups
    first, rest = cosines[:, :whole], cosines[:, whole:]
    maxima: torch.Tensor
    if cosines.is_contiguous():
        maxima = first.unflatten(1, (-1, groups)).amax(1)
    else:  # in the order of the memory, which takes a twentieth of the time
        maxima = first.T.unflatten(0, (-1, groups)).amax(0).T.contiguous()
    if rest.shape[1]:
        maxima[:, : rest.shape[1]] = torch.maximum(maxima[:, : rest.shape[1]], rest)
    return maxima


def _candidates(
    best: torch.Tensor, cosines: torch.Tensor, above: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the cosines above the lowest of the best, in the groups that have some.

    Returns:
        Rows (m,) that have some, their cosines (m, most), filled with −∞, and the columns.
    """
    width, groups = cosines.shape[1], above.shape[1]
    row, group = above.nonzero(as_tuple=True)
    columns = group[:, None] + torch.arange(0, width, groups)
    inside = columns < width
    values = cosines[row[:, None], columns.clamp(max=width - 1)]
    chosen = inside & (values > best[row, -1:])
    rows, position, counts = row[chosen.nonzero()[:, 0]].unique_consecutive(
        return_inverse=True, return_counts=True
    )
    starts = counts.cumsum(0) - counts
    rank = torch.arange(len(position)) - starts[position]
    most = int(counts.max()) if len(counts) else 0
    padded = values.new_full((len(rows), most), -math.inf)
    padded[position, rank] = values[chosen]
    padded_columns = torch.zeros(len(rows), most, dtype=torch.long)
    padded_columns[position, rank] = columns[chosen]
    return rows, padded, padded_columns
