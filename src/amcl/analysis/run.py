"""The sample of pairs of a run, from its folder alone."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from amcl.analysis.pairs import PairSample, PairSettings, pair_sample
from amcl.checkpoints.method import load_method
from amcl.checkpoints.run_folder import RunFolder
from amcl.config import Config
from amcl.data import DataSet, same_source
from amcl.files import expand_home
from amcl.methods import Method
from amcl.training.hardware import find_accelerator
from amcl.training.pretrain import load_data
from amcl.training.trained_on import trained_on as form_of_run
from amcl.views import ViewSettings


def sample_of_run(
    run: str | Path,
    settings: PairSettings | None = None,
    *,
    data: str | None = None,
    data_root: str | None = None,
    device: torch.device | str | None = None,
) -> PairSample:
    """Compute the sample of pairs of a run, by its newest checkpoint and with views as in training.

    Args:
        run: The run folder.
        settings: Number of images and seed.
        data: The images, if they were moved or are to be others.
        data_root: Folder of named sets, if it was moved.
        device: Device to compute on; None for a GPU where there is one.

    Returns:
        The features, similarities and temperatures, with the views and the images.

    Raises:
        FileNotFoundError: If the images are no longer where the run found them.

    Example:
        >>> settings = PairSettings(images=100)
        >>> sample = sample_of_run("runs/first", settings)  # doctest: +SKIP
        >>> len(sample)  # doctest: +SKIP
        100
    """
    trained = trained_run(run, data=data, data_root=data_root)
    device = find_accelerator("auto") if device is None else device
    return pair_sample(trained.method, trained.data, trained.views, settings, device=device)


class TrainedRun(NamedTuple):
    """What a run was trained to be, and on which images."""

    method: Method
    data: DataSet
    views: ViewSettings


def trained_run(
    run: str | Path, *, data: str | None = None, data_root: str | None = None
) -> TrainedRun:
    """Return the method of a run's newest checkpoint, its images, and the settings of its views.

    Args:
        run: The run folder.
        data: The images, if they were moved or are to be others.
        data_root: Folder of named sets, if it was moved.

    Raises:
        FileNotFoundError: If the images are no longer where the run found them.
    """
    folder = RunFolder(expand_home(run))
    config = folder.read_config()
    method = load_method(folder.path)
    images = _images(folder, config, method.backbone.image_size, data, data_root)
    return TrainedRun(method, images, config.views)


def _images(
    folder: RunFolder, config: Config, size: int, data: str | None, data_root: str | None
) -> DataSet:
    """Return the images of the run; those in files are not decoded yet."""
    trained_on = config.data
    settings = replace(
        trained_on,
        source=trained_on.source if data is None else data,
        data_root=trained_on.data_root if data_root is None else data_root,
        subset=trained_on.subset if data is None or same_source(data, trained_on.source) else None,
        image_size=size,
        memory=0.0,
    )
    try:
        return load_data(replace(config, data=settings), form_of_run(folder))
    except FileNotFoundError as error:
        if data is not None or data_root is not None:
            raise
        raise FileNotFoundError(
            f"{error} It is what the run in {folder.path} was trained on: say where it lies now, "
            "with data (--data), or data_root (--data-root) for a named set."
        ) from error
