"""The recipe of continued pre-training: from trained weights on, on other images."""

from dataclasses import replace

from amcl.config import Config

LR = 0.3  # as a share of that of the recipe
LAYER_DECAY = 0.75
FREEZE = 0.05  # share of the epochs


def continued(config: Config) -> Config:
    """Return the configuration for a run that starts from trained weights.

    Args:
        config: A configuration for random weights.

    Returns:
        The same with AdamW at a lower rate, which falls from layer to layer, and with a backbone
        that is frozen while the new heads learn their first steps.

    Example:
        >>> from amcl.recipes import recipe
        >>> continued(recipe("builtin-simclr")).optimizer.layer_decay
        0.75
    """
    optimizer = config.optimizer
    return replace(
        config,
        optimizer=replace(
            optimizer,
            lr=LR * optimizer.lr,
            layer_decay=LAYER_DECAY,
            freeze_epochs=FREEZE * config.run.epochs,
        ),
    )
