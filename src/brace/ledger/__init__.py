"""The ledger: what every step, call and episode cost, written by all and read by the report.

Writing needs only what is exported here. Reading needs polars and lives in the submodules, to be imported
by name: `reader` (a run directory into tables, and into parquet), `metrics` (the figures), `differences`
(between two runs) and `audits` (why they are so).
"""

from brace.ledger.manifest import (
    Manifest,
    add_remark,
    check_schema,
    describe_run,
    read_manifest,
    write_manifest,
)
from brace.ledger.records import (
    SCHEMA,
    Call,
    Episode,
    Fallback,
    LatencyKind,
    Phase,
    Record,
    Shard,
    Status,
    Step,
)
from brace.ledger.writer import LedgerWriter

__all__ = [
    "SCHEMA",
    "Call",
    "Episode",
    "Fallback",
    "LatencyKind",
    "LedgerWriter",
    "Manifest",
    "Phase",
    "Record",
    "Shard",
    "Status",
    "Step",
    "add_remark",
    "check_schema",
    "describe_run",
    "read_manifest",
    "write_manifest",
]
