"""AMCL with any backbone of timm.

Run it with `python examples/timm_backbone.py`, or name another model:
`python examples/timm_backbone.py convnext_atto`.
"""

import sys

import timm
import torch

import amcl
from amcl.data import load_dataset
from amcl.views import Views


def train(images, mean, std, name="resnet10t", epochs=10, batch_size=128):
    """Train a timm model on images, and return it."""
    views = Views(32, mean=mean, std=std)
    backbone = timm.create_model(name, num_classes=0)  # features instead of classes
    heads = amcl.ProjectionHeads(backbone.num_features, 256, 64, num_heads=3, norm=True)
    criterion = amcl.AMCLLoss(num_heads=3, dim=64)
    modules = torch.nn.ModuleList([backbone, heads, criterion])  # the loss has parameters too
    optimizer = torch.optim.AdamW(modules.parameters(), lr=1e-3)
    for epoch in range(1, epochs + 1):
        for indices in torch.randperm(len(images)).split(batch_size)[:-1]:
            view0, view1 = views(images[indices])
            loss = criterion(heads(backbone(view0)), heads(backbone(view1)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")
    return backbone


if __name__ == "__main__":
    data = load_dataset("builtin", image_size=32)
    backbone = train(data.train, data.mean, data.std, *sys.argv[1:2])
    torch.save(backbone.state_dict(), "backbone.pt")
