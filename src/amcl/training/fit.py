"""Settings that follow from the number of images or from the length of a run."""

import math
from dataclasses import replace

from amcl.methods import LGPSettings, MoCoSettings
from amcl.methods.contrastive import ContrastiveSettings
from amcl.methods.momentum import MomentumSettings
from amcl.training.config import Config

_STEPS = 8  # an epoch of few images has this many steps,
_SMALL = 32  # unless that would take batches of fewer images
_WARMUP = 0.1  # the longest warm-up of a shortened run, as a share of it


def suitable_batch(images: int, most: int, unit: int = 1) -> int:
    """A batch size of at most `most`, a multiple of `unit`, that gives an epoch enough steps.

    Few images are divided into eight steps, or into fewer steps of about 32 images, so that less
    than a step's share of them is left over.

    >>> [suitable_batch(images, 256) for images in (30, 63, 220, 360, 2000, 45000)]
    [30, 31, 31, 45, 250, 256]
    """
    if images // most < _STEPS:
        steps = min(_STEPS, max(1, round(images / _SMALL)))
        most = min(most, images // steps)
    return max(most // unit, 1) * unit


def fitted(config: Config, images: int, processes: int = 1) -> tuple[Config, list[str]]:
    """The configuration with what `--fit` names made to suit the images; what was changed."""
    names, notes = config.run.fit or (), []
    config = replace(config, run=replace(config.run, fit=None))
    if "batch_size" in names:
        run, unit = config.run, config.run.accumulate * processes
        size = max(suitable_batch(images, run.batch_size, unit), _least_batch(config, unit))
        size = min(size, run.batch_size)
        if size != run.batch_size:
            notes.append(
                f"the batch size is {size} instead of {run.batch_size}, to suit {images} images "
                "(--batch-size sets it)"
            )
            config = replace(config, run=replace(run, batch_size=size))
    method, size = config.method, config.run.batch_size
    if "queue" in names and isinstance(method, MoCoSettings):
        keys = size * max(images // size, 1) * (2 if method.symmetric else 1)
        keys = max(keys, method.top_k or 0)
        if keys < method.queue:
            notes.append(
                f"the queue holds {keys} keys instead of {method.queue}, no more than an epoch "
                "makes (--queue sets it)"
            )
            config = replace(config, method=replace(method, queue=keys))
    return config, notes


def _least_batch(config: Config, unit: int) -> int:
    """The smallest batch with as many negatives as `top_k` takes; 0 where that does not matter."""
    method = config.method
    if not isinstance(method, ContrastiveSettings) or method.top_k is None:
        return 0
    if isinstance(method, MoCoSettings) and method.queue:
        return 0
    alone = isinstance(method, MomentumSettings)
    images = method.top_k + 1 if alone else math.ceil((method.top_k + 2) / 2)
    return math.ceil(images * config.run.accumulate / unit) * unit


def at_length(config: Config, epochs: int | None, mae_epochs: int | None = None) -> Config:
    """The configuration for a run of another length.

    LGP's first stage keeps its proportion to the second unless `mae_epochs` says otherwise. The
    warm-up becomes at most a tenth of each stage, or the share of it that it was before.
    """
    method, warmup = config.method, config.optimizer.warmup_epochs
    epochs = epochs or config.run.epochs
    lengths = [(config.run.epochs, epochs)]
    if isinstance(method, LGPSettings) and config.run.init is None:
        in_proportion = max(1, round(method.mae_epochs * epochs / config.run.epochs))
        lengths.append((method.mae_epochs, mae_epochs or in_proportion))
        method = replace(method, mae_epochs=lengths[-1][1])
    for before, now in lengths:
        share = max(_WARMUP, config.optimizer.warmup_epochs / before)
        warmup = min(warmup, round(share * now, 6))
    return replace(
        config,
        run=replace(config.run, epochs=epochs),
        method=method,
        optimizer=replace(config.optimizer, warmup_epochs=warmup),
    )
