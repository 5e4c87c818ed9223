"""SimCLR with AMCL as a Lightning module.

Run it with `python examples/lightning_module.py` (`pip install lightning`).
"""

import lightning.pytorch as pl
import torch

import amcl
from amcl.backbones import Backbone, BackboneSettings
from amcl.data import load_dataset
from amcl.views import Views


class SimCLR(pl.LightningModule):
    """A backbone, three heads and the loss, whose φ is trained with them."""

    def __init__(self, mean, std, lr=5e-3):
        super().__init__()
        self.views = Views(32, mean=mean, std=std)
        self.lr = lr
        self.backbone = Backbone(BackboneSettings(name="resnet10t", width=0.25), image_size=32)
        self.heads = amcl.ProjectionHeads(self.backbone.dim, 256, 64, num_heads=3, norm=True)
        self.criterion = amcl.AMCLLoss(num_heads=3, dim=64)

    def training_step(self, images, batch_index):
        """Return the loss of a batch, and log the mean temperature of each head."""
        z0, z1 = (self.heads(self.backbone(view)) for view in self.views(images))
        loss, stats = self.criterion(z0, z1, return_stats=True)
        self.log_dict({"loss": loss, "tau": stats.positive.tau.mean()}, prog_bar=True)
        return loss

    def configure_optimizers(self):
        """Return the optimizer of all parameters, those of the loss included."""
        return torch.optim.AdamW(self.parameters(), lr=self.lr)


def train(images, mean, std, epochs=10, batch_size=128, **options):
    """Train on images in memory, and return the model."""
    loader = torch.utils.data.DataLoader(
        images[torch.arange(len(images))], batch_size, shuffle=True, drop_last=True
    )
    model = SimCLR(mean, std)
    pl.Trainer(max_epochs=epochs, logger=False, **options).fit(model, loader)
    return model


if __name__ == "__main__":
    data = load_dataset("builtin", image_size=32)
    train(data.train, data.mean, data.std)
