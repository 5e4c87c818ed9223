"""A run's pairs of views in a few numbers."""

import json
from pathlib import Path

from amcl.analysis import (
    PairSample,
    PairSettings,
    backbone_similarity,
    sample_of_run,
    scaled,
    separation_of,
    temperatures,
)
from amcl.files import write_text


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


def pair_numbers_of_run(run: Path, settings: PairSettings) -> dict[str, float]:
    """The same for a run that has ended; kept in its folder."""
    place = run / "analysis" / f"pairs-{settings.images}-{settings.seed}.json"
    if not place.is_file():
        numbers = pair_numbers(sample_of_run(run, settings))
        write_text(place, json.dumps(numbers, indent=1) + "\n")
    found: dict[str, float] = json.loads(place.read_text(encoding="utf-8"))
    return found
