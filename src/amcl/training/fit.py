"""Settings that follow from the number of images or from the length of a run."""

import math
from dataclasses import replace

from amcl.config import Config
from amcl.views.channels import FITTED, suited

_STEPS = 8  # an epoch of few images has this many steps,
_SMALL = 32  # unless that would take batches of fewer images
_WARMUP = 0.1  # the longest warm-up of a shortened run, as a share of it


def suitable_batch(images: int, most: int, unit: int = 1) -> int:
    """Return a batch size of at most `most`, a multiple of `unit`, with enough steps an epoch.

    Few images are divided into eight steps, or into fewer steps of about 32 images, so that less
    than a step's share of them is left over.

    >>> [suitable_batch(images, 256) for images in (30, 63, 220, 360, 2000, 45000)]
    [30, 31, 31, 45, 250, 256]
    """
    if images // most < _STEPS:
        steps = min(_STEPS, max(1, round(images / _SMALL)))
        most = min(most, images // steps)
    return max(most // unit, 1) * unit


def fitted(
    config: Config, images: int, processes: int = 1, channels: int = 3
) -> tuple[Config, list[str]]:
    """Return the configuration with what `--fit` names made to suit the images, and the changes.

    Where it names nothing, views are made to suit the channels: those for RGB cannot be made.

    Args:
        config: The configuration.
        images: Number of images.
        processes: Number of processes.
        channels: Number of channels of the images.
    """
    names = config.run.fit or ()
    fixed = () if config.run.fit is None else set(FITTED) - set(names)
    views, notes = suited(config.views, channels, fixed)
    config = replace(config, views=views)
    config = replace(config, run=replace(config.run, fit=None))
    if "batch_size" in names:
        run = config.run
        unit = run.accumulate * processes
        size = max(suitable_batch(images, run.batch_size, unit), _least_batch(config, unit))
        size = min(size, run.batch_size)
        if size != run.batch_size:
            notes.append(
                f"the batch size is {size} instead of {run.batch_size}, to suit {images} images "
                "(--batch-size sets it)"
            )
            config = replace(config, run=replace(run, batch_size=size))
    method = config.method
    size = config.run.batch_size
    if set(names) & set(method.fitted):
        method, changes = method.fit(images, size)
        notes += changes
        config = replace(config, method=method)
    return config, notes


def _least_batch(config: Config, unit: int) -> int:
    """Return the smallest batch, a multiple of `unit`, that the method's settings allow."""
    images = config.method.min_batch_size()
    return math.ceil(images * config.run.accumulate / unit) * unit


def at_length(config: Config, epochs: int | None, first_stage_epochs: int | None = None) -> Config:
    """Return the configuration for a run of another length.

    A first stage keeps its proportion to the second unless `first_stage_epochs` is given. The
    warm-up becomes at most a tenth of each stage, or the share of it that it was before, and so do
    the epochs in which the backbone is frozen.
    """
    method = config.method
    warmup = config.optimizer.warmup_epochs
    epochs = epochs or config.run.epochs
    lengths = [(config.run.epochs, epochs)]
    before = method.first_stage_epochs
    if before is not None and config.run.init is None:
        first = first_stage_epochs or max(1, round(before * epochs / config.run.epochs))
        lengths.append((before, first))
        method = method.with_first_stage(first)
    for before, now in lengths:
        share = max(_WARMUP, config.optimizer.warmup_epochs / before)
        warmup = min(warmup, round(share * now, 6))
    frozen = config.optimizer.freeze_epochs
    if frozen is not None:
        frozen = min(frozen, round(max(_WARMUP, frozen / config.run.epochs) * epochs, 6))
    return replace(
        config,
        run=replace(config.run, epochs=epochs),
        method=method,
        optimizer=replace(config.optimizer, warmup_epochs=warmup, freeze_epochs=frozen),
    )
