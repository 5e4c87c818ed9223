"""Features of a few noisy classes for linear probes."""

import math

import torch
from torch import nn

from amcl.data.split import hold_out
from amcl.evaluation.linear_layers import FixedFeatures
from amcl.evaluation.protocols.linear import LinearSettings, linear_probe
from amcl.seeds import generator, seed_of

N, D, K = 301, 7, 3


def noisy(n=N, classes=K, seed=0):
    """Features that tell classes apart, but not always."""
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (n,), generator=g)
    centers = torch.randn(classes, D, generator=torch.Generator().manual_seed(99)).double()
    return 0.6 * centers[labels] + torch.randn(n, D, generator=g).double(), labels


def settings(**changes):
    usual = {"epochs": 4, "min_steps": 0, "batch_size": 20, "lrs": (0.1, 1.0, 10.0)}
    return LinearSettings(**usual | changes)


def probe(settings, seed=0, classes=K, **changes):
    (x, y), (test, truth) = noisy(classes=classes), noisy(60, classes, seed=1)
    given = {"train": FixedFeatures(x, y), "test": test, "truth": truth} | changes
    return linear_probe(**given, classes=classes, settings=settings, seed=seed)


def held_out(labels, share=0.1, seed=0):
    return hold_out(labels, round(share * len(labels)), seed_of(seed, "linear", "hold-out"))[1]


def literal(x, y, lr, settings, seed=0, classes=K, held=()):
    """One rate, as a loop that reads like a script: a layer, an optimizer, a schedule."""
    layer = nn.Linear(D, classes, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.normal_(0, 0.01, generator=generator(seed, "linear", "weights"))
        layer.bias.zero_()
    norm = nn.BatchNorm1d(D, eps=1e-6, affine=False, dtype=torch.float64)
    model = nn.Sequential(norm, layer) if settings.norm == "batch" else layer
    optimizer = torch.optim.SGD(
        layer.parameters(),
        lr=lr * settings.batch_size / 256,
        momentum=settings.momentum,
        nesterov=settings.nesterov,
        weight_decay=settings.weight_decay,
    )
    steps = math.ceil(len(x) / settings.batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.epochs * steps)
    unseen = torch.isin(torch.arange(len(x)), torch.as_tensor(held, dtype=torch.long))
    for epoch in range(settings.epochs):
        order = torch.randperm(len(x), generator=generator(seed, "linear", "order", epoch))
        for rows in order.tensor_split(steps):
            logits = model(x[rows])
            seen = ~unseen[rows]
            loss = nn.functional.cross_entropy(logits[seen], y[rows][seen], reduction="sum")
            optimizer.zero_grad()
            (loss / max(int(seen.sum()), 1)).backward()
            optimizer.step()
            schedule.step()
    return model.eval().requires_grad_(False)
