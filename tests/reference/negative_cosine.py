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
