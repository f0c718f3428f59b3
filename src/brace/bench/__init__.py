"""A sweep is a grid of runs and its table."""
