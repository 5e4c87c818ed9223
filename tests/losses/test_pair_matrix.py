"""s and τ of all pairs, as losses give them to be looked at, against loops over the reference."""

import pytest
import torch

import amcl
from amcl.temperature import AdaptiveTemperature, ConstantTemperature, SplitTemperature
from reference.cross_correlation import columns, correlation
from reference.temperature import sim
from reference.vicreg import less_the_mean
from schemes import ON_CHANNELS, SCHEMES, items, pair_up, projections

HEADS, IMAGES, DIM = 2, 4, 5


def close(found, expected):
    torch.testing.assert_close(
        found, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-10
    )


def sign(i, j):
    return "positive" if i == j else "negative"


def every(n, value):
    return [[[value(c, i, j) for j in range(n)] for i in range(n)] for c in range(HEADS)]


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("negatives", ["both_views", "other_view"])
def test_contrastive_pairs(name, negatives):
    scheme = SCHEMES[name]
    temperature = scheme.make(DIM).double()
    z0, z1 = projections(temperature, *[(HEADS, IMAGES, DIM)] * 2)
    found = amcl.ContrastiveLoss(HEADS, temperature, negatives=negatives).pair_matrix(z0, z1)
    first, second = (items(z, temperature.extra_outputs) for z in (z0, z1))
    pair_up(first, second)
    tau = scheme.on_samples(temperature)
    close(found.s, every(IMAGES, lambda c, i, j: sim(first[i].z[c], second[j].z[c])))
    close(found.tau, every(IMAGES, lambda c, i, j: tau(sign(i, j), c, first[i], second[j])))


@pytest.mark.parametrize("name", [name for name in SCHEMES if name != "TaU"])
@pytest.mark.parametrize("shared", [True, False])
def test_predictions_with_targets(name, shared):
    scheme = SCHEMES[name]
    temperature = scheme.make(DIM).double()
    z, h = torch.randn(2, HEADS, IMAGES, DIM, dtype=torch.float64)
    h = h[0] if shared else h
    found = amcl.NegativeCosineLoss(HEADS, temperature).pair_matrix(z, h)
    first, second = items(z, 0), items(h.expand(HEADS, IMAGES, DIM), 0)
    pair_up(first, second)
    tau = scheme.on_samples(temperature)
    close(found.s, every(IMAGES, lambda c, i, j: sim(first[i].z[c], second[j].z[c])))
    # There are no negatives in this loss, and so no other branch.
    close(found.tau, every(IMAGES, lambda c, i, j: tau("positive", c, first[i], second[j])))


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("labels", [None, (0, 1, 0, 2)])
def test_labels_say_which_pairs_are_positive(name, labels):
    scheme = SCHEMES[name]
    temperature = scheme.make(DIM).double()
    z0, z1 = projections(temperature, *[(HEADS, IMAGES, DIM)] * 2)
    loss = amcl.SupervisedContrastiveLoss(HEADS, temperature)
    found = loss.pair_matrix(z0, z1, None if labels is None else torch.tensor(labels))
    classes = labels or range(IMAGES)
    first, second = (items(z, temperature.extra_outputs) for z in (z0, z1))
    pair_up(first, second)
    tau = scheme.on_samples(temperature)

    def of_pair(c, i, j):
        return tau(sign(classes[i], classes[j]), c, first[i], second[j])

    close(found.s, every(IMAGES, lambda c, i, j: sim(first[i].z[c], second[j].z[c])))
    close(found.tau, every(IMAGES, of_pair))


@pytest.mark.parametrize("name", SCHEMES)
def test_pairs_of_vicreg_are_seen_from_their_mean(name):
    scheme = SCHEMES[name]
    temperature = scheme.make(DIM).double()
    z0, z1 = projections(temperature, *[(HEADS, IMAGES, DIM)] * 2)
    found = amcl.VICRegLoss(HEADS, temperature).pair_matrix(z0, z1)
    first, second = less_the_mean(*(items(z, temperature.extra_outputs) for z in (z0, z1)))
    pair_up(first, second)
    tau = scheme.on_samples(temperature)
    close(found.s, every(IMAGES, lambda c, i, j: sim(first[i].z[c], second[j].z[c])))
    close(found.tau, every(IMAGES, lambda c, i, j: tau("positive", c, first[i], second[j])))


@pytest.mark.parametrize("name", ON_CHANNELS)
def test_channels(name):
    scheme = SCHEMES[name]
    temperature = scheme.make(DIM).double()
    z0, z1 = projections(temperature, *[(HEADS, IMAGES, DIM)] * 2)
    loss = amcl.CrossCorrelationLoss(HEADS, temperature)
    found = loss.pair_matrix(z0, z1)
    first, second = (items(z, temperature.extra_outputs) for z in (z0, z1))
    tau = scheme.on_channels(temperature)

    def correlated(c, i, j):
        return correlation(columns(first, c)[i], columns(second, c)[j])

    close(found.s, every(DIM, correlated))
    close(found.tau, every(DIM, lambda c, i, j: tau(sign(i, j), c, first, second, i, j)))
    images = every(IMAGES, lambda c, i, j: sim(first[i].z[c], second[j].z[c]))
    close(loss.cosines(z0, z1), images)


def test_what_is_compared_is_said():
    assert amcl.ContrastiveLoss(2, ConstantTemperature()).items == "images"
    assert amcl.NegativeCosineLoss(2, ConstantTemperature()).items == "images"
    assert amcl.VICRegLoss(2, ConstantTemperature()).items == "images"
    assert amcl.SupervisedContrastiveLoss(2, ConstantTemperature()).items == "images"
    assert amcl.CrossCorrelationLoss(2, ConstantTemperature()).items == "channels"


def test_bounds_are_those_of_the_sign():
    z = torch.randn(1, 3, 4)
    adaptive = AdaptiveTemperature(4, lower=0.5, upper=1.5, phi_output="plain")
    split = SplitTemperature(positive=ConstantTemperature(), negative=adaptive)
    found = amcl.ContrastiveLoss(1, split).pair_matrix(z, z)
    assert found[2:] == (None, (0.5, 1.5))
    reverse = SplitTemperature(positive=adaptive, negative=ConstantTemperature())
    assert amcl.ContrastiveLoss(1, reverse).pair_matrix(z, z)[2:] == ((0.5, 1.5), None)
    # Every pair of SimSiam and of VICReg has the τ of the positive branch.
    for loss in (amcl.NegativeCosineLoss(1, reverse), amcl.VICRegLoss(1, reverse)):
        assert loss.pair_matrix(z, z)[2:] == ((0.5, 1.5), (0.5, 1.5))
    channels = amcl.CrossCorrelationLoss(1, adaptive).pair_matrix(z, z)
    assert channels.positive_bounds == channels.negative_bounds == adaptive.channel_bounds()


def test_pairs_are_computed_in_full_precision():
    loss = amcl.AMCLLoss(2, 4)
    z0, z1 = torch.randn(2, 2, 3, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        lowered = loss.pair_matrix(z0, z1)
    assert lowered.s.dtype == torch.float32
    for found, expected in zip(lowered[:2], loss.pair_matrix(z0, z1)[:2], strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize(
    "make",
    [
        *(amcl.ContrastiveLoss, amcl.NegativeCosineLoss, amcl.CrossCorrelationLoss),
        *(amcl.SupervisedContrastiveLoss, amcl.VICRegLoss),
    ],
)
def test_views_of_other_images_are_refused(make):
    loss = make(1, ConstantTemperature())
    with pytest.raises(ValueError, match="the two views must show the same N images"):
        loss.pair_matrix(torch.randn(1, 3, 4), torch.randn(1, 5, 4))
