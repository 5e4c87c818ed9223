"""The recipe of continued pre-training: from trained weights on, on other images."""

from dataclasses import replace

from amcl.config import Config, OptimizerSettings

# docs/pretraining.md says what was tried.
LAYER_DECAY = 0.9
FREEZE = 0.05  # share of the epochs

# In the place of SGD and LARS, whose rates say little about those of other networks.
ADAMW = OptimizerSettings(
    name="adamw", lr=1e-3, lr_scaling="sqrt", weight_decay=1e-4, warmup_epochs=5
)


def continued(config: Config) -> Config:
    """Return the configuration for a run that starts from trained weights.

    Args:
        config: A configuration for random weights.

    Returns:
        The same with AdamW, whose rate falls from the new heads to the first layer, and with a
        backbone that is frozen while the heads take their first steps.

    Example:
        >>> from amcl.recipes import recipe
        >>> optimizer = continued(recipe("builtin-simclr")).optimizer
        >>> optimizer.lr, optimizer.layer_decay, optimizer.freeze_epochs
        (0.005, 0.9, 1.5)
    """
    optimizer = config.optimizer if config.optimizer.name == "adamw" else ADAMW
    changed = replace(
        optimizer,
        layer_decay=LAYER_DECAY,
        freeze_epochs=round(FREEZE * config.run.epochs, 6),
    )
    return replace(config, optimizer=changed)
