"""Names of timm's models."""

import difflib


def check_model(model: str) -> None:
    """Raise an error unless timm has a model of this name, and weights of its tag if it has one."""
    import timm

    if not timm.is_model(model):
        raise ValueError(unknown_model(model))
    name, _, tag = model.partition(".")
    if tag and model not in timm.list_pretrained(f"{name}.*"):
        raise ValueError(
            f"there is no {model!r}: timm's weights of {name} are "
            f"{', '.join(timm.list_pretrained(f'{name}.*'))}."
        )


def unknown_model(name: str) -> str:
    """Return the message that timm has no such model, with similar names."""
    import timm

    matches = difflib.get_close_matches(name, timm.list_models(), n=3, cutoff=0.5)
    hint = (
        f"did you mean {', '.join(matches)}?" if matches else "timm.list_models() lists them all."
    )
    return f"there is no timm model called {name!r}: {hint}"
