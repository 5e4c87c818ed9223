"""The taking of features."""

import pytest
import torch
from torch import nn

from amcl.metrics import extract


def model():
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(12), nn.Dropout(0.5), nn.Linear(12, 5))


@pytest.mark.parametrize("training", [True, False])
def test_features_are_taken_in_evaluation_mode_and_in_order(training):
    net = model().train(training)
    images = torch.randint(256, (10, 3, 2, 2), dtype=torch.uint8)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    found = extract(net, images.split(4), lambda batch: batch.float() / 255)
    assert net.training == training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert not found.requires_grad
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, net.eval()(images.float() / 255).detach())


def test_features_of_a_lower_precision_come_in_float32():
    images = torch.rand(4, 3, 2, 2)
    net = nn.Flatten()
    found = extract(net, [images], lambda batch: batch.bfloat16())
    assert found.dtype == torch.float32
    assert torch.equal(found, images.flatten(1).bfloat16().float())


def test_the_mode_is_put_back_after_an_error():
    net = model().train()
    with pytest.raises(RuntimeError):
        extract(net, [torch.rand(4, 3, 3, 3)], lambda batch: batch)
    assert net.training


def test_no_images_is_an_error():
    with pytest.raises(ValueError, match="no images to compute features of"):
        extract(model(), [], lambda batch: batch)
