"""AMCL in a plain PyTorch loop: two heads on handwritten digits in random colors.

Run with `python examples/drop_in.py`; about half a minute on two cores. The digits are real (they
come with scikit-learn); their colors are random, so that pixels alone say little about the digit.
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

import amcl


def colored_digits():
    """Return 1,797 shifted digits of 16 pixels in random colors, and their labels."""
    digits = load_digits()
    gray = torch.tensor(digits.images / 16).float()[:, None]  # (1797, 1, 8, 8)
    ink = move(F.interpolate(gray, size=16, mode="bilinear"), angle=0.0, shift=0.25)
    background, foreground = torch.rand(2, len(ink), 3, 1, 1)
    images = background.lerp(foreground, ink.expand(-1, 3, -1, -1))
    return images, torch.tensor(digits.target)


def move(x, angle, shift):
    """Rotate each image by up to `angle` (radians) and shift it by up to `shift` half-widths."""
    a = angle * (2 * torch.rand(len(x)) - 1)
    dx, dy = shift * (2 * torch.rand(2, len(x)) - 1)
    theta = torch.stack([a.cos(), -a.sin(), dx, a.sin(), a.cos(), dy], dim=1).view(-1, 2, 3)
    grid = F.affine_grid(theta, x.shape, align_corners=False)
    return F.grid_sample(x, grid, padding_mode="border", align_corners=False)


def view(x):
    """Return a random view of each image: rotated, shifted, with mixed colors and some noise."""
    x = torch.einsum("nij,njhw->nihw", torch.randn(len(x), 3, 3), move(x, 0.3, 0.25))
    return x + 0.02 * torch.randn_like(x)


def nearest_neighbors(train, train_labels, test, test_labels, k=10):
    """Return the accuracy of a vote among the k nearest training images."""
    similarity = F.normalize(test.flatten(1), dim=1) @ F.normalize(train.flatten(1), dim=1).T
    votes = train_labels[similarity.topk(k).indices]
    return (votes.mode(dim=1).values == test_labels).float().mean().item()


def train(images, num_heads=2, epochs=15, batch_size=128):
    """Train a backbone; arrows mark the lines that AMCL changes in a SimCLR loop."""
    backbone = nn.Sequential(
        nn.InstanceNorm2d(3),
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1), nn.BatchNorm2d(128), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(),
    )  # fmt: skip
    heads = amcl.ProjectionHeads(512, 256, 64, num_heads=num_heads)  # ←
    criterion = amcl.AMCLLoss(num_heads=num_heads, dim=64)  # ←
    parameters = [*backbone.parameters(), *heads.parameters(), *criterion.parameters()]  # ←
    optimizer = torch.optim.AdamW(parameters, lr=2e-3)
    for epoch in range(1, epochs + 1):
        for batch in torch.randperm(len(images)).split(batch_size)[:-1]:
            z0 = heads(backbone(view(images[batch])))
            z1 = heads(backbone(view(images[batch])))
            loss, stats = criterion(z0, z1, return_stats=True)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch % 5 == 0:
            tau = " ".join(
                f"{pos:.3f}/{neg:.3f}"
                for pos, neg in zip(stats.positive.tau, stats.negative.tau, strict=True)
            )
            print(f"epoch {epoch:3d}  loss {loss.item():.3f}  mean τ⁺/τ⁻ of each head: {tau}")
            for line in stats.advice():
                print(f"           {line}")
    return backbone.eval()


def main():
    """Train a backbone, then compare nearest neighbors of pixels and of its features."""
    torch.manual_seed(0)
    images, labels = colored_digits()
    train_set = slice(0, 1300)
    test_set = slice(1300, None)
    print("1,300 colored digits to train on without labels, 497 to test with.")
    backbone = train(images[train_set])
    with torch.no_grad():
        features = backbone(images)
    for name, x in (("raw pixels", images), ("learned features", features)):
        accuracy = nearest_neighbors(x[train_set], labels[train_set], x[test_set], labels[test_set])
        print(f"nearest neighbors on {name:17s} {accuracy:6.1%} right (guessing: 10%)")


if __name__ == "__main__":
    main()
