"""The benchmarks: what `multifold bench NAME` runs, a folder for each part that is measured."""
