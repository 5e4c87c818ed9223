"""Runs carried out, and tables filled with what they came to."""

from collections.abc import Sequence

from amcl.experiments.cases import Part
from amcl.experiments.pool import Pool
from amcl.experiments.tables import Filled
from amcl.sweep.workers import Tell
from amcl.training import Interrupted, RunError


def conduct(
    pool: Pool,
    parts: Sequence[Part],
    seeds: Sequence[int],
    *,
    jobs: int,
    again: bool,
    go_on: str,
    tell: Tell,
) -> list[Filled]:
    """Carry out what has not been; each part with its numbers. `go_on`: what goes on after a stop.

    What failed is left out of the tables and told; an error if nothing is left.
    """
    if not seeds:
        raise ValueError("seeds must name one or more, as in 0 1 2, got none.")
    try:
        findings = pool.carry_out(parts, seeds, jobs=jobs, again=again, tell=tell)
    except Interrupted as stopped:
        raise Interrupted(
            f"stopped, everything is saved. Go on with: {go_on}", stopped.exit_code - 128
        ) from stopped
    filled = [Filled(p, tuple(pool.number(c, seeds, findings) for c in p.cases)) for p in parts]
    if all(number.mean is None for each in filled for number in each.numbers):
        raise RunError(
            f"there is not one number to show: {filled[0].bad()[0]}. --again takes up runs that "
            "failed."
        )
    return filled
