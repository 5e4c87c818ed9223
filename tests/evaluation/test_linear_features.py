"""Features of the linear probe: device, precision, views that change every epoch."""

import pytest
import torch

from amcl.evaluation.linear_layers import FixedFeatures, train_layers
from amcl.evaluation.protocols.linear import linear_probe
from amcl.seeds import generator
from toy_features import D, K, N, held_out, noisy, probe, settings


def test_training_stays_on_its_device():
    x, y = noisy()
    like = torch.empty(0, device="meta")
    for norm in ("none", "batch"):
        layers = train_layers(
            FixedFeatures(x.float(), y), [held_out(y)], K, settings(norm=norm), 0, like
        )
        assert layers.device.type == "meta"
        assert layers.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_low_precision_features_are_probed_in_float32(dtype):
    (x, y), (test, truth) = noisy(), noisy(60, seed=1)
    x, test = x.to(dtype), test.to(dtype)
    found = linear_probe(FixedFeatures(x, y), test, truth, K, settings(), device="cpu")
    same = linear_probe(FixedFeatures(x.float(), y), test.float(), truth, K, settings())
    assert found.weight.dtype == torch.float32
    assert torch.equal(found.weight, same.weight)
    assert found.metrics() == same.metrics()


def test_labels_may_be_small_integers():
    x, y = noisy()
    found = probe(settings(), train=FixedFeatures(x, y.to(torch.uint8)))
    assert torch.equal(found.weight, probe(settings()).weight)


class Moving:
    """Features that change every epoch, of images of which some cannot be read."""

    dim = D

    def __init__(self, unreadable=()):
        self.values, self.labels = noisy()
        self.unreadable = torch.tensor(unreadable, dtype=torch.long)
        self.asked = []

    def batches(self, epoch, steps):
        for index in steps:
            self.asked.append((epoch, index))
            index = index[~torch.isin(index, self.unreadable)].flip(0)
            yield self.values[index] + 0.01 * epoch, index


def test_features_may_change_every_epoch():
    moving = Moving()
    found = probe(settings(lrs=(1.0,)), train=moving, plain=moving.values)
    still = probe(settings(lrs=(1.0,)))
    assert not torch.equal(found.weight, still.weight)
    torch.testing.assert_close(found.weight, still.weight, rtol=0.2, atol=0.02)
    for epoch in range(4):
        order = torch.cat([index for at, index in moving.asked if at == epoch])
        expected = torch.randperm(N, generator=generator(0, "linear", "order", epoch))
        assert torch.equal(order, expected)
    assert {len(index) for _, index in moving.asked} == {18, 19}


def test_the_hold_out_is_measured_without_augmentation():
    moving = Moving()
    found = probe(settings(), train=moving, plain=moving.values)
    blind = probe(settings(), train=moving, plain=torch.zeros(N, D).double())
    assert blind.hold_out_top1 != found.hold_out_top1
    with pytest.raises(ValueError, match="`plain`"):
        probe(settings(), train=moving)


@pytest.mark.parametrize("norm", ["none", "batch"])
def test_images_that_cannot_be_read_are_passed_over(norm):
    x, y = noisy()
    made = settings(norm=norm, lrs=(1.0,), epochs=1)
    # All of the second step but one image, and all of the third.
    second, third = torch.randperm(N, generator=generator(0, "linear", "order", 0)).split(19)[1:3]
    moving = Moving(unreadable=[*second[:-1].tolist(), *third.tolist()])
    found = probe(made, train=moving, plain=x)
    assert found.weight.isfinite().all()
    gone = torch.cat([second[:-1], third])
    changed = FixedFeatures(x.index_fill(0, gone, 50.0), y)
    assert not torch.equal(probe(made, train=changed, plain=x).weight, found.weight)
    moving.values[gone] = 50.0
    assert torch.equal(probe(made, train=moving, plain=x).weight, found.weight)
