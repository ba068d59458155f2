"""`python -m multifold COMMAND`: the same as `multifold COMMAND`, for launchers that start modules."""

import sys

from multifold.cli import main

sys.exit(main())
