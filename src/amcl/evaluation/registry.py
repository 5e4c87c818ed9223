"""The protocols by name: built-in ones, those of installed packages and of a user's script."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from amcl.checkpoints.evaluations import Result
from amcl.config import Config
from amcl.data import DataSet
from amcl.registry import Registry

if TYPE_CHECKING:
    from amcl.evaluation.evaluation import Evaluation


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """Numbers that a protocol measured, and what there is to know about them.

    Args:
        metrics: Numbers by name. Accuracies are shares from 0 to 1; those named "top1", "top5" or
            "n=…" are shown in percent.
        settings: Settings as they were used, where that differs from the settings of the protocol.
        details: Anything else for the JSON file; sentences under "notes" are shown to users.
        truth: True classes of the test images, (M,). With them, accuracies get intervals.
        predicted: Predicted classes of the test images, (M,). With them, the result has accuracies
            by class and confused classes.
        split: Name of the images measured; None for the split of the labeled test images.
        images: Numbers of images by name, and their "sha256"; None for the labeled images.
        data: Name of the images, for protocols that have their own.
        stored: A result that was there before, which stays as it is.
    """

    metrics: dict[str, float]
    settings: dict[str, Any] | None = None
    details: dict[str, Any] = field(default_factory=dict)
    truth: torch.Tensor | None = None
    predicted: torch.Tensor | None = None
    split: str | None = None
    images: dict[str, Any] | None = None
    data: str | None = None
    stored: Result | None = None


Run = Callable[["Evaluation", Any], Outcome]
"""Runs a protocol: takes the evaluation and the settings of the protocol."""
R = TypeVar("R", bound=Run)


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """A registered protocol; `register_protocol` describes the fields in full."""

    name: str
    """Name of the protocol, as users type it."""
    settings: type
    """Dataclass of its settings."""
    run: Run
    """Function that runs it."""
    needs_labels: bool = True
    """Whether it needs labeled images."""
    shown: tuple[str, ...] = ()
    """Names of the settings that are shown beside the numbers."""
    is_default: Callable[[DataSet], bool] | None = None
    """Function that tells for which data sets it runs by default; None for none."""
    settings_of_run: Callable[[Config], Any] | None = None
    """Function that takes its settings from those of a run; None for the defaults."""
    own_images: bool = False
    """Whether it has images of its own, whatever the data set is."""

    def check(self, settings: Any = None) -> None:
        """Raise an error, before anything is trained, if it could not run with its settings.

        Args:
            settings: Settings of the protocol; None for the defaults.
        """
        settings = self.settings() if settings is None else settings
        if hasattr(settings, "check"):
            settings.check()


PROTOCOLS = Registry[Protocol]("protocol", "amcl.evaluation.protocols", "amcl.protocols")
"""All protocols, with those of installed packages."""


def register_protocol(
    name: str,
    settings: type,
    *,
    needs_labels: bool = True,
    shown: tuple[str, ...] = (),
    is_default: Callable[[DataSet], bool] | None = None,
    settings_of_run: Callable[[Config], Any] | None = None,
    own_images: bool = False,
) -> Callable[[R], R]:
    """Register an evaluation protocol.

    The protocol is then available wherever protocols are named: in `Evaluation.run`, in `amcl
    evaluate --protocols NAME` with its options `--NAME.OPTION`, in sweeps, tables and reports.

    Args:
        name: Name of the protocol, as users type it.
        settings: Dataclass of its settings, all of which have defaults. Its fields become options.
        needs_labels: Whether it needs labeled images.
        shown: Names of the settings that are shown beside the numbers.
        is_default: Tells for a data set whether `amcl evaluate` runs the protocol when the user
            names none; None for never.
        settings_of_run: Takes the settings of the protocol from those of the training run; None
            for the defaults.
        own_images: Whether it has images of its own, which its settings name, and their test split
            is called "test". Its settings have a function `check`, which raises an error, before
            anything is trained, where they name none.

    Returns:
        A decorator for the function that runs the protocol. The function takes the `Evaluation`,
        which has features, labels, model and data, and the settings, and returns an `Outcome`.

    Example:
        >>> from dataclasses import dataclass
        >>> from torch import nn
        >>> from amcl.data import load_dataset
        >>> from amcl.evaluation import Evaluation
        >>> from amcl.metrics import Transform
        >>> @dataclass(frozen=True, kw_only=True)
        ... class NormSettings:
        ...     order: float = 2.0
        >>> @register_protocol("norm", NormSettings, shown=("order",))
        ... def norm(evaluation, settings):
        ...     norms = evaluation.test_features.values.norm(settings.order, dim=1)
        ...     return Outcome(metrics={"mean_norm": norms.mean().item()})
        >>> evaluation = Evaluation(nn.Flatten(), load_dataset("builtin"), Transform(image_size=8))
        >>> evaluation.run("norm").metrics["mean_norm"] > 0
        True
        >>> PROTOCOLS.unregister("norm")
    """

    def register(run: R) -> R:
        protocol = Protocol(
            name=name,
            settings=settings,
            run=run,
            needs_labels=needs_labels,
            shown=shown,
            is_default=is_default,
            settings_of_run=settings_of_run,
            own_images=own_images,
        )
        PROTOCOLS.register(name, protocol, source=run)
        return run

    return register
