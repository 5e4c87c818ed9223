"""Each use of randomness has its own stream, the same on every machine and in every version."""

import torch

from amcl.seeds import generator, seed_of


def test_seeds_are_the_same_for_good():
    # A resumed run draws what the stopped one would have drawn: these never change.
    assert seed_of(0, "weights") == 5087778715007104936
    assert seed_of(7, "step", 12, 1) == 6342353619744390640


def test_every_name_and_its_place_and_type_count():
    names = [
        (0,),
        (1,),
        ("0",),
        (0, 1),
        (1, 0),
        (0, "order"),
        (0, "order", 1),
        ("01",),
        (0, 11),
        (),
    ]
    names += [(seed, "step", step) for seed in range(20) for step in range(50)]
    assert len({seed_of(*n) for n in names}) == len(names)


def test_seeds_are_what_torch_takes():
    seeds = [seed_of(0, "step", step) for step in range(200)]
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert max(seeds) > 2**62  # the range is used
    torch.manual_seed(max(seeds))


def test_a_generator_depends_on_its_names_alone():
    first = torch.rand(4, generator=generator(3, "views", 5))
    torch.manual_seed(99)
    torch.rand(10)
    assert torch.equal(torch.rand(4, generator=generator(3, "views", 5)), first)
    assert not torch.equal(torch.rand(4, generator=generator(3, "views", 6)), first)


def test_a_generator_leaves_the_global_one_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    torch.rand(4, generator=generator(0, "order"))
    assert torch.equal(torch.rand(3), expected)
