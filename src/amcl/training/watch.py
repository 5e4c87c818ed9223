"""Probes during a run: kNN where there are labels, collapse, temperatures."""

import logging
from dataclasses import replace

import torch
from torch import nn

from amcl.data import DataSet, MemoryImages, stream
from amcl.data.images import Images
from amcl.losses import LossStats
from amcl.methods import Method
from amcl.metrics import Features, Transform, effective_rank, features_of, knn_accuracy, spread
from amcl.metrics.knn import default_k

logger = logging.getLogger("amcl")

COLLAPSED = 0.1  # spread below this: the mean cosine of two features is above 0.99
_ALIKE = 0.95  # mean s⁻ of a head above this: its projections are nearly the same
_EARLY = 0.1  # share of a run in which signs of trouble mean nothing yet
_SAMPLE = 1000  # images whose spread is looked at
_BATCH = 256
_SLOWER = "Lower the learning rate, or warm up for longer."
_REMEDY = (
    "Lower the learning rate, raise --tau-lower or lower --beta; a constant temperature of 0.1 to "
    "0.5 is safe."
)
_RANK = 2.0  # features of a lower effective rank lie nearly in a line


class Watch:
    """Looks at a method from outside: features and projections of fixed images.

    Args:
        data: The images, those of the probe among them where there are labels.
        knn_k: Number of neighbors that vote; None follows the size of classes.
    """

    def __init__(self, data: DataSet, knn_k: int | None) -> None:
        self.data = data
        self.knn_k = knn_k
        if knn_k is None and data.probe is not None:
            self.knn_k = default_k(data.probe.bank.labels)
        self._transform = Transform(image_size=data.image_size, mean=data.mean, std=data.std)
        self._sample = self._first_of_training() if data.probe is None else None

    def describe(self) -> list[str]:
        """Return a line on the kNN probe, where there are labels."""
        return [] if self.data.probe is None else [f"kNN probe with k = {self.knn_k}"]

    def is_early(self, step: int, total: int, warmup: float) -> bool:
        """Return whether signs of trouble mean nothing yet, after `step` of `total` steps."""
        return step < max(_EARLY * total, warmup)

    def probe(self, model: nn.Module, device: torch.device) -> dict[str, float]:
        """Return metrics for the log; those of labels only where there are labels.

        Args:
            model: The network whose features are looked at.
            device: Its device.
        """
        metrics: dict[str, float] = {}
        if self.data.probe is None:
            if self._sample is None:
                raise RuntimeError("a sample is drawn where there is no probe")
            h = self._features(model, self._sample, device).values
        else:
            bank, queries = self.data.probe.bank, self.data.probe.queries
            stored = self._features(model, bank.images, device)
            queried = self._features(model, queries.images, device)
            h = queried.values
            labels = bank.labels[stored.indices]
            truth = queries.labels[queried.indices]
            accuracy = knn_accuracy(stored.values, labels, h, truth, k=self.knn_k)
            metrics[f"knn_{self.data.probe.split}"] = accuracy
        if len(h) > 1:  # one image alone has no spread
            metrics["spread"] = spread(h)
            metrics["effective_rank"] = effective_rank(h)
        return metrics

    def advice(self, method: Method, metrics: dict[str, float]) -> list[str]:
        """Return signs of trouble with their remedies."""
        stats = method.stats
        advice: list[str] = []
        if stats is not None and not _is_spread(metrics):
            advice += stats.advice()
        elif stats is not None:  # then similar projections alone are no collapse
            advice += _on_projections(stats, metrics)
            advice += _without_similarities(stats).advice()
        if metrics.get("spread", 1.0) < COLLAPSED:
            adapts = stats is not None and stats.positive.at_lower is not None
            advice.append(
                f"the features have collapsed (spread {metrics['spread']:.3f}: all images look the "
                f"same to the backbone). {_REMEDY if adapts else _SLOWER}"
            )
        return advice

    def _features(self, model: nn.Module, images: Images, device: torch.device) -> Features:
        return features_of(model, images, self._transform, device=device, show_progress=False)

    def _first_of_training(self) -> MemoryImages:
        """Return some images to watch the spread on where nothing is held out."""
        count = min(_SAMPLE, len(self.data.train))
        batches = stream(self.data.train, torch.arange(count).split(_BATCH), workers=0)
        return MemoryImages(torch.cat([batch.pixels for batch in batches]))


def _is_spread(metrics: dict[str, float]) -> bool:
    """Return whether the features have certainly not collapsed."""
    return metrics.get("spread", 0.0) >= COLLAPSED and metrics.get("effective_rank", 0.0) >= _RANK


def _on_projections(stats: LossStats, metrics: dict[str, float]) -> list[str]:
    """Return a sentence where projections are alike though features are not."""
    if stats.negative is None or stats.negative.s.max().item() <= _ALIKE:
        return []
    head = int(stats.negative.s.argmax().item()) + 1
    return [
        f"projections of head {head} are alike (mean s⁻ {stats.negative.s.max().item():.3f}), but "
        f"the features are not (spread {metrics['spread']:.3f}, effective rank "
        f"{metrics['effective_rank']:.3g})."
    ]


def _without_similarities(stats: LossStats) -> LossStats:
    """Return the statistics without similar negatives: their advice is on temperatures alone."""
    if stats.negative is None:
        return stats
    return replace(stats, negative=replace(stats.negative, s=torch.zeros_like(stats.negative.s)))
