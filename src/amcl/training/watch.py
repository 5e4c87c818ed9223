"""Probes while a run goes on: kNN where there are labels, collapse, temperatures."""

import logging
from typing import Any

import torch

from amcl.data import DataSet, MemoryImages, stream
from amcl.evaluation import effective_rank, extract, knn_accuracy, spread
from amcl.methods import Method
from amcl.views import Views

logger = logging.getLogger("amcl")

COLLAPSED = 0.1  # spread below this: the mean cosine of two features is above 0.99
_SAMPLE = 1000  # images whose spread is looked at
_BATCH = 256


class Watch:
    """Looks at a method from outside: features and projections of fixed images."""

    def __init__(self, data: DataSet, views: Views, knn_k: int) -> None:
        self.data, self.views, self.knn_k = data, views, knn_k
        self._sample = self._first_of_training() if data.probe is None else None

    def probe(self, method: Method, device: torch.device) -> dict[str, float]:
        """Numbers for the log; label metrics only where there are labels."""
        backbone = method.backbone
        found: dict[str, float] = {}
        if self.data.probe is None:
            if self._sample is None:
                raise RuntimeError("a sample is drawn where there is no probe")
            h = self._features(backbone, self._sample, device)
        else:
            bank, queries = self.data.probe.bank, self.data.probe.queries
            h = self._features(backbone, queries.images, device)
            stored = self._features(backbone, bank.images, device)
            accuracy = knn_accuracy(stored, bank.labels, h, queries.labels, k=self.knn_k)
            found[f"knn_{self.data.probe.split}"] = accuracy
        if len(h) > 1:  # one image alone has no spread
            found["spread"], found["effective_rank"] = spread(h), effective_rank(h)
        return found

    def advice(self, method: Method, found: dict[str, float]) -> list[str]:
        """Signs of trouble with their remedies."""
        told = method.stats.advice() if method.stats is not None else []
        if found.get("spread", 1.0) < COLLAPSED:
            told.append(
                f"the features have collapsed (spread {found['spread']:.3f}: all images look the "
                "same to the backbone). Lower the learning rate, or for adaptive temperatures "
                "raise --tau-lower or lower --beta; a constant temperature of 0.1 to 0.5 is safe."
            )
        return told

    def _features(self, backbone: Any, images: Any, device: torch.device) -> torch.Tensor:
        batches = (images[rows] for rows in torch.arange(len(images)).split(_BATCH))
        return extract(backbone, batches, self.views.plain, device)

    def _first_of_training(self) -> MemoryImages:
        """Some images to watch the spread on where nothing is held out."""
        count = min(_SAMPLE, len(self.data.train))
        readable = []
        for batch in stream(self.data.train, torch.arange(count).split(_BATCH), workers=0):
            readable.append(batch.pixels)
        return MemoryImages(torch.cat(readable))
