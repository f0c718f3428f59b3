"""The paper's proxy and its controller sweep, as a plugin: nothing in the house knows it but by name.

Its world, planner, compressor, rules and template are entry points of this package, as those of a package of
yours would be of yours. Everything in here is simulated, by arithmetic, as in the authors' code.
"""
