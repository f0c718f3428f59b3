"""The paper's proxy and its controller sweep, as a plugin: nothing in the house knows it but by name.

Its world, planner, compressor, rules, template and suite are entry points of this package, as those of a
package of yours would be of yours. Everything in here is simulated, by arithmetic, as in the authors' code.
"""

from pathlib import Path

SWEEP = Path(__file__).with_name("sweep.yaml")
"""The paper's controller sweep: `brace bench proxy`."""
