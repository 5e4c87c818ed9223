"""The features of all images of a source, with their names, in a file."""

import os
from pathlib import Path
from typing import Literal

from amcl.checkpoints.subject import Subject
from amcl.data import default_workers, load_all_images
from amcl.evaluation.cache import kept_features
from amcl.evaluation.embeddings_file import check_embeddings_file, write_embeddings
from amcl.evaluation.model import transform_of
from amcl.metrics.features import Features
from amcl.training.hardware import find_accelerator


def embed(
    subject: Subject,
    data: str,
    out: Path,
    *,
    data_root: Path | None = None,
    canvas: int | None = None,
    crop: float | None = None,
    workers: int | None = None,
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto",
) -> Features:
    """Write features and names of the images in `data` to `out`, a new .csv, .npz or .parquet file.

    Where the model is of a run that can be written to, features are kept in its folder too. Files
    that cannot be read are left out, and named in what comes back.
    """
    check_embeddings_file(out)
    model, device = subject.backbone, find_accelerator(accelerator)
    listed = load_all_images(data, root=data_root, image_size=model.image_size, canvas=canvas)
    transform = transform_of(subject, crop, listed.images)
    count = default_workers() if workers is None else workers
    model.to(device)
    run = subject.folder
    found = kept_features(
        run / "features" if run is not None and os.access(run, os.W_OK) else None,
        model,
        listed.images,
        transform,
        device=device,
        workers=count,
    )
    write_embeddings(out, listed.names, found, paths=listed.paths, labels=listed.labels)
    return found
