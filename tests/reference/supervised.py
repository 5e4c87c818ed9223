"""SupCon (arXiv 2004.11362, L_out), anchor by anchor, with a temperature for each pair."""

import math

from reference.temperature import omega, sim


def supcon(num_heads, view0, view1, labels, tau, head_reduction, *, beta=0.0, prior_tau=1.0):
    """Each view of each image is an anchor, and all other views are its candidates."""
    batch = [*zip(view0, labels, strict=True), *zip(view1, labels, strict=True)]
    total = 0.0
    for c in range(num_heads):
        for anchor, label in batch:
            positives, everything = [], []
            for other, label_of_other in batch:
                if other is anchor:
                    continue
                sign = "positive" if label_of_other == label else "negative"
                t = tau(sign, c, anchor, other)
                u = sim(anchor.z[c], other.z[c]) / t - beta * omega(t, prior_tau)
                everything.append(u)
                if sign == "positive":
                    positives.append(u)
            denominator = math.log(sum(math.exp(u) for u in everything))
            for u in positives:
                total += (denominator - u) / len(positives)
    return total / len(batch) / (num_heads if head_reduction == "mean" else 1)
