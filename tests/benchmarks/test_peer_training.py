"""benchmarks/peer_training.py trains networks alike, and judges them by amcl's kNN."""

import pytest
import torch
from torch import nn

from amcl.data import DataSet, Labeled, MemoryImages, Probe
from amcl.training.trainer import Trainer
from benchmark_scripts import load_script
from factories import small_config


@pytest.fixture
def peers(monkeypatch):
    return load_script(monkeypatch, "peer_training")


def images_of(count):
    """Dark and bright images by turns, with their classes."""
    labels = torch.arange(count) % 2
    noise = torch.randint(60, (count, 3, 32, 32), generator=torch.Generator().manual_seed(count))
    pixels = (noise + 150 * labels[:, None, None, None]).to(torch.uint8)
    return Labeled(MemoryImages(pixels), labels)


@pytest.fixture
def data():
    train = images_of(250)
    probe = Probe(train, images_of(20), ("dark", "bright"), "test")
    half = (0.5,) * 3
    return DataSet(
        name="toy",
        train=train.images,
        labels=train.labels,
        probe=probe,
        image_size=32,
        mean=half,
        std=half,
    )


def test_networks_are_judged_by_their_neighbors(peers, data):
    half = ((0.5,) * 3, (0.5,) * 3)
    assert peers.knn_of(nn.Flatten(), data, half) == 1.0
    assert peers.knn_of(nn.Flatten(), data, half, bank=100) == 1.0


def test_pictures_are_those_of_the_data_set(peers, data):
    images = peers.pictures_of(data)
    assert images.shape == (250, 32, 32, 3)
    pictures = peers.LabeledPictures(images, data.labels)
    picture, label = pictures[3]
    assert (len(pictures), label, picture.size) == (250, 1, (32, 32))
    pixels = data.train[torch.tensor([3])][0, :, 5, 7].tolist()
    assert list(picture.getpixel((7, 5))) == pixels


def test_amcl_starts_from_the_weights_that_the_others_have(peers):
    options = {"subset": 32, "batch_size": 16, "epochs": 2, "probe": "none", "seed": 3}
    config = small_config("builtin-simclr", **options, lr=1e-12, weight_decay=0.0)
    before, steps, started = Trainer.train_step, [], []
    networks = []

    def on_step(network, images):
        steps.append(images)
        networks.append(network)

    peers.train_amcl(config, on_step=on_step, on_start=lambda: started.append(len(steps)))
    assert (started, steps) == ([0], [16, 32, 48, 64])
    assert Trainer.train_step is before
    first = peers.first_backbone(config.backbone, 3)
    for ours, theirs in zip(networks[-1].parameters(), first.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
    other = peers.first_backbone(config.backbone, 4)
    assert any(
        not torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True)
    )


def test_an_epoch_of_lightly_takes_a_step_for_each_batch(peers):
    network, head = nn.Linear(2, 2), nn.Identity()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    loader = [(torch.ones(4, 2), torch.zeros(4, 2))] * 20

    def criterion(z0, z1):
        return (z0 - z1).square().mean()

    losses = list(peers.lightly_steps(network, head, criterion, loader, optimizer))
    assert len(losses) == 20
    assert losses[-1] < losses[0]
