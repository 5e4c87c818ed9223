"""Features on a plane: PCA, or UMAP and t-SNE by their own packages."""

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
_NEAR = 15  # neighbors that UMAP keeps together, its own default
_PERPLEXITY = 30  # t-SNE's, its own default


def plane(features: torch.Tensor, method: PlaneMethod = "pca", seed: int = 0) -> torch.Tensor:
    """Places (N, 2) of features (N, d) on a plane, by their directions as the cosine sees them.

    - "pca": the two directions of the largest variance, each turned so that its largest
      component is positive; it draws nothing;
    - "umap": umap-learn, and "tsne": openTSNE, each with its own defaults but fewer neighbors
      for few images. Both are extras and need 4 images or more.

    >>> plane(torch.tensor([[1.0, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]])).shape
    torch.Size([4, 2])
    """
    choose("method", method, ("pca", "umap", "tsne"))
    check_finite("features", features)
    directions, least = unit(features.detach().double().cpu()), 2 if method == "pca" else 4
    if len(directions) < least:
        raise ValueError(f"{method} needs {least} images or more, got {len(directions)}.")
    if method == "pca":
        return _pca(directions)
    # What these packages take as a seed.
    state = seed_of(seed, "plane") % 2**32
    points = (_umap if method == "umap" else _tsne)(directions.numpy(), state)
    return torch.as_tensor(points, dtype=torch.float32)


def _pca(x: torch.Tensor) -> torch.Tensor:
    u, values, axes = torch.linalg.svd(x - x.mean(0), full_matrices=False)
    axes, points = axes[:2], (u * values)[:, :2]
    largest = axes.gather(1, axes.abs().argmax(1, keepdim=True)).squeeze(1)
    points = points * torch.where(largest < 0, -1.0, 1.0)
    missing = 2 - points.shape[1]  # features of one component lie on a line
    return torch.nn.functional.pad(points, (0, missing)).float()


def _umap(x: Any, seed: int) -> Any:
    near = min(_NEAR, len(x) - 1)
    made = _package("umap", "umap").UMAP(n_neighbors=near, random_state=seed, n_jobs=1)
    return made.fit_transform(x)


def _tsne(x: Any, seed: int) -> Any:
    perplexity = min(_PERPLEXITY, (len(x) - 1) / 3)
    made = _package("openTSNE", "tsne").TSNE(perplexity=perplexity, random_state=seed, n_jobs=1)
    return made.fit(x)


def _package(name: str, extra: str) -> Any:
    try:
        with warnings.catch_warnings():  # UMAP's, that one of its variants needs TensorFlow
            warnings.simplefilter("ignore", ImportWarning)
            return importlib.import_module(name)
    except ImportError as error:
        raise ValueError(
            f"{needed(f'method={extra!r}', name, extra)} Or use method='pca'."
        ) from error
