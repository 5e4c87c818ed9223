"""Features of all images of a source, written to a file with the names of the images."""

import os
from pathlib import Path
from typing import Literal

from amcl.checkpoints.loaded_model import LoadedModel
from amcl.data import default_workers, load_all_images
from amcl.evaluation.build import input_transform
from amcl.evaluation.cache import cached_features
from amcl.evaluation.embeddings_file import check_embeddings_file, write_embeddings
from amcl.metrics.features import Features
from amcl.training.hardware import find_accelerator


def embed(
    model: LoadedModel,
    data: str,
    out: Path,
    *,
    data_root: Path | None = None,
    canvas: int | None = None,
    crop: float | None = None,
    workers: int | None = None,
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto",
) -> Features:
    """Write features and names of images to a file.

    Where the model is of a run that can be written to, features are kept in its folder too.

    Args:
        model: The model, as `open_model` returns it.
        data: A folder of images, a named set, or "builtin".
        out: A new .csv, .npz or .parquet file.
        data_root: Folder of named sets.
        canvas: Pixels a side that pictures are decoded at.
        crop: Share of the shorter side that a central crop takes; see `EvaluationData`.
        workers: Processes that decode pictures; None for one a core.
        accelerator: Device that computes the features.

    Returns:
        The features. Files that could not be read are listed there, and left out of the file.
    """
    check_embeddings_file(out)
    device = find_accelerator(accelerator)
    size = model.backbone.image_size
    pictures = load_all_images(
        data, root=data_root, image_size=size, canvas=canvas, **model.image_options()
    )
    run = model.folder
    features = cached_features(
        run / "features" if run is not None and os.access(run, os.W_OK) else None,
        model.backbone.to(device),
        pictures.images,
        input_transform(model, crop, pictures.images),
        device=device,
        workers=default_workers() if workers is None else workers,
    )
    write_embeddings(out, pictures.names, features, paths=pictures.paths, labels=pictures.labels)
    return features
