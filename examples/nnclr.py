"""NNCLR with AMCL in plain PyTorch: the anchor is the nearest neighbor in a queue.

Run it with `python examples/nnclr.py`, and on a folder of images with its path behind that.
"""

import sys

import torch
from torch import nn

import amcl
from amcl.backbones import Backbone, BackboneSettings
from amcl.data import load_dataset
from amcl.modules import Queue
from amcl.views import Views


class NNCLR(nn.Module):
    """A backbone, three projectors and predictors, a queue for each head and the loss."""

    def __init__(self):
        super().__init__()
        self.backbone = Backbone(BackboneSettings(name="resnet10t", width=0.25), image_size=32)
        self.projectors = amcl.ProjectionHeads(
            self.backbone.dim, 256, 64, num_heads=3, norm=True, bias=False, last_norm="affine"
        )
        self.predictors = amcl.ProjectionHeads(64, 256, 64, num_heads=3, norm=True)
        self.queue = Queue(num_heads=3, length=512, dim=64)
        self.criterion = amcl.AMCLLoss(num_heads=3, dim=64, negatives="other_view")

    def forward(self, view0, view1):
        """Return the loss of two views of the same images."""
        z0, z1 = (self.projectors(self.backbone(view)) for view in (view0, view1))
        p0, p1 = self.predictors(z0), self.predictors(z1)
        self.latest = z0.detach()
        forth = self.criterion(self.queue.nearest(z0), p1)
        back = self.criterion(self.queue.nearest(z1), p0)
        return (forth + back) / 2

    def update(self):
        """Put projections into the queue after a step of the optimizer."""
        self.queue.push(self.latest)


def train(images, mean, std, epochs=10, batch_size=128):
    """Train on images, and return the model."""
    views = Views(32, mean=mean, std=std)
    model = NNCLR()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for epoch in range(1, epochs + 1):
        losses = []
        for indices in torch.randperm(len(images)).split(batch_size)[:-1]:
            loss = model(*views(images[indices]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            model.update()
            losses.append(loss.item())
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}")
    return model


if __name__ == "__main__":
    source = sys.argv[1] if len(sys.argv) > 1 else "builtin"
    data = load_dataset(source, image_size=32)
    model = train(data.train, data.mean, data.std)
    torch.save(model.backbone.state_dict(), "nnclr.pt")
