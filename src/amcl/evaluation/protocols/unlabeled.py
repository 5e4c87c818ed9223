"""The protocol "unlabeled": measures of features that need no labels."""

from dataclasses import asdict, dataclass

from amcl.data.split import sample
from amcl.evaluation.evaluation import Evaluation
from amcl.evaluation.registry import Outcome, register_protocol
from amcl.metrics.features import pair_features
from amcl.metrics.unlabeled import unlabeled
from amcl.settings import whole_number
from amcl.views import ViewSettings, suited


@dataclass(frozen=True, kw_only=True)
class UnlabeledSettings:
    """Images and views that are measured."""

    images: int = 2000
    """Number of images, or all where there are fewer."""
    views: str = "abcde"
    """Operations of the two views: a crop, b blur, c gray, d jitter, e flip, h channel drop, n
    noise, s solarize. The default is changed for images that are not RGB."""

    def __post_init__(self) -> None:
        if whole_number("images", self.images, "choose 2 or more") < 2:
            raise ValueError(f"images must be at least 2, to have pairs, got {self.images}.")
        ViewSettings(operations=self.views)


@register_protocol(
    "unlabeled",
    UnlabeledSettings,
    needs_labels=False,
    shown=("views",),
    is_default=lambda data: True,
)
def run_unlabeled(evaluation: Evaluation, settings: UnlabeledSettings) -> Outcome:
    """Measure features of images and of two views of each: of the test images, if there are any."""
    images = evaluation.data.train
    split = "train"
    if evaluation.data.probe is not None:
        images = evaluation.data.probe.queries.images
        split = evaluation.data.probe.split
    chosen = images.subset(sample(len(images), settings.images, evaluation.seed))
    fixed = () if settings.views == UnlabeledSettings.views else ("views",)
    views, notes = suited(
        ViewSettings(operations=settings.views), evaluation.transform.channels, fixed
    )
    features, unreadable = pair_features(
        evaluation.model,
        chosen,
        evaluation.transform,
        evaluation.transform.views(views),
        device=evaluation.device,
        workers=evaluation.workers,
        seed=evaluation.seed,
    )
    evaluation.note_unreadable(unreadable)
    return Outcome(
        metrics=unlabeled(*features),
        settings=asdict(settings) | {"views": views.operations},
        details={"notes": notes},
        split=split,
        images={"images": features.shape[1], "sha256": chosen.identity()},
    )
