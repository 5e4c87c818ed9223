"""VICReg with AMCL in plain PyTorch: temperatures are part of the invariance term.

Run it with `python examples/vicreg.py`, and on a folder of images with its path behind that.
"""

import sys

import torch
from torch import nn

import amcl
from amcl.backbones import Backbone, BackboneSettings
from amcl.data import load_dataset
from amcl.temperature import AdaptiveTemperature
from amcl.views import Views


class VICReg(nn.Module):
    """A backbone, three expanders and the loss."""

    def __init__(self):
        super().__init__()
        self.backbone = Backbone(BackboneSettings(name="resnet10t", width=0.25), image_size=32)
        self.expanders = amcl.ProjectionHeads(
            self.backbone.dim, 256, 256, num_heads=3, norm=True, last_bias=False
        )
        temperature = AdaptiveTemperature(256, lower=0.5, upper=1.5, phi_gradient=False)
        self.criterion = amcl.VICRegLoss(3, temperature, beta=1.0)

    def forward(self, view0, view1):
        """Return the loss of two views of the same images."""
        z0, z1 = (self.expanders(self.backbone(view)) for view in (view0, view1))
        return self.criterion(z0, z1)


def train(images, mean, std, epochs=10, batch_size=128):
    """Train on images, and return the model."""
    views = Views(32, mean=mean, std=std)
    model = VICReg()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for epoch in range(1, epochs + 1):
        losses = []
        for indices in torch.randperm(len(images)).split(batch_size)[:-1]:
            loss = model(*views(images[indices]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}")
    return model


if __name__ == "__main__":
    source = sys.argv[1] if len(sys.argv) > 1 else "builtin"
    data = load_dataset(source, image_size=32)
    model = train(data.train, data.mean, data.std)
    torch.save(model.backbone.state_dict(), "vicreg.pt")
