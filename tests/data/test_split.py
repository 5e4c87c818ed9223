import torch
from hypothesis import given
from hypothesis import strategies as st

from amcl.data.split import hold_out, sample


@given(st.lists(st.integers(0, 4), min_size=1, max_size=80), st.integers(0, 60), st.integers(0, 9))
def test_held_out_images_are_a_fair_part(labels, count, seed):
    labels = torch.tensor(labels)
    count = min(count, len(labels))
    kept, held = hold_out(labels, count, seed)
    assert sorted(kept.tolist() + held.tolist()) == list(range(len(labels)))
    assert len(held) <= count
    for label, size in zip(*torch.unique(labels, return_counts=True), strict=True):
        share = int((labels[held] == label).sum())
        assert abs(share - count * int(size) / len(labels)) <= 1 or share == size - 1
        assert share < size  # each class can still be learned


def test_seeds():
    labels = torch.arange(100) % 4
    first, again, other = (hold_out(labels, 20, seed)[1] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert labels[first].bincount().tolist() == [5, 5, 5, 5]


def test_sample():
    assert sample(5, 9, seed=0).tolist() == [0, 1, 2, 3, 4]
    some = sample(100, 10, seed=0)
    assert len(some.unique()) == 10
    assert torch.equal(some, some.sort().values)
    assert torch.equal(some, sample(100, 10, seed=0))
