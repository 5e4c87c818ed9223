"""Print the attacks that a complete run of tests/faults has survived: `make test-faults`."""

import sys
from collections import Counter
from pathlib import Path


def table(lines: list[str]) -> str:
    """Return a row for each attack with the number of times that it was survived."""
    counts: Counter[str] = Counter()
    for line in lines:
        attack, count = line.rsplit("\t", 1)
        counts[attack] += int(count)
    rows = [f"| {attack} | {count:,} |" for attack, count in sorted(counts.items())]
    return "\n".join(["| attack | tried and survived |", "|---|---|", *rows])


if __name__ == "__main__":
    print(table(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()))
