"""Fewer combinations than all, in which nothing is left out that the tests rely on."""

from itertools import combinations, product

import pytest

from covering import cover

OPTIONS = {"form": "abcd", "size": [1, 2, 3], "sign": [True, False], "kind": ["plain", "other"]}


@pytest.mark.parametrize("strength", [1, 2, 3, 4])
def test_all_values_meet(strength):
    rows = cover(OPTIONS, strength)
    for names in combinations(OPTIONS, strength):
        met = {tuple(row[name] for name in names) for row in rows}
        assert met == set(product(*(OPTIONS[name] for name in names)))


def test_there_are_few():
    assert len(cover(OPTIONS, 1)) == 4
    assert len(cover(OPTIONS, 2)) <= 14  # 12 have form and size alone
    assert cover(OPTIONS, 2) == cover(OPTIONS, 2)
