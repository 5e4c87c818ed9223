"""Pairs of views of each image in a trained method: τ⁺, similarities, and the hardest negatives."""

from dataclasses import dataclass

import torch

from amcl.analysis.pairs import positives
from amcl.checkpoints.loaded_model import LoadedModel
from amcl.checkpoints.method import saved_method
from amcl.data import Images, stream
from amcl.data.split import sample
from amcl.files import digest
from amcl.methods import HeadMethod, HeadSettings
from amcl.metrics.features import eval_mode, fingerprint
from amcl.seeds import generator, seed_of
from amcl.views import Views

BANK = 1024  # images that negatives are taken from
NEGATIVES = 32  # of each image that are kept: the hardest, among which may be copies of it
_BATCH = 128


@dataclass(frozen=True)
class Absent:
    """The reason why there are no uncertainties or no ambiguities."""

    reason: str


def trained_method(model: LoadedModel) -> HeadMethod | Absent:
    """Return the method with heads that a model belongs to, in evaluation mode.

    Args:
        model: The model, as `open_model` returns it.

    Returns:
        The method, or the reason why there is none.
    """
    if model.checkpoint is None:
        return Absent(f"{model.name} is a backbone alone, without heads and temperatures")
    method = saved_method(model.checkpoint).method()
    if not isinstance(method, HeadMethod):
        return Absent(f"{type(method.settings).title} has no heads")
    return method


def model_fingerprint(model: LoadedModel, method: HeadMethod | Absent) -> str:
    """Return a hash of all weights that a curation depends on.

    Args:
        model: The model.
        method: Its method, as `trained_method` returns it.
    """
    backbone = fingerprint(model.backbone)
    if isinstance(method, Absent):
        return backbone
    return digest([f"{backbone} {fingerprint(method)}".encode()])


class ViewPairs:
    """Two views of each image, several times, as a method compares them.

    Args:
        method: A trained method.
        views: Maker of two views, as in training.
        pairs: Number k of pairs of views.
        device: Device to compute on.
    """

    def __init__(
        self, method: HeadMethod, views: Views, pairs: int, device: torch.device | str
    ) -> None:
        self.method = method.to(device).eval()
        self.views = views
        self.pairs = pairs
        self.device = device
        settings = method.settings
        of_others = isinstance(settings, HeadSettings) and settings.temperature.needs_images
        self.has_tau = method.loss.items == "images" and not of_others
        self.bank = torch.empty(0)
        """Projections (C, M, D) of views of other images."""
        self.bank_pairs = torch.empty(0)
        """Projections (C, M, D) of the views that these are compared with."""
        self.bank_indices = torch.empty(0, dtype=torch.long)
        """Indices (M,) of these images."""

    @torch.no_grad()
    def fill_bank(self, images: Images, seed: int, workers: int) -> None:
        """Project two views of each of some images, which are drawn by seed."""
        chosen = sample(len(images), BANK, seed_of(seed, "curation", "bank"))
        steps = chosen.split(_BATCH)
        parts: list[tuple[torch.Tensor, torch.Tensor]] = []
        indices: list[torch.Tensor] = []
        batches = stream(images, steps, workers=workers, replace=False)
        with eval_mode(self.method):
            for number, (step, batch) in enumerate(zip(steps, batches, strict=True)):
                if len(batch.pixels):
                    random = generator(seed, "curation", "bank", number)
                    parts.append(self._compared(batch.pixels, batch.shapes, random))
                    indices.append(batch.select(step))
        first, second = zip(*parts, strict=True)
        self.bank_pairs = torch.cat(first, 1)
        self.bank = torch.cat(second, 1)
        self.bank_indices = torch.cat(indices)

    @torch.no_grad()
    def __call__(
        self,
        pixels: torch.Tensor,
        shapes: torch.Tensor | None,
        indices: torch.Tensor,
        random: torch.Generator,
    ) -> dict[str, torch.Tensor]:
        """Compare views of images with each other and with the bank.

        Args:
            pixels: uint8 (n, channels, H, W).
            shapes: True heights and widths (n, 2) of images that are stored squashed.
            indices: Indices (n,) of the images.
            random: Source of the views.

        Returns:
            `tau` and `tau_spread` (n,), where temperatures are those of images: mean of τ⁺ over
            pairs and heads, and standard deviation over pairs, in the mean over heads; `positive`
            (n,): mean similarity of the two views; `negative` (n, H) and `negative_index` (n, H):
            the highest mean similarities of first views with images of the bank, and these images.
        """
        taus: list[torch.Tensor] = []
        positive = torch.zeros(len(pixels))
        negative = torch.zeros(len(pixels), len(self.bank_indices))
        with eval_mode(self.method):
            for _ in range(self.pairs):
                z0, z1 = self._compared(pixels, shapes, random)
                if self.has_tau:
                    taus.append(self._tau(z0, z1))
                cosines = self.method.loss.cosines(z0, z1)
                positive += positives(cosines).float().cpu().mean(0) / self.pairs
                negative += self.method.loss.cosines(z0, self.bank).mean(0).cpu() / self.pairs
        negative[indices[:, None] == self.bank_indices] = -torch.inf
        hardest = negative.topk(min(NEGATIVES, negative.shape[1]), dim=1)
        out = {
            "positive": positive,
            "negative": hardest.values,
            "negative_index": self.bank_indices[hardest.indices],
        }
        if taus:
            tau = torch.stack(taus)  # (k, C, n)
            out["tau"] = tau.mean((0, 1))
            out["tau_spread"] = tau.std(0, correction=0).mean(0)
            # A temperature of all images of a batch is that of no image.
            out["tau_differs"] = (tau.amax(2) > tau.amin(2)).any().expand(len(pixels))
        if not all(value.isfinite().all() for name, value in out.items() if name != "negative"):
            raise ValueError("the heads give values that are not finite: the weights are damaged.")
        return out

    def _tau(self, z0: torch.Tensor, z1: torch.Tensor) -> torch.Tensor:
        """Return τ⁺ (C, n) of pairs of views.

        Temperatures that adapt measure projections from the mean of all that they are compared
        with. That is here the bank with the batch, which may be few images, or images of one class.
        """
        first = torch.cat([z0, self.bank_pairs], 1)
        second = torch.cat([z1, self.bank], 1)
        tau = positives(self.method.loss.pair_matrix(first, second).tau)
        return tau[:, : z0.shape[1]].float().cpu()

    def _compared(
        self, pixels: torch.Tensor, shapes: torch.Tensor | None, random: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        drawn = self.views.draw(len(pixels), generator=random, shapes=shapes)
        views = self.views(pixels.to(self.device), drawn.to(self.device))
        return self.method.compared(list(views))
