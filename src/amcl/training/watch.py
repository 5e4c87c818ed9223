"""Probes during a run: kNN where there are labels, collapse, temperatures."""

import logging
from dataclasses import replace

import torch

from amcl.data import DataSet, MemoryImages, stream
from amcl.data.images import Images
from amcl.losses import LossStats
from amcl.methods import Method
from amcl.metrics import Features, Transform, effective_rank, features_of, knn_accuracy, spread
from amcl.metrics.knn import default_k
from amcl.training.trainer import Trainer

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
    """Looks at a method from outside: features and projections of fixed images."""

    def __init__(self, data: DataSet, knn_k: int | None) -> None:
        """`knn_k`: neighbors that vote; None follows the size of classes."""
        self.data, self.knn_k = data, knn_k
        if knn_k is None and data.probe is not None:
            self.knn_k = default_k(data.probe.bank.labels)
        self._transform = Transform(image_size=data.image_size, mean=data.mean, std=data.std)
        self._sample = self._first_of_training() if data.probe is None else None

    def describe(self) -> list[str]:
        """A line on the kNN probe, where there are labels."""
        return [] if self.data.probe is None else [f"kNN probe with k = {self.knn_k}"]

    def is_due(self, trainer: Trainer) -> bool:
        """Return whether the epoch that has ended is one to look at."""
        every, plan = trainer.config.run.probe_every, trainer.plan
        return plan.is_multiple(trainer.step, every) or trainer.step == plan.total

    def look(self, trainer: Trainer) -> tuple[dict[str, float], list[str]]:
        """Return the metrics of a probe, and advice where they are signs of trouble."""
        metrics = self.probe(trainer.method, trainer.fabric.device)
        plan, warmup = trainer.plan, trainer.config.optimizer.warmup_epochs
        early = trainer.step < max(_EARLY * plan.total, warmup * plan.per_epoch)
        return metrics, [] if early else self.advice(trainer.method, metrics)

    def probe(self, method: Method, device: torch.device) -> dict[str, float]:
        """Numbers for the log; label metrics only where there are labels."""
        found: dict[str, float] = {}
        if self.data.probe is None:
            if self._sample is None:
                raise RuntimeError("a sample is drawn where there is no probe")
            h = self._features(method, self._sample, device).values
        else:
            bank, queries = self.data.probe.bank, self.data.probe.queries
            stored, asked = (self._features(method, p.images, device) for p in (bank, queries))
            h, truth = asked.values, queries.labels[asked.indices]
            labels = bank.labels[stored.indices]
            accuracy = knn_accuracy(stored.values, labels, h, truth, k=self.knn_k)
            found[f"knn_{self.data.probe.split}"] = accuracy
        if len(h) > 1:  # one image alone has no spread
            found["spread"], found["effective_rank"] = spread(h), effective_rank(h)
        return found

    def advice(self, method: Method, found: dict[str, float]) -> list[str]:
        """Signs of trouble with their remedies."""
        stats, told = method.stats, []
        if stats is not None and not _is_spread(found):
            told += stats.advice()
        elif stats is not None:  # then similar projections alone are no collapse
            told += _on_projections(stats, found)
            told += _without_similarities(stats).advice()
        if found.get("spread", 1.0) < COLLAPSED:
            adapts = stats is not None and stats.positive.at_lower is not None
            told.append(
                f"the features have collapsed (spread {found['spread']:.3f}: all images look the "
                f"same to the backbone). {_REMEDY if adapts else _SLOWER}"
            )
        return told

    def _features(self, method: Method, images: Images, device: torch.device) -> Features:
        return features_of(
            method.backbone, images, self._transform, device=device, show_progress=False
        )

    def _first_of_training(self) -> MemoryImages:
        """Some images to watch the spread on where nothing is held out."""
        count = min(_SAMPLE, len(self.data.train))
        readable = []
        for batch in stream(self.data.train, torch.arange(count).split(_BATCH), workers=0):
            readable.append(batch.pixels)
        return MemoryImages(torch.cat(readable))


def _is_spread(found: dict[str, float]) -> bool:
    """Return whether the features have certainly not collapsed."""
    return found.get("spread", 0.0) >= COLLAPSED and found.get("effective_rank", 0.0) >= _RANK


def _on_projections(stats: LossStats, found: dict[str, float]) -> list[str]:
    """One sentence where projections are alike though features are not."""
    if stats.negative is None or stats.negative.s.max().item() <= _ALIKE:
        return []
    head = int(stats.negative.s.argmax().item()) + 1
    return [
        f"projections of head {head} are alike (mean s⁻ {stats.negative.s.max().item():.3f}), but "
        f"the features are not (spread {found['spread']:.3f}, effective rank "
        f"{found['effective_rank']:.3g})."
    ]


def _without_similarities(stats: LossStats) -> LossStats:
    """The statistics with negatives that are not alike, whose advice is on temperatures alone."""
    if stats.negative is None:
        return stats
    return replace(stats, negative=replace(stats.negative, s=torch.zeros_like(stats.negative.s)))
