"""The most similar other images of every image: exact, in blocks of the matrix of all cosines."""

import math

import torch

from amcl.metrics.knn import check_finite, unit_rows
from amcl.progress import Progress
from amcl.settings import whole_number

BLOCK = 2048  # images a side of a block: 16 MB of cosines


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

    Column 0 of the cosines is that of image `first`.
    """
    k = best.shape[1]
    values, columns = _highest(cosines, k)
    values, chosen = torch.cat([best, values], 1).topk(k, dim=1)
    best.copy_(values)
    index.copy_(torch.cat([index, columns + first], 1).gather(1, chosen))


def _highest(cosines: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k highest of each row, or all, in any order, and their columns.

    They lie in the k groups of columns with the highest maxima: most of a row is read once.
    """
    width = cosines.shape[1]
    size = math.isqrt(width // k)
    if size < 2:
        return cosines.topk(min(k, width), dim=1, sorted=False)
    groups = width // size
    maxima = cosines[:, : size * groups].unflatten(1, (size, groups)).amax(1)
    chosen = maxima.topk(k, dim=1, sorted=False).indices
    steps = torch.arange(0, size * groups, groups)
    members = (chosen[:, None] + steps[:, None]).flatten(1)
    rest = torch.arange(size * groups, width).expand(len(cosines), -1)
    columns = torch.cat([members, rest], 1)
    values, order = cosines.gather(1, columns).topk(k, dim=1, sorted=False)
    return values, columns.gather(1, order)
