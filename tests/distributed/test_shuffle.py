"""Two processes on gloo exchange items, give them back, and agree on means."""

import pytest
import torch

from amcl.distributed import mean_over_ranks, rank, shuffle, world_size
from shuffle_cases import WORLD_SIZE, N


@pytest.fixture
def ranks(two_processes):
    """What each of two processes computed."""
    return [results["shuffle"] for results in two_processes]


def test_processes_know_their_place(ranks):
    assert [result["rank"] for result in ranks] == [0, 1]
    assert [result["world_size"] for result in ranks] == [2, 2]


def test_each_item_goes_to_one_process(ranks):
    assert torch.equal(ranks[0]["place"], ranks[1]["place"])
    together = torch.cat([result["items"] for result in ranks])
    assert sorted(together[:, 0, 0].tolist()) == list(range(WORLD_SIZE * N))
    for result in ranks:
        assert result["items"].shape == (N, 2, 3)
        come = result["items"][:, 0, 0] // N
        assert len(set(come.tolist())) == 2  # from both processes


def test_results_come_back_to_where_items_came_from(ranks):
    for result in ranks:
        assert torch.equal(result["undone"], 10 * result["own"])


def test_queue_takes_the_items_of_all_processes_in_their_order(ranks):
    for result in ranks:
        assert result["queue"].flatten().tolist() == list(range(WORLD_SIZE * N))


def test_mean_is_over_processes(ranks):
    for me, result in enumerate(ranks):
        assert result["mean"].tolist() == [1.5, 5.0]
        assert not result["mean has gradient"]
        assert result["unchanged"].tolist() == [1.0 + me, 10.0 * me]


def test_shuffled_keys_are_those_of_their_images(ranks):
    for result in ranks:
        keys = result["keys"]
        torch.testing.assert_close(keys["eval, True"], keys["eval, False"])
        # In training, batch norm has seen the images of others.
        assert not torch.allclose(keys["train, True"], keys["train, False"], atol=1e-3)


def test_one_process_keeps_its_own():
    items = torch.randn(5, 3)
    alone = shuffle(items)
    assert torch.equal(alone.items, items)
    assert torch.equal(alone.undo(2 * items), 2 * items)
    assert torch.equal(mean_over_ranks(items), items)
    assert (rank(), world_size()) == (0, 1)


def test_mean_of_one_process_has_no_gradient_either():
    assert not mean_over_ranks(torch.ones(3, requires_grad=True)).requires_grad
