"""Groups of seeds: means, intervals, paired differences and verdicts."""

import numpy as np
import pytest
from scipy import stats

from amcl.results import Measurement, Record, group_by_seed
from amcl.results.groups import LEVEL, ONE_SEED, indistinguishable
from amcl.results.intervals import accuracy_interval

of = Measurement.of


def record(tau: str, seed: int, status="complete", **metrics: float) -> Record:
    values = {"tau": tau, "seed": str(seed)}
    return Record(name=f"{tau}-{seed}", status=status, seed=seed, values=values, metrics=metrics)


def test_groups_keep_the_order_of_the_records():
    records = [record("2", 0), record("1", 0), record("2", 1)]
    groups = group_by_seed(records)
    assert [[r.name for r in group.records] for group in groups] == [["2-0", "2-1"], ["1-0"]]
    assert groups[0].values == {"tau": "2"}
    assert groups[0].seeds == (0, 1)
    (one,) = group_by_seed(records, key=lambda r: {})
    assert len(one.records) == 3


def test_runs_that_were_cut_off_have_no_number():
    runs = [record("1", 0, top1=0.5), record("1", 1, "collapsed", top1=0.1)]
    runs += [record("1", 2, "failed", top1=0.9), record("1", 3)]
    (group,) = group_by_seed(runs)
    assert group.measurement("top1").numbers == [0.5, 0.1]
    assert group.count == "4, 1 collapsed, 1 failed"


def test_the_interval_is_that_of_seeds_or_of_images():
    values = {0: 0.50, 1: 0.52, 2: 0.57}
    oracle = stats.ttest_1samp(list(values.values()), 0).confidence_interval(0.95)
    assert of(values, images=100).interval == pytest.approx((oracle.low, oracle.high))
    assert of({0: 0.5}, images=100).interval == accuracy_interval(0.5, 100)
    assert of({0: 0.5}).interval is None
    assert of({}).mean is None


def test_differences_are_paired_by_seeds_that_one_run_has():
    twice = Measurement((0.5, 0.6, 0.9, None), (0, 1, 1, 2))
    assert twice.mean == pytest.approx(np.mean([0.5, 0.6, 0.9]))
    assert twice.minus(of({0: 0.4, 1: 0.4, 2: 0.4})).by_seed == pytest.approx({0: 0.1})
    assert twice.minus(of({1: 0.4})) is None


@pytest.mark.parametrize(
    ("ours", "theirs", "images", "verdict"),
    [
        ({0: 0.60, 1: 0.63, 2: 0.61}, {0: 0.50, 1: 0.52, 2: 0.51}, None, ""),
        ({0: 0.60, 1: 0.41}, {0: 0.50, 1: 0.52}, None, LEVEL),
        ({0: 0.6}, {0: 0.5}, 20, LEVEL),
        ({0: 0.9}, {0: 0.1}, 1000, ONE_SEED),
        ({0: 0.9}, {0: 0.1}, None, ONE_SEED),
    ],
)
def test_one_seed_is_never_evidence(ours, theirs, images, verdict):
    difference = of(ours, images).minus(of(theirs, images))
    assert difference.verdict == verdict
    assert difference.distinguishable == (not verdict)
    assert indistinguishable([of(ours, images), of(theirs, images)]) == bool(verdict)
