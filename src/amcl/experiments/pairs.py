"""A run's pairs of views in a few numbers."""

from amcl.analysis import (
    PairSample,
    backbone_similarity,
    scaled,
    separation_of,
    temperatures,
)


def pair_numbers(sample: PairSample) -> dict[str, float]:
    """Overlap and AUROC after the heads and after the backbone; temperatures of positive pairs."""
    found: dict[str, float] = {}
    for place, similarity in (
        ("heads", None if sample.s is None else scaled(sample)),
        ("backbone", backbone_similarity(sample)),
    ):
        if similarity is not None:
            apart = separation_of(similarity)
            found |= {f"overlap_{place}": apart.overlap, f"auroc_{place}": apart.auroc}
    if sample.tau is not None or sample.channel_tau is not None:
        tau = temperatures(sample)
        own = tau.of("positive")
        found["tau_positive"] = sum(head.mean for head in own) / len(own)
        found["tau_positive_variance"] = sum(head.std**2 for head in own) / len(own)
        found["between_heads_positive"] = tau.between_positive
    return found
