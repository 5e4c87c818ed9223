"""`python -m amcl` is `amcl`."""

import sys

from amcl.cli import main

if __name__ == "__main__":
    sys.exit(main())
