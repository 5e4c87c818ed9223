"""Scores of pictures that people use without AMCL, and how well a score tells two kinds apart."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from amcl import functional as F
from amcl.curation.neighbors import nearest_images, unit_features
from amcl.data import Images, stream
from amcl.methods import HeadMethod
from amcl.metrics.features import eval_mode
from amcl.seeds import generator
from amcl.views import Views

BITS = 64
HASH_SIDE = 32
LOW = 8
BATCH = 256


def pixel_features(files: Sequence[Path], side: int = 32) -> torch.Tensor:
    """Return all pixels of pictures at one size, minus the mean picture: (n, 3 · side²)."""
    pixels = [np.asarray(_rgb(file).resize((side, side), Image.Resampling.BOX)) for file in files]
    x = torch.from_numpy(np.stack(pixels)).flatten(1).float()
    return x - x.mean(0)


def pixel_copies(files: Sequence[Path]) -> torch.Tensor:
    """Return 1 for each picture whose pixels are exactly those of another one, else 0: (n,)."""
    keys = []
    for file in files:
        picture = _rgb(file)
        keys.append((picture.size, picture.tobytes()))
    counts: dict[object, int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return torch.tensor([float(counts[key] > 1) for key in keys])


def perceptual_hash(picture: Image.Image) -> torch.Tensor:
    """Return pHash, 64 signs: the lowest frequencies of a gray picture against their median."""
    gray = picture.convert("L").resize((HASH_SIDE, HASH_SIDE), Image.Resampling.LANCZOS)
    x = torch.from_numpy(np.asarray(gray, dtype=np.float64))
    steps = torch.arange(HASH_SIDE, dtype=torch.float64)
    cosines = torch.cos(math.pi / HASH_SIDE * (steps + 0.5) * steps[:LOW, None])
    low = (cosines @ x @ cosines.T).flatten()
    return torch.where(low > low.median(), 1.0, -1.0)


def difference_hash(picture: Image.Image) -> torch.Tensor:
    """Return dHash, 64 signs: whether each pixel of a small gray picture is darker than the next.

    >>> difference_hash(Image.linear_gradient("L").rotate(90)).unique()
    tensor([1.])
    """
    gray = picture.convert("L").resize((LOW + 1, LOW), Image.Resampling.LANCZOS)
    x = torch.from_numpy(np.asarray(gray, dtype=np.int16))
    return torch.where(x[:, 1:] > x[:, :-1], 1.0, -1.0).flatten()


def hashes(files: Sequence[Path]) -> dict[str, torch.Tensor]:
    """Return the signs (n, 64) of both hashes of pictures, scaled to unit length.

    The cosine of two is 1 − 2 h / 64, h being the number of bits that differ.
    """
    both = [(perceptual_hash(picture), difference_hash(picture)) for picture in map(_rgb, files)]
    perceptual, difference = zip(*both, strict=True)
    return {
        "pHash": torch.stack(perceptual) / BITS**0.5,
        "dHash": torch.stack(difference) / BITS**0.5,
    }


def sharpness(file: Path) -> float:
    """Return the variance of the Laplacian of a gray picture."""
    gray = np.asarray(_rgb(file).convert("L"), dtype=np.float64)
    inner = gray[1:-1, 1:-1]
    around = gray[:-2, 1:-1] + gray[2:, 1:-1] + gray[1:-1, :-2] + gray[1:-1, 2:]
    return float((around - 4 * inner).var())


@dataclass(frozen=True)
class Neighbors:
    """The nearest other pictures of n pictures."""

    nearest: torch.Tensor
    """Index (n,) of the nearest one."""
    cosine: torch.Tensor
    """Its cosine, (n,)."""
    tenth: torch.Tensor
    """Cosine (n,) of the tenth."""
    mean: torch.Tensor
    """Mean cosine (n,) of the first ten."""


def neighbors(features: torch.Tensor) -> Neighbors:
    """Return the nearest other pictures by the cosine of their features (n, D)."""
    cosines, index = nearest_images(unit_features(features), 10, show_progress=False)
    return Neighbors(index[:, 0], cosines[:, 0], cosines[:, -1], cosines.mean(1))


@torch.no_grad()
def view_scores(
    method: HeadMethod, images: Images, views: Views, seed: int, pairs: int = 4
) -> dict[str, torch.Tensor]:
    """Return scores (n,) of pairs of views of each picture, in the mean over pairs and heads.

    - "loss": −log softmax of s/τ of the pair among those with other pictures of a random batch;
    - "similarity": s of the pair;
    - "tau": τ of the pair;
    - "tau plain": τ of the picture as it is with itself.
    """
    n = len(images)
    random = generator(seed, "proof", "views")
    names = ("loss", "similarity", "tau", "tau plain")
    sums = {name: torch.zeros(n) for name in names}
    with eval_mode(method):
        for _ in range(pairs):
            steps = torch.randperm(n, generator=random).split(BATCH)
            for rows, batch in zip(steps, stream(images, steps, workers=0), strict=True):
                drawn = views.draw(len(rows), generator=random, shapes=batch.shapes)
                z0, z1 = method.compared(list(views(batch.pixels, drawn)))
                matrix = method.loss.pair_matrix(z0, z1)
                u = F.pair_logit(matrix.s, matrix.tau.expand_as(matrix.s))
                own = [_diagonal(-u.log_softmax(dim)) for dim in (1, 2)]
                sums["loss"][rows] += (own[0] + own[1]) / 2 / pairs
                sums["similarity"][rows] += _diagonal(method.loss.cosines(z0, z1)) / pairs
                sums["tau"][rows] += _diagonal(matrix.tau.expand_as(matrix.s)) / pairs
        steps = torch.arange(n).split(BATCH)
        for rows, batch in zip(steps, stream(images, steps, workers=0), strict=True):
            plain = views.plain(batch.pixels, batch.shapes)
            z0, z1 = method.compared([plain, plain])
            matrix = method.loss.pair_matrix(z0, z1)
            sums["tau plain"][rows] = _diagonal(matrix.tau.expand_as(matrix.s))
    return sums


def auroc(scores: torch.Tensor, positive: torch.Tensor) -> float:
    """Return how often a positive scores higher than a negative; equal scores count half.

    >>> auroc(torch.tensor([3.0, 1.0, 2.0, 1.0]), torch.tensor([True, True, False, False]))
    0.625
    """
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(positive.numpy(), scores.double().numpy()))


def precision(scores: torch.Tensor, positive: torch.Tensor) -> float:
    """Return the share of positives among the k highest scores, k being their number.

    Of equal scores at the end of the k, as many count as would be chosen by chance.

    >>> precision(torch.tensor([1.0, 1.0, 0.0]), torch.tensor([True, False, False]))
    0.5
    """
    k = int(positive.sum())
    least = scores.sort(descending=True).values[k - 1]
    above = scores > least
    equal = scores == least
    share = (k - int(above.sum())) / int(equal.sum())
    return float((int(positive[above].sum()) + share * int(positive[equal].sum())) / k)


def _diagonal(matrix: torch.Tensor) -> torch.Tensor:
    """Return the positive pairs (n,) of a matrix (C, n, n), in the mean over heads."""
    return matrix.diagonal(dim1=1, dim2=2).float().mean(0).cpu()


def _rgb(file: Path) -> Image.Image:
    with Image.open(file) as picture:
        return picture.convert("RGB")
