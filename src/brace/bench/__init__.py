"""A suite is a grid of runs, its table and its page."""
