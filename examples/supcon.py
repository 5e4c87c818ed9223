"""SupCon with AMCL in plain PyTorch: images of one class are positives.

Run it with `python examples/supcon.py`, and on a folder of classes with its path behind that.
"""

import sys

import torch
from torch import nn

import amcl
from amcl.backbones import Backbone, BackboneSettings
from amcl.data import load_dataset
from amcl.temperature import AdaptiveTemperature
from amcl.views import Views


class SupCon(nn.Module):
    """A backbone, three heads and the loss."""

    def __init__(self):
        super().__init__()
        self.backbone = Backbone(BackboneSettings(name="resnet10t", width=0.25), image_size=32)
        self.heads = amcl.ProjectionHeads(
            self.backbone.dim, 256, 64, num_heads=3, norm=True, last_norm="plain"
        )
        temperature = AdaptiveTemperature(64, lower=0.15, upper=0.45)
        self.criterion = amcl.SupervisedContrastiveLoss(3, temperature, beta=0.1, prior_tau=0.3)

    def forward(self, view0, view1, labels):
        """Return the loss of two views of labeled images."""
        z0, z1 = (self.heads(self.backbone(view)) for view in (view0, view1))
        return self.criterion(z0, z1, labels)


def train(images, labels, mean, std, epochs=10, batch_size=128):
    """Train on labeled images, and return the model."""
    views = Views(32, mean=mean, std=std)
    model = SupCon()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for epoch in range(1, epochs + 1):
        losses = []
        for indices in torch.randperm(len(images)).split(batch_size)[:-1]:
            loss = model(*views(images[indices]), labels[indices])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}")
    return model


if __name__ == "__main__":
    source = sys.argv[1] if len(sys.argv) > 1 else "builtin"
    data = load_dataset(source, image_size=32, train_labels=True)
    model = train(data.train, data.labels, data.mean, data.std)
    torch.save(model.backbone.state_dict(), "supcon.pt")
