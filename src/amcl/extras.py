"""Optional packages, and how to install them."""

from importlib.util import find_spec


def missing(*packages: str) -> list[str]:
    """Return the packages that are not installed.

    >>> missing("torch", "no_such_package")
    ['no_such_package']
    """
    return [name for name in packages if find_spec(name) is None]


def needed(what: str, packages: str, extra: str) -> str:
    """Return the message for something whose packages are not installed.

    The command names a checkout, because the package is on no index, where `amcl` is another one.

    >>> print(needed("--wandb", "wandb", "wandb"))
    --wandb needs wandb, which is not installed: run pip install '.[wandb]' in a checkout of amcl.
    """
    return (
        f"{what} needs {packages}, which is not installed: run pip install '.[{extra}]' in a "
        "checkout of amcl."
    )
