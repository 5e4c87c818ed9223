"""The encoder that follows, the momentum's schedule, anchors and the queue, by hand."""

import math

import pytest
import torch
from torch import nn

from amcl.modules import Anchor, MomentumCopy, Queue, cosine_momentum


def test_copy_follows_by_exponential_averages():
    module = nn.Linear(3, 2).double()
    follower = MomentumCopy(module)
    expected = [p.detach().clone() for p in module.parameters()]
    for momentum in (0.9, 0.99, 0.5):
        with torch.no_grad():
            for p in module.parameters():
                p.normal_()
        follower.update(module, momentum)
        expected = [
            momentum * e + (1 - momentum) * p
            for e, p in zip(expected, module.parameters(), strict=True)
        ]
        for own, e in zip(follower.module.parameters(), expected, strict=True):
            torch.testing.assert_close(own, e.detach(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("momentum", "moves"), [(1.0, False), (0.0, True)])
def test_copy_stays_or_jumps_at_the_ends(momentum, moves):
    module = nn.Linear(3, 2)
    follower, before = MomentumCopy(module), module.weight.detach().clone()
    with torch.no_grad():
        module.weight.normal_()
    follower.update(module, momentum)
    assert torch.equal(follower.module.weight, module.weight if moves else before)


def test_copy_is_never_trained_and_its_statistics_are_its_own():
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    follower = MomentumCopy(module)
    assert not any(p.requires_grad for p in follower.parameters())
    assert all(p.requires_grad for p in module.parameters())
    x = torch.randn(5, 3, requires_grad=True)
    assert not follower(x).requires_grad
    assert follower.module[1].num_batches_tracked == 1
    assert module[1].num_batches_tracked == 0
    follower.update(module, 0.0)
    assert not torch.equal(follower.module[1].running_mean, module[1].running_mean)


def test_copy_becomes_the_module_statistics_too_and_stays_apart():
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    follower = MomentumCopy(module)
    with torch.no_grad():
        module[0].weight.normal_()
    module(torch.randn(5, 3))
    follower.copy_from(module)
    own, other = follower.module.state_dict(), module.state_dict()
    assert own["1.num_batches_tracked"] == 1
    assert all(torch.equal(own[name], value) for name, value in other.items())
    assert not any(p.requires_grad for p in follower.parameters())
    with torch.no_grad():
        module[0].weight.zero_()
    assert follower.module[0].weight.any()  # equal, not the same tensor


def tensors():
    return [nn.Parameter(torch.randn(shape, dtype=torch.float64)) for shape in ((3, 2), (4,), ())]


def test_an_anchor_tells_the_sum_of_distances_and_pulls_by_their_signs():
    places, now = tensors(), tensors()
    anchor = Anchor(places)
    distance = anchor(now)
    total = 0.0
    for place, tensor in zip(places, now, strict=True):
        for a, b in zip(place.flatten().tolist(), tensor.flatten().tolist(), strict=True):
            total += abs(b - a)
    assert distance.item() == pytest.approx(total, rel=1e-12)
    distance.backward()
    for place, tensor in zip(places, now, strict=True):
        assert torch.equal(tensor.grad, (tensor - place).sign())
        assert place.grad is None


def test_an_anchor_remembers_until_it_settles_elsewhere():
    first, second = tensors(), tensors()
    anchor = Anchor(first)
    with torch.no_grad():
        for tensor in first:
            tensor.add_(1.0)
    assert anchor(first).item() == pytest.approx(6 + 4 + 1)
    anchor.reset(second)
    assert anchor(second) == 0
    with pytest.raises(ValueError, match=r"zip\(\)"):
        anchor.reset(second[:2])


def test_an_anchor_is_state_that_does_not_train():
    places, other = tensors(), Anchor(tensors())
    anchor = Anchor(places)
    assert not list(anchor.parameters())
    assert len(anchor.state_dict()) == 3
    other.load_state_dict(anchor.state_dict(), strict=True)
    assert other(places) == 0


def test_momentum_rises_along_a_half_cosine():
    assert cosine_momentum(0.99, 1.0, 0.0) == pytest.approx(0.99, abs=1e-15)
    assert cosine_momentum(0.99, 1.0, 0.5) == pytest.approx(0.995, abs=1e-15)
    assert cosine_momentum(0.99, 1.0, 1.0) == pytest.approx(1.0, abs=1e-15)
    # MoCo v3: m = 1 − ½(1 + cos πe/E)(1 − .99)
    assert cosine_momentum(0.99, 1.0, 0.3) == pytest.approx(
        1 - 0.5 * (1 + math.cos(math.pi * 0.3)) * (1 - 0.99), abs=1e-15
    )


def test_queue_is_first_in_first_out_in_each_head():
    queue = Queue(num_heads=2, length=5, dim=3)
    expected = [list(head) for head in queue.z.clone()]  # oldest first
    for count in (2, 2, 2, 5, 3, 1):
        z = torch.randn(2, count, 3)
        queue.push(z)
        expected = [[*head[count:], *new] for head, new in zip(expected, z, strict=True)]
        for c in range(2):
            kept = queue.z[c].roll(-queue.start.item(), dims=0)
            assert torch.equal(kept, torch.stack(expected[c]))


def test_queue_starts_with_random_directions_in_each_head():
    unit = nn.functional.normalize(Queue(num_heads=3, length=400, dim=16).z, dim=-1)
    cosines = torch.einsum("ckd,cld->ckl", unit, unit) - torch.eye(400)
    assert cosines.mean().abs() < 0.01
    assert not torch.equal(unit[0], unit[1])


def test_queue_keeps_whole_projections_without_gradient_in_its_own_precision():
    queue = Queue(num_heads=1, length=4, dim=3)
    z = 7 * torch.randn(1, 2, 3, dtype=torch.bfloat16, requires_grad=True)
    queue.push(z)
    assert queue.z.dtype == torch.float32
    assert not queue.z.requires_grad
    assert torch.equal(queue.z[:, :2], z.detach().float())


def test_queue_and_its_place_are_in_the_state_dict():
    queue, again = Queue(2, 5, 3), Queue(2, 5, 3)
    queue.push(torch.randn(2, 3, 3))
    again.load_state_dict(queue.state_dict(), strict=True)
    more = torch.randn(2, 4, 3)
    queue.push(more)
    again.push(more)
    assert torch.equal(again.z, queue.z)
    assert again.start == queue.start == 2


def test_queue_says_when_a_step_does_not_fit():
    with pytest.raises(ValueError, match="6 projections a step do not fit into a queue of 5"):
        Queue(2, 5, 3).push(torch.randn(2, 6, 3))
    with pytest.raises(ValueError, match="queue must be a whole number, at least 1, got 0"):
        Queue(2, 0, 3)
