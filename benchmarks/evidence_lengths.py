"""The gain of AMCL by the length of training: tables of the studies `length-METHOD`.

The baseline of a length is the method as published with the constant temperature whose runs of that
length have the highest kNN on validation images, by the seeds that all temperatures share.
"""

from dataclasses import dataclass
from statistics import fmean

from evidence_studies import METHODS, Study, groups_of, spread

from amcl.results import Difference, Group, Table

STEPS_PER_EPOCH = (50_000 - 5_000) // 128
"""Steps of an epoch of the complete training set less the validation images."""
VALIDATION = "knn_validation"
TEST = {"knn_top1_test": "kNN", "linear_top1_test": "linear probe"}


@dataclass(frozen=True)
class Length:
    """A method at one length: with the best constant temperature, and with AMCL.

    Args:
        method: Name of the method.
        epochs: Passes over the training images.
        base: Runs of the method as published.
        ours: Runs with AMCL.
    """

    method: str
    epochs: int
    base: Group
    ours: Group

    @property
    def steps(self) -> int:
        """Number of training steps."""
        return self.epochs * STEPS_PER_EPOCH

    @property
    def tau(self) -> str:
        """The constant temperature; a dash for methods that have none to choose."""
        return self.base.values.get("tau", "–")

    def gain(self, metric: str) -> Difference | None:
        """Return the gain of AMCL, paired by seed."""
        return self.ours.measurement(metric).minus(self.base.measurement(metric))


def lengths(by_name: dict[str, Study], method: str, prefix: str = "length") -> list[Length]:
    """Return the lengths of which a method has runs of both sides."""
    ours = by_name.get(f"{prefix}-{method}")
    if ours is None or not ours.records_file.exists():
        return []
    base = by_name.get(f"{prefix}-{method}-base", ours)
    if not base.records_file.exists():
        return []
    published: dict[int, list[Group]] = {}
    with_amcl: dict[int, Group] = {}
    for study in dict.fromkeys((base.name, ours.name)):
        for group in groups_of(by_name[study]):
            epochs = int(group.values["epochs"])
            recipe = group.values.get("recipe", "-amcl" if study != base.name else "")
            if recipe.endswith("-amcl"):
                with_amcl[epochs] = group
            else:
                published.setdefault(epochs, []).append(group)
    return [
        Length(method, epochs, best(published[epochs]), with_amcl[epochs])
        for epochs in sorted(published.keys() & with_amcl.keys())
    ]


def best(groups: list[Group]) -> Group:
    """Return the group with the highest mean on validation images, over seeds that all have."""
    by_seed = [group.measurement(VALIDATION).by_seed for group in groups]
    shared = set.intersection(*(set(values) for values in by_seed))
    means = [fmean(values[seed] for seed in shared) for values in by_seed]
    return groups[means.index(max(means))]


def gains(by_name: dict[str, Study]) -> str:
    """Return the gains on test images by method and length."""
    header = ["", "steps", "seeds", "constant τ"]
    for name in TEST.values():
        header += [name, "+ AMCL", "gain"]
    rows = []
    for method, title in METHODS.items():
        for length in lengths(by_name, method):
            cells = [title, f"{length.steps:,}", str(len(length.ours.records)), length.tau]
            for metric in TEST:
                sides = (length.base.measurement(metric), length.ours.measurement(metric))
                cells += [*map(spread, sides), spread(length.gain(metric), sign=True)]
            rows.append(cells)
    return Table(header, rows, left=1).to_markdown().rstrip()


def reasons(by_name: dict[str, Study]) -> str:
    """Return what changes with the length: heads, temperatures, similarities and features."""
    header = [
        *("", "steps", "agreement of heads", "spread of τ⁺", "spread of τ⁻"),
        *("s⁺", "s⁺ with AMCL", "effective rank", "with AMCL"),
    ]
    rows = []
    for method, title in METHODS.items():
        for length in lengths(by_name, method):
            base, ours = length.base, length.ours
            rows.append(
                [
                    title,
                    f"{length.steps:,}",
                    _mean(ours, "head_agreement", 2),
                    _mean(ours, "tau_std_positive", 4),
                    _mean(ours, "tau_std_negative", 4),
                    _mean(base, "s_positive", 2),
                    _mean(ours, "s_positive", 2),
                    _mean(base, "effective_rank", 1),
                    _mean(ours, "effective_rank", 1),
                ]
            )
    return Table(header, rows, left=1).to_markdown().rstrip()


def _mean(group: Group, metric: str, digits: int) -> str:
    """Return the mean over seeds; a dash for a statistic that the method does not have."""
    mean = group.measurement(metric).mean
    return "–" if mean is None else f"{mean:.{digits}f}"
