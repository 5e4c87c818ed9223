"""MoCo: its queue and its momentum encoder."""

import pytest
import torch

from toy_methods import IMAGES, make, part_encoders, views


def test_moco_keys_enter_the_queue_after_the_step_in_order():
    method, (x0, x1) = make("moco", heads=2, queue=20), views()
    k0, k1 = method.keys(x0), method.keys(x1)
    before = method.queue.z.clone()
    method([x0, x1]).backward()
    assert torch.equal(method.queue.z, before)  # the backward pass still reads it
    method.after_step()
    torch.testing.assert_close(method.queue.z[:, : 2 * IMAGES], torch.cat([k0, k1], dim=1))
    assert torch.equal(method.queue.z[:, 2 * IMAGES :], before[:, 2 * IMAGES :])
    newer = method.keys(x0), method.keys(x1)
    method([x0, x1])
    method.after_step()
    pushed = torch.cat(newer, dim=1)
    torch.testing.assert_close(method.queue.z[:, 2 * IMAGES :], pushed[:, :8])
    torch.testing.assert_close(method.queue.z[:, :4], pushed[:, 8:])


def test_moco_pushes_every_part_of_an_accumulated_step():
    method = make("moco", queue=16, symmetric=False)
    (a0, a1), (b0, b1) = views(), views()
    expected = torch.cat([method.keys(a1), method.keys(b1)], dim=1)
    method([a0, a1])
    method([b0, b1])
    method.after_step()
    torch.testing.assert_close(method.queue.z[:, : 2 * IMAGES], expected)
    method([a0, a1])
    method.after_step()
    assert method.queue.start == (3 * IMAGES) % 16  # what was pushed before is not pushed again


def test_moco_keeps_no_keys_outside_of_training():
    method = make("moco", queue=2 * IMAGES).eval()
    for _ in range(3):
        method(views())
    method.train()
    method(views())
    method.after_step()
    assert method.queue.start == 0  # the keys of one step went around once


def test_moco_computes_keys_with_the_momentum_of_the_same_step():
    """As MoCo v3's code does: its momentum at a step moves the encoder before that step's keys."""
    method = make("moco", momentum=0.9, momentum_end=1.0)
    part_encoders(method)
    (view, _), old = views(), [p.clone() for p in method.keys.parameters()]
    new = [*method.backbone.parameters(), *method.heads.parameters()]
    method.before_step(0.0, 0.5)
    moved = [0.95 * o + 0.05 * n.detach() for o, n in zip(old, new, strict=True)]
    for key, expected in zip(method.keys.parameters(), moved, strict=True):
        torch.testing.assert_close(key, expected)
    moved = [p.clone() for p in method.keys.parameters()]
    method([view, view])
    method.after_step()
    assert all(map(torch.equal, method.keys.parameters(), moved))


def test_moco_key_encoder_follows_with_the_scheduled_momentum():
    method = make("moco", momentum=0.9, momentum_end=1.0)
    part_encoders(method)
    for progress, momentum in ((0.0, 0.9), (0.5, 0.95), (1.0, 1.0)):
        old = [p.clone() for p in method.keys.parameters()]
        new = [*method.backbone.parameters(), *method.heads.parameters()]
        method.before_step(0.0, progress)
        method(views())
        method.after_step()
        for key, o, n in zip(method.keys.parameters(), old, new, strict=True):
            torch.testing.assert_close(key, momentum * o + (1 - momentum) * n.detach())


def test_moco_momentum_stays_without_an_end():
    method = make("moco", momentum=0.97)
    method.before_step(3.0, 0.7)
    assert method.momentum == 0.97


def test_moco_goes_on_from_its_state_dict():
    method, again = make("moco", heads=2), make("moco", heads=2)
    part_encoders(method)
    method(views())
    method.after_step()
    assert {"queue.z", "queue.start"} <= method.state_dict().keys()
    again.load_state_dict(method.state_dict(), strict=True)
    x0, x1 = views()
    losses = []
    for m in (method, again):
        first = m([x0, x1])
        m.after_step()
        losses.append((first, m([x0, x1])))
    torch.testing.assert_close(losses[0], losses[1], rtol=0, atol=0)


def test_moco_queue_must_hold_a_step():
    method = make("moco", queue=2 * IMAGES - 1)
    method(views())
    with pytest.raises(ValueError, match="12 projections a step do not fit into a queue of 11"):
        method.after_step()
