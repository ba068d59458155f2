"""`python -m benches.quality` is `multifold bench quality`."""

import argparse
import sys

from benches.quality import quality

parser = argparse.ArgumentParser("quality", description=quality.__doc__)
quality.add_arguments(parser)
sys.exit(quality.run(parser.parse_args()))
