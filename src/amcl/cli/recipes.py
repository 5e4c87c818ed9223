"""`amcl recipes`: list the recipes, or show one as the file that `--config` takes."""

import sys

from amcl import recipes

USAGE = """usage: amcl recipes             list all recipes
       amcl recipes show NAME   one recipe, as a file for `pretrain --config`"""
HELP = f"""{USAGE}

List the settings that each data set and method come with, or show those of one.

Examples:
  # List all recipes.
  amcl recipes
  # Show one of them.
  amcl recipes show cifar10-simclr-amcl
  # Write one into a file, to change it there.
  amcl recipes show cifar10-simclr-amcl > mine.toml

`amcl pretrain --recipe NAME` trains by a recipe, `amcl pretrain --config
mine.toml` by the file."""


def main(args: list[str]) -> int:
    """Run the command and return the exit code."""
    if args in (["-h"], ["--help"], ["--help-all"]):
        print(HELP)
        return 0
    if args in ([], ["list"]):
        width = max(map(len, recipes.names()))
        for name in recipes.names():
            print(f"{name:<{width}}  {recipes.summary(name)}")
        print("\nA recipe with -amcl is the same with 3 heads and adaptive temperatures.")
        return 0
    if len(args) == 2 and args[0] == "show":
        try:
            print(recipes.recipe(args[1]).to_toml(), end="")
        except ValueError as error:
            print(f"amcl recipes: {error}", file=sys.stderr)
            return 2
        return 0
    print(f"amcl recipes: {' '.join(args)!r} is not understood.\n{USAGE}", file=sys.stderr)
    return 2
