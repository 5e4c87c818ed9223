"""The training of a classifier, step by step, and what it resumes from."""

from collections.abc import Iterator
from contextlib import closing
from itertools import islice, tee
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import nn

from amcl.data import Batch, Labeled, stream
from amcl.evaluation.finetuning.classifier import parameter_groups, seeded
from amcl.evaluation.finetuning.plan import FinetuneSettings, Plan
from amcl.files import digest, whole_file
from amcl.metrics.features import Transform, fingerprint
from amcl.progress import Progress
from amcl.seeds import generator

Precision = Literal["32", "bf16"]

_LOOK = 10  # steps between looks at the loss: each of them waits for the device
_SAVE = 50  # steps between checkpoints at least, where epochs are short


class Trainer:
    """A classifier in training. All chance is a function of the seed and the step."""

    def __init__(
        self,
        model: nn.Module,
        train: Labeled,
        classes: int,
        transform: Transform,
        settings: FinetuneSettings,
        device: torch.device,
        seed: int,
        precision: Precision,
    ) -> None:
        self.model, self.train, self.classes = model, train, classes
        self.transform, self.settings = transform, settings
        self.device, self.seed, self.precision = device, seed, precision
        self.plan = Plan.of(len(train.images), settings, seed)
        self.peak = settings.peak_rate()
        self.optimizer = _optimizer(model, settings)
        self.views = transform.views(settings.view_settings())
        self.losses: list[float] = []  # of each epoch
        self.unreadable: dict[str, str] = {}

    def run(self, workers: int, saved: "Checkpoint | None" = None) -> None:
        """All epochs, from where the checkpoint ends."""
        if saved is not None:
            self._restore(saved.load())
        plan, done = self.plan, len(self.losses)
        asked, steps = tee(plan.steps(done))
        batches = stream(self.train.images, asked, workers=workers, replace=False)
        self.model.train()
        with closing(batches), Progress("fine-tuning", plan.total) as progress:
            progress.advance(done * plan.per_epoch)
            pairs = zip(steps, batches, strict=True)
            for epoch in range(done, plan.epochs):
                loss = self._epoch(islice(pairs, plan.per_epoch), epoch, progress)
                self.losses.append(loss)
                waited = (epoch + 1 - done) * plan.per_epoch
                if saved is not None and (waited >= _SAVE or epoch + 1 == plan.epochs):
                    saved.save(self._state())
                    done = epoch + 1
        # The last step may have broken what no loss has seen.
        for parameter in self.model.parameters():
            self._require_finite(parameter.detach())

    def identity(self) -> dict[str, str]:
        """What training hangs on, before its first step."""
        labels = self.train.labels.cpu().long().contiguous().numpy().data
        return {
            "settings": repr(self.settings),
            "transform": repr(self.transform),
            "seed": repr(self.seed),
            "precision": self.precision,
            "images": digest([self.train.images.fingerprint().encode(), labels]),
            "weights": fingerprint(self.model),
        }

    def _epoch(
        self, pairs: Iterator[tuple[torch.Tensor, Batch]], epoch: int, progress: Progress
    ) -> float:
        """One pass over the images; the mean of its losses."""
        loss_sum, seen = torch.zeros((), device=self.device), 0
        for step, (indices, batch) in enumerate(pairs, start=epoch * self.plan.per_epoch):
            self.unreadable |= dict(batch.unreadable)
            n = len(batch.pixels)
            # Batch norm may fail on one image, which unreadable files can leave of a batch.
            if n >= min(2, len(indices)):
                loss_sum += n * self._step(batch, batch.select(self.train.labels[indices]), step)
                seen += n
            if step % _LOOK == 0:
                self._require_finite(loss_sum)
            progress.advance(1)
        self._require_finite(loss_sum)
        if not seen:
            named = ": ".join(next(iter(self.unreadable.items())))
            raise ValueError(f"too few of the training images can be read; the first: {named}.")
        return loss_sum.item() / seen

    def _step(self, batch: Batch, labels: torch.Tensor, step: int) -> torch.Tensor:
        """One step on the images of a batch and their labels (n,); its loss."""
        s = self.settings
        for group in self.optimizer.param_groups:
            group["lr"] = self.peak * self.plan.factor(step) * group["lr_scale"]
        chance = generator(self.seed, "finetune", "views", step)
        drawn = self.views.draw(len(labels), generator=chance, shapes=batch.shapes)
        images = self.views(batch.pixels.to(self.device), drawn.first().to(self.device))[0]
        with seeded(self.seed, "finetune", "step", step, device=self.device):
            images, targets = mixed(images, labels.to(self.device), self.classes, s)
            bf16 = self.precision == "bf16"
            with torch.autocast(self.device.type, torch.bfloat16, enabled=bf16):
                logits = self.model(images)
            loss = F.cross_entropy(logits.float(), targets)
            self.optimizer.zero_grad()
            loss.backward()
        if s.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), s.clip)
        self.optimizer.step()
        return loss.detach()

    def _require_finite(self, values: torch.Tensor) -> None:
        if not torch.isfinite(values).all():
            name = "scratch_lr" if self.settings.scratch else "lr"
            rate = getattr(self.settings, name)
            raise ValueError(
                f"training diverged after {len(self.losses)} of {self.plan.epochs} epochs: set "
                f"{name} lower than {rate:g}, more warmup_epochs, or clip=1."
            )

    def _state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "losses": self.losses,
            "unreadable": self.unreadable,
        }

    def _restore(self, state: dict[str, Any] | None) -> None:
        if state is not None:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.losses, self.unreadable = state["losses"], state["unreadable"]


class Checkpoint:
    """A file that training resumes from, if it is the same training: of one identity."""

    def __init__(self, path: Path, identity: dict[str, str]) -> None:
        self.path, self.identity = path, identity

    def save(self, state: dict[str, Any]) -> None:
        """Write the file, whole or not at all."""
        with whole_file(self.path) as file:
            torch.save(state | {"identity": self.identity}, file)

    def load(self) -> dict[str, Any] | None:
        """What was saved, None if nothing was; nothing in the file is executed."""
        if not self.path.exists():
            return None
        fix = "remove it to start again, or name another file"
        try:
            state: dict[str, Any] = torch.load(self.path, map_location="cpu", weights_only=True)
            found: dict[str, str] = state["identity"]
        except Exception as error:  # a damaged file fails in as many ways as it can be damaged
            raise ValueError(f"{self.path} is no checkpoint of a fine-tuning: {fix}.") from error
        if other := [name for name, value in self.identity.items() if found.get(name) != value]:
            raise ValueError(
                f"{self.path} was left by a fine-tuning with other {', '.join(other)}: {fix}."
            )
        return state

    def remove(self) -> None:
        """Training has ended."""
        self.path.unlink(missing_ok=True)


def mixed(
    images: torch.Tensor, labels: torch.Tensor, classes: int, settings: FinetuneSettings
) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (N, 3, S, S) erased in part and mixed in pairs, with soft targets (N, classes).

    Draws from Python's, NumPy's and torch's global chance.
    """
    from timm.data.mixup import Mixup
    from timm.data.random_erasing import RandomErasing

    labels, n = labels.long(), len(labels)
    if settings.erase:
        erase = RandomErasing(  # type: ignore[no-untyped-call]
            settings.erase, mode="pixel", device=images.device
        )
        images = erase(images)
    if not (settings.mixup or settings.cutmix):
        hard = F.one_hot(labels, classes).to(images.dtype)
        return images, hard * (1 - settings.smoothing) + settings.smoothing / classes
    mix = Mixup(  # type: ignore[no-untyped-call]
        settings.mixup, settings.cutmix, label_smoothing=settings.smoothing, num_classes=classes
    )
    if n % 2:  # timm mixes even batches: here the first image is its own partner
        images, labels = torch.cat([images, images[:1]]), torch.cat([labels, labels[:1]])
    images, targets = mix(images, labels)
    return images[:n], targets[:n]


def _optimizer(model: nn.Module, settings: FinetuneSettings) -> torch.optim.Optimizer:
    groups = parameter_groups(model, settings.weight_decay, settings.layer_decay)
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=settings.lr)
    return torch.optim.SGD(groups, lr=settings.lr, momentum=0.9, nesterov=True)
