"""Eq. 2.2 (SimSiam)."""

from reference.temperature import omega, sim


def symmetric_negative_cosine(
    num_heads, z0, z1, h0, h1, tau, head_reduction, *, beta=0.0, prior_tau=1.0
):
    """z: predictions, h: their targets behind stop-gradient, both lists of items."""
    total = 0.0
    for i in range(len(z0)):
        for c in range(num_heads):
            tau_forth = tau("positive", c, z0[i], h1[i])
            tau_back = tau("positive", c, z1[i], h0[i])
            total -= 0.5 / tau_forth * sim(z0[i].z[c], h1[i].z[c])
            total -= 0.5 / tau_back * sim(z1[i].z[c], h0[i].z[c])
            total += beta * omega(tau_forth, prior_tau) + beta * omega(tau_back, prior_tau)
    return total / len(z0) / (num_heads if head_reduction == "mean" else 1)


def byol(q0, q1, target0, target1):
    """BYOL as published: the squared distance of unit vectors, both directions, one head."""
    total = 0.0
    for predictions, targets in ((q0, target1), (q1, target0)):
        for q, target in zip(predictions, targets, strict=True):
            length_q = sum(x * x for x in q) ** 0.5
            length_target = sum(x * x for x in target) ** 0.5
            for x, y in zip(q, target, strict=True):
                total += (x / length_q - y / length_target) ** 2
    return total / len(q0)
