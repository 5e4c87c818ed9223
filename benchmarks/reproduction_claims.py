"""The paper's claims: the numbers behind each of them, here and in the paper, and a verdict.

A claim is a difference of two means over seeds. It is taken seed by seed from the tables of
`amcl.experiments`, so that both sides of a difference have the same seeds and images.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from amcl.experiments.filled_table import FilledTable
from amcl.experiments.paper.numbers import TABLE_8
from amcl.experiments.specs import AMCL, BASELINE, NONE, SIDE, CellSpec
from amcl.results import Difference, Measurement
from amcl.results.intervals import Interval, mean_interval

Verdict = Literal["holds", "does not hold", "cannot be told", "not carried out yet"]
VERDICTS: tuple[Verdict, ...] = Verdict.__args__  # type: ignore[attr-defined]

RESNETS = ("SimCLR", "MoCo", "SimSiam", "Barlow Twins")
LABELS = ("10", "20", "50", "100", "200", "500")
MARGIN = 2.3
"""Points within which accuracies count as level: the gain of SimCLR on CIFAR-10 in the paper."""

RULE = f"""A claim says that one number is above another. Both are measured with the same seeds, and
the difference is taken seed by seed; its 95% interval is that of Student's t for the mean over
seeds.

- **holds**: the whole interval is above zero.
- **does not hold**: the whole interval is below zero, or it includes zero and its upper end is
  below the gain that the paper has: there is no gain of that size here.
- **cannot be told**: neither. With one seed there is no interval, and nothing can be told.
- **not carried out yet**: there are no records of the runs.

Where the paper says that two things are level, the claim holds if the whole interval lies within
± {MARGIN} points (the gain of SimCLR on CIFAR-10 in the paper), and does not hold if all of it lies
outside. Costs are counted and have no spread: a claim holds if AMCL adds no more than it adds at
most by the paper's table. Where the paper shows a picture without numbers, only the sign counts.
If nothing had an effect, about one of forty claims would hold by chance."""


class Tables:
    """The tables of all entries, as far as there are numbers.

    Args:
        filled: The tables of each entry.
    """

    def __init__(self, filled: Mapping[str, Sequence[FilledTable]]) -> None:
        self._tables = {(e, t.spec.name): t for e, tables in filled.items() for t in tables}

    def cells(self, entry: str, table: str, **labels: str) -> list[tuple[CellSpec, Measurement]]:
        """Return the cells with these labels; spaces in names of labels are underscores."""
        filled = self._tables[entry, table]
        wanted = {name.replace("_", " "): value for name, value in labels.items()}
        return [
            (cell, measurement)
            for cell, measurement in zip(filled.spec.cells, filled.measurements, strict=True)
            if wanted.items() <= cell.labels.items()
        ]

    def at(self, entry: str, table: str, **labels: str) -> Measurement:
        """Return the numbers of the one cell with these labels."""
        [(_, measurement)] = self.cells(entry, table, **labels)
        return measurement

    def gain(self, entry: str, table: str, **labels: str) -> Measurement:
        """Return the gain of AMCL over the baseline by seed, for the cells with these labels."""
        ours = self.at(entry, table, **{**labels, SIDE: AMCL})
        return minus(ours, self.at(entry, table, **{**labels, SIDE: BASELINE}))

    def paper_gain(self, entry: str, table: str, **labels: str) -> float:
        """Return the mean gain of AMCL in the paper over the cells with these labels, in points."""
        papers = {
            side: [
                cell.paper
                for cell, _ in self.cells(entry, table, **{**labels, SIDE: side})
                if cell.paper is not None
            ]
            for side in (AMCL, BASELINE)
        }
        return fmean(papers[AMCL]) - fmean(papers[BASELINE])


def minus(first: Measurement, second: Measurement) -> Measurement:
    """Return the difference by seed; without numbers where no seed has both.

    >>> minus(Measurement.of({0: 3.0, 1: 2.0}), Measurement.of({1: 0.5})).by_seed
    {1: 1.5}
    """
    return first.minus(second) or Measurement.of({})


def mean(measurements: Iterable[Measurement]) -> Measurement:
    """Return the mean by seed, over the seeds that all have.

    >>> mean([Measurement.of({0: 1.0, 1: 2.0}), Measurement.of({1: 4.0})]).by_seed
    {1: 3.0}
    """
    by_seed = [measurement.by_seed for measurement in measurements]
    seeds = sorted(set.intersection(*(set(values) for values in by_seed)))
    return Measurement.of({seed: fmean(values[seed] for values in by_seed) for seed in seeds})


def best(measurements: Iterable[Measurement]) -> Measurement:
    """Return the measurement with the highest mean; one without numbers if any has none."""
    measurements = list(measurements)
    if not all(measurement.numbers for measurement in measurements):
        return Measurement.of({})
    return max(measurements, key=lambda measurement: measurement.mean or 0.0)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of the paper.

    Args:
        entry: The table or figure that has it.
        text: The claim.
        paper: Its gain in the paper, in the unit shown; None where the paper has no number.
        evidence: Function of the tables that returns the difference by seed.
        scale: Factor from the difference to the unit shown: points, or 1 for other numbers.
        level: Whether the claim is that there is no difference.
        note: What the reader must know about the numbers of the paper.
        paper_words: What the paper has in place of one number.
    """

    entry: str
    text: str
    paper: float | None = None
    evidence: Callable[[Tables], Measurement]
    scale: float = 100.0
    level: bool = False
    note: str = ""
    paper_words: str = "a picture"


@dataclass(frozen=True)
class Finding:
    """A claim with what was measured.

    Args:
        claim: The claim.
        by_seed: The difference by seed, in the unit shown.
    """

    claim: Claim
    by_seed: Mapping[int, float]

    @property
    def difference(self) -> Difference:
        """The difference, in the unit shown."""
        return Difference(tuple(self.by_seed.values()), tuple(self.by_seed))

    @property
    def interval(self) -> Interval | None:
        """The 95% interval of the mean over seeds."""
        return mean_interval(list(self.by_seed.values()))

    @property
    def verdict(self) -> Verdict:
        """The verdict, by the rule of this file."""
        if not self.by_seed:
            return "not carried out yet"
        return verdict(self.interval, self.claim.paper, self.claim.level)


@dataclass(frozen=True)
class CostFinding(Finding):
    """A claim on cost, which is counted and has neither seeds nor an interval.

    Args:
        increases: What AMCL adds, in percent, by method.
        limit: What it adds at most in the paper.
    """

    increases: Mapping[str, float]
    limit: float

    @property
    def verdict(self) -> Verdict:
        """The verdict: whether every increase is at most the largest of the paper's table."""
        if not self.increases:
            return "not carried out yet"
        return "holds" if max(self.increases.values()) <= self.limit else "does not hold"


def cost_findings(numbers: Sequence[Sequence[str]]) -> list[CostFinding]:
    """Return the claims of table 8 with what was counted.

    Args:
        numbers: Rows of method, figure, baseline, with AMCL, ratio; none if nothing was counted.
    """
    found = []
    for what, figure, column in (
        ("computation to a training step", "GFLOPs an image, forward and backward", 2),
        ("parameters in training", "parameters in training", 0),
    ):
        papers = [100 * row[column + 1] / row[column] for row in TABLE_8.values()]
        claim = Claim(
            entry="table-8",
            text=f"AMCL adds little {what}, in each of four methods"
            if column
            else f"AMCL adds few {what}, in each of four methods",
            evidence=lambda tables: Measurement.of({}),
            paper_words=f"about +5%; {min(papers):+.1f} to {max(papers):+.1f}% by its table",
        )
        increases = {
            method: 100 * (float(amcl) / float(base) - 1)
            for method, label, base, amcl, _ in numbers
            if label.startswith(figure)
        }
        found.append(CostFinding(claim, {}, increases, max(papers)))
    return found


def verdict(interval: Interval | None, paper: float | None, level: bool = False) -> Verdict:
    """Return the verdict on a claim, by `RULE`.

    Args:
        interval: 95% interval of the difference; None for one seed.
        paper: Difference in the paper; None where it has no number.
        level: Whether the claim is that there is no difference.

    >>> verdict((0.2, 3.0), 2.0), verdict((-1.0, 3.0), 2.0), verdict((-1.0, 1.5), 2.0)
    ('holds', 'cannot be told', 'does not hold')
    """
    if interval is None:
        return "cannot be told"
    low, high = interval
    if level:
        if low > -MARGIN and high < MARGIN:
            return "holds"
        return "does not hold" if low > MARGIN or high < -MARGIN else "cannot be told"
    if low > 0:
        return "holds"
    if high < 0 or (paper is not None and high < paper):
        return "does not hold"
    return "cannot be told"


def find(claim: Claim, tables: Tables) -> Finding:
    """Return a claim with what was measured."""
    by_seed = claim.evidence(tables).by_seed
    return Finding(claim, {seed: claim.scale * value for seed, value in by_seed.items()})


def claims(paper: Tables) -> list[Claim]:
    """Return all claims of the paper.

    Args:
        paper: The tables, whose cells have the paper's numbers.
    """
    return [
        *_methods(paper),
        *_schemes(paper),
        *_augmentations(paper),
        *_detection(paper),
        *_pairs(),
        *_networks(),
        *_heads_and_negatives(),
        *_temperatures(),
        *_views(),
        *_wider_heads(),
    ]


def _methods(paper: Tables) -> list[Claim]:
    """Tables 3 and 4."""
    found = [
        Claim(
            entry="table-3",
            text=f"AMCL improves {method}, by a linear probe",
            paper=paper.paper_gain("table-3", "linear", method=method),
            evidence=lambda t, m=method: t.gain("table-3", "linear", method=m),
        )
        for method in RESNETS
    ]
    elsewhere = {"CAN": 1.7, "LGP": 1.1}
    found += [
        Claim(
            entry="table-3",
            text=f"AMCL improves {method}, by a linear probe",
            paper=gain,
            evidence=lambda t, m=method: t.gain("table-3", "linear", method=m),
            note="paper: Tiny-ImageNet",
        )
        for method, gain in elsewhere.items()
    ]
    for table, name in (("linear", "a linear probe"), ("knn", "kNN")):
        gains = [paper.paper_gain("table-3", table, method=method) for method in RESNETS]
        found.append(
            Claim(
                entry="table-3",
                text=f"AMCL improves SimCLR, MoCo, SimSiam and Barlow Twins on average, by {name}",
                paper=fmean(gains),
                evidence=lambda t, name=table: mean(
                    t.gain("table-3", name, method=method) for method in RESNETS
                ),
            )
        )
    return found + [
        Claim(
            entry="table-4",
            text=f"AMCL improves {method} on a vision transformer, after fine-tuning",
            paper=paper.paper_gain("table-4", "finetuned", backbone="ViT-B", method=method),
            evidence=lambda t, m=method: t.gain("table-4", "finetuned", backbone="ViT-B", method=m),
            note="paper: ImageNet, ViT-B",
        )
        for method in ("MoCo v3", "LGP")
    ]


def _schemes(paper: Tables) -> list[Claim]:
    """Table 5."""
    table = ("table-5", "temperatures")

    def gain(labels: str) -> Callable[[Tables], Measurement]:
        return lambda t: t.gain(*table, labels_a_class=labels)

    def above(side: str) -> Callable[[Tables], Measurement]:
        return lambda t: mean(
            minus(
                t.at(*table, labels_a_class=n, side=AMCL), t.at(*table, labels_a_class=n, side=side)
            )
            for n in LABELS
        )

    def paper_mean(side: str) -> float:
        numbers = [cell.paper for cell, _ in paper.cells(*table, side=side)]
        return fmean(number for number in numbers if number is not None)

    few, many = (paper.paper_gain(*table, labels_a_class=n) for n in ("10", "500"))
    found = [
        Claim(
            entry="table-5",
            text=f"AMCL improves SimCLR with {n} labels a class",
            paper=number,
            evidence=gain(n),
        )
        for n, number in (("10", few), ("500", many))
    ]
    found.append(
        Claim(
            entry="table-5",
            text="AMCL gains more with 10 labels a class than with 500",
            paper=few - many,
            evidence=lambda t: minus(gain("10")(t), gain("500")(t)),
        )
    )
    return found + [
        Claim(
            entry="table-5",
            text=f"Adaptive temperatures are above {side}, mean over 10 to 500 labels a class",
            paper=paper_mean(AMCL) - paper_mean(side),
            evidence=above(side),
        )
        for side in ("TaU", "TS")
    ]


def _augmentations(paper: Tables) -> list[Claim]:
    """Table 6."""

    def gain(kinds: str) -> Callable[[Tables], Measurement]:
        return lambda t: mean(
            t.gain("table-6", "augmentations", augmentations=kinds, method=method)
            for method in RESNETS
        )

    one, five = (
        paper.paper_gain("table-6", "augmentations", augmentations=kinds)
        for kinds in ("a", "abcde")
    )
    return [
        Claim(
            entry="table-6",
            text="With all five kinds of augmentation AMCL improves four methods on average",
            paper=five,
            evidence=gain("abcde"),
            note="paper: CIFAR-100",
        ),
        Claim(
            entry="table-6",
            text="The gain with five kinds of augmentation is larger than with one",
            paper=five - one,
            evidence=lambda t: minus(gain("abcde")(t), gain("a")(t)),
            note="paper: CIFAR-100",
        ),
    ]


def _detection(paper: Tables) -> list[Claim]:
    """Table 7."""
    return [
        Claim(
            entry="table-7",
            text=f"Detectors that start from {method} + AMCL have a higher {measure}",
            paper=paper.paper_gain(
                "table-7", "detection", measure=measure, backbone="ViT-B", method=method
            ),
            evidence=lambda t, measure=measure, method=method: t.gain(
                "table-7", "detection", measure=measure, backbone="ViT-B", method=method
            ),
            note="paper: COCO; here: drawn shapes",
        )
        for measure in ("box AP", "mask AP")
        for method in ("MoCo v3", "LGP")
    ]


def _pairs() -> list[Claim]:
    """Figures 1 and 3."""

    def less_overlap(entry: str, **labels: str) -> Callable[[Tables], Measurement]:
        """Return the overlap of the baseline less that of AMCL."""

        overlap = {**labels, "measure": "overlap of histograms"}

        def evidence(tables: Tables) -> Measurement:
            base = tables.at(entry, "separation", **{**overlap, SIDE: BASELINE})
            return minus(base, tables.at(entry, "separation", **{**overlap, SIDE: AMCL}))

        return evidence

    def growth(tables: Tables) -> Measurement:
        labels = {"measure": "overlap of histograms", SIDE: BASELINE}
        five = tables.at("figure-1", "separation", augmentations="abcde", **labels)
        return minus(five, tables.at("figure-1", "separation", augmentations="a", **labels))

    found = [
        Claim(
            entry="figure-1",
            text="With one head, positive and negative pairs overlap more with five kinds of "
            "augmentation than with one",
            evidence=growth,
            scale=1.0,
        ),
        Claim(
            entry="figure-1",
            text="With five kinds, pairs overlap less after the heads of AMCL",
            evidence=less_overlap("figure-1", augmentations="abcde"),
            scale=1.0,
        ),
    ]
    return found + [
        Claim(
            entry="figure-3",
            text=f"With AMCL, positive and negative pairs overlap less after the {place}",
            evidence=less_overlap("figure-3", place=f"after the {place}"),
            scale=1.0,
        )
        for place in ("heads", "backbone")
    ]


def _networks() -> list[Claim]:
    """Figure 4."""

    def gains(table: str) -> Callable[[Tables], Measurement]:
        def evidence(tables: Tables) -> Measurement:
            baselines = tables.cells("figure-4", table, side=BASELINE)
            return mean(
                minus(tables.at("figure-4", table, **{**_words(cell), SIDE: AMCL}), measurement)
                for cell, measurement in baselines
            )

        return evidence

    return [
        Claim(
            entry="figure-4",
            text=f"AMCL improves {title}, mean over backbones and numbers of epochs",
            evidence=gains(f"backbones-{method}"),
        )
        for method, title in (("simclr", "SimCLR"), ("can", "CAN"))
    ]


def _words(cell: CellSpec) -> dict[str, str]:
    return dict(cell.labels)


def _heads_and_negatives() -> list[Claim]:
    """Figure 5."""

    def heads(*numbers: str) -> Callable[[Tables], Measurement]:
        return lambda t: mean(t.at("figure-5", "heads", heads=n) for n in numbers)

    def hardest(tables: Tables) -> Measurement:
        """10 and 15% of the negatives, as 100 and 150 are of the paper's 1,022."""
        cells = tables.cells("figure-5", "negatives", side="mean of the top κ")[1:3]
        every = tables.at("figure-5", "negatives", side="softmax of all")
        return minus(mean(measurement for _, measurement in cells), every)

    return [
        Claim(
            entry="figure-5",
            text="Three heads are above the baseline",
            evidence=lambda t: minus(heads("3")(t), t.at("figure-5", "heads", side=BASELINE)),
        ),
        Claim(
            entry="figure-5",
            text="Three to five heads are above one, two and six, on average",
            evidence=lambda t: minus(heads("3", "4", "5")(t), heads("1", "2", "6")(t)),
        ),
        Claim(
            entry="figure-5",
            text="More than four heads lose a point: three and four are above five and six",
            paper=1.0,
            evidence=lambda t: minus(heads("3", "4")(t), heads("5", "6")(t)),
        ),
        Claim(
            entry="figure-5",
            text="The mean of the top κ negatives is slightly above a softmax of all, for κ of 10 "
            "and 15% of them",
            evidence=hardest,
            note="paper: κ = 100 and 150 of 1,022",
        ),
    ]


def _temperatures() -> list[Claim]:
    """Figures 6 and 7."""

    def constant(side: str) -> Callable[[Tables], Measurement]:
        return lambda t: best(m for _, m in t.cells("figure-6", "tau", side=side))

    def adaptive(heads: int) -> Callable[[Tables], Measurement]:
        return lambda t: t.at("figure-6", "tau", side=f"C = {heads}, adaptive")

    found = [
        Claim(
            entry="figure-6",
            text="Three heads with adaptive temperatures are above one head with the best constant "
            "temperature",
            evidence=lambda t: minus(adaptive(3)(t), constant("C = 1, constant")(t)),
        ),
        Claim(
            entry="figure-6",
            text="Three heads with adaptive temperatures are above three with the best constant "
            "one",
            evidence=lambda t: minus(adaptive(3)(t), constant("C = 3, constant")(t)),
        ),
        Claim(
            entry="figure-6",
            text="With one head, adaptive temperatures are level with the best constant one",
            evidence=lambda t: minus(adaptive(1)(t), constant("C = 1, constant")(t)),
            level=True,
            paper_words="level, a picture",
        ),
    ]

    def over_labels(table: str, first: str, second: str) -> Callable[[Tables], Measurement]:
        return lambda t: mean(
            minus(
                t.at("figure-7", table, labels_a_class=n, side=first),
                t.at("figure-7", table, labels_a_class=n, side=second),
            )
            for n in LABELS
        )

    found.append(
        Claim(
            entry="figure-7",
            text="With few labels, three heads are above one, both with adaptive temperatures",
            evidence=over_labels("heads", "C = 3, adaptive", "C = 1, adaptive"),
        )
    )
    others = {
        "constant": "a constant one",
        "constant τ⁺": "those with a constant τ⁺",
        "constant τ⁻": "those with a constant τ⁻",
        "from head 1": "those of the first head for all",
    }
    return found + [
        Claim(
            entry="figure-7",
            text=f"With few labels, fully adaptive temperatures are above {words}",
            evidence=over_labels("temperatures", "fully adaptive", side),
        )
        for side, words in others.items()
    ]


def _views() -> list[Claim]:
    """Figures 8 and 9."""

    def gain(table: str, **labels: str) -> Callable[[Tables], Measurement]:
        return lambda t: t.gain("figure-8", table, **labels)

    def tau(tables: Tables) -> Measurement:
        few, much = (
            tables.at("figure-8", "overlap-temperatures", overlap=overlap, measure="mean τ⁺")
            for overlap in ("0.3", "0.9")
        )
        return minus(few, much)

    def worst(tables: Tables) -> Measurement:
        """The lowest of all settings, less AMCL as it is: the third of five factors."""
        differences = []
        for symbol in ("η", "ι", "β"):
            cells = [m for _, m in tables.cells("figure-9", "sensitivity", setting=symbol)]
            differences += [minus(m, cells[2]) for i, m in enumerate(cells) if i != 2]
        if not all(difference.numbers for difference in differences):
            return Measurement.of({})
        return min(differences, key=lambda difference: difference.mean or 0.0)

    return [
        Claim(
            entry="figure-8",
            text="AMCL improves SimCLR where crops overlap by 30%",
            evidence=gain("overlap", overlap="0.3"),
        ),
        Claim(
            entry="figure-8",
            text="AMCL gains more where crops overlap by 30% than by 90%",
            evidence=lambda t: minus(
                gain("overlap", overlap="0.3")(t), gain("overlap", overlap="0.9")(t)
            ),
        ),
        Claim(
            entry="figure-8",
            text="Temperatures of positive pairs are higher where crops overlap by 30% than by 90%",
            evidence=tau,
            scale=1.0,
        ),
        Claim(
            entry="figure-8",
            text="AMCL gains more with full color distortion than with a quarter of it",
            evidence=lambda t: minus(
                gain("color", strength="1")(t), gain("color", strength="0.25")(t)
            ),
        ),
        Claim(
            entry="figure-9",
            text="Accuracy depends little on η, ι and β: the worst of 0.2 to 5 times each is level "
            "with the default",
            evidence=worst,
            level=True,
        ),
    ]


def _wider_heads() -> list[Claim]:
    """What the paper says in words on wider heads."""

    def above(table: str) -> Callable[[Tables], Measurement]:
        def evidence(tables: Tables) -> Measurement:
            differences = []
            for scheme in ("constant", "adaptive"):
                several = tables.at("wider-head", table, temperature=scheme, width=NONE)
                wide = tables.cells("wider-head", table, temperature=scheme, side="1 head")
                differences.append(minus(several, best(m for _, m in wide)))
            return mean(differences)

        return evidence

    return [
        Claim(
            entry="wider-head",
            text=f"Several heads are above the best wider head, in {title}",
            paper=paper,
            evidence=above(f"wider-{method}"),
        )
        for method, title, paper in (("simclr", "SimCLR", 1.6), ("barlow", "Barlow Twins", 2.5))
    ]
