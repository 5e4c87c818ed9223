"""Projections of features onto a plane: PCA, or UMAP and t-SNE by their packages."""

import importlib
import warnings
from typing import Any, Literal

import torch

from amcl.extras import needed
from amcl.functional import unit
from amcl.metrics.knn import check_finite
from amcl.seeds import seed_of
from amcl.settings import choose

PlaneMethod = Literal["pca", "umap", "tsne"]
_NEIGHBORS = 15  # the default of UMAP
_PERPLEXITY = 30  # the default of t-SNE


def plane(features: torch.Tensor, method: PlaneMethod = "pca", seed: int = 0) -> torch.Tensor:
    """Project features onto a plane. Only their directions count, as for the cosine.

    - "pca": the two directions of the largest variance, each turned so that its largest
      component is positive; it uses no seed;
    - "umap": umap-learn, and "tsne": openTSNE, each with its own defaults but fewer neighbors
      for few images. Both are extras and need 4 images or more.

    Args:
        features: Features, (N, d).
        method: Kind of the projection.
        seed: Seed of UMAP and t-SNE.

    Returns:
        Points on the plane, (N, 2).

    Example:
        >>> plane(torch.tensor([[1.0, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]])).shape
        torch.Size([4, 2])
    """
    choose("method", method, ("pca", "umap", "tsne"))
    check_finite("features", features)
    directions = unit(features.detach().double().cpu())
    least = 2 if method == "pca" else 4
    if len(directions) < least:
        raise ValueError(f"{method} needs {least} images or more, got {len(directions)}.")
    if method == "pca":
        return _pca(directions)
    seed = seed_of(seed, "plane") % 2**32  # the range that these packages accept
    points = (_umap if method == "umap" else _tsne)(directions.numpy(), seed)
    return torch.as_tensor(points, dtype=torch.float32)


def _pca(x: torch.Tensor) -> torch.Tensor:
    u, values, axes = torch.linalg.svd(x - x.mean(0), full_matrices=False)
    axes = axes[:2]
    points = (u * values)[:, :2]
    largest = axes.gather(1, axes.abs().argmax(1, keepdim=True)).squeeze(1)
    points = points * torch.where(largest < 0, -1.0, 1.0)
    missing = 2 - points.shape[1]  # features of one component lie on a line
    return torch.nn.functional.pad(points, (0, missing)).float()


def _umap(x: Any, seed: int) -> Any:
    package = _import("umap", "umap")
    neighbors = min(_NEIGHBORS, len(x) - 1)
    return package.UMAP(n_neighbors=neighbors, random_state=seed, n_jobs=1).fit_transform(x)


def _tsne(x: Any, seed: int) -> Any:
    package = _import("openTSNE", "tsne")
    perplexity = min(_PERPLEXITY, (len(x) - 1) / 3)
    return package.TSNE(perplexity=perplexity, random_state=seed, n_jobs=1).fit(x)


def _import(name: str, extra: str) -> Any:
    try:
        with warnings.catch_warnings():  # UMAP's, that one of its variants needs TensorFlow
            warnings.simplefilter("ignore", ImportWarning)
            return importlib.import_module(name)
    except ImportError as error:
        raise ValueError(
            f"{needed(f'method={extra!r}', name, extra)} Or use method='pca'."
        ) from error
