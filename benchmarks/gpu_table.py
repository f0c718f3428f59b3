"""Markdown tables of what `benchmarks/gpu.py --out FILE` wrote.

python benchmarks/gpu_table.py results/gpu/gpu_h200.jsonl
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
COLUMNS: dict[str, dict[str, Callable[[Row], object]]] = {
    "engine": {
        "model": lambda r: r["shape"], "tokens": lambda r: f"{r['tokens']:,}", "r": lambda r: r["ratio"],
        "path": lambda r: r["path"], "prefill, ms": lambda r: _ms(r["prefill_ms"]),
        "floor": lambda r: _ms(r["prefill_floor_ms"]), "×": lambda r: f"{r['prefill_x_floor']:.2f}",
        "a token, ms": lambda r: f"{r['decode_ms']:.1f}", "floor ": lambda r: f"{r['decode_floor_ms']:.1f}",
        "call, 64 new": lambda r: _ms(r["call_ms"]), "16 new": lambda r: _ms(r["call_few_ms"]),
        "last layer": lambda r: f"{r['last_layer']:,}", "first call": lambda r: _ms(r["cold_ms"]),
    },
    "generate": {
        "run": lambda r: r.get("run", ""), "tokens": lambda r: f"{r['tokens']:,}",
        "`generate`": lambda r: r["how"],
        "call, 64 new": lambda r: _ms(r["call_ms"]), "16 new": lambda r: _ms(r["call_few_ms"]),
        "first call": lambda r: _ms(r["cold_ms"]),
        "a length it has not met": lambda r: _ms(r.get("call_new_length_ms")),
    },
    "suffix": {
        "after": lambda r: f"{r['tokens']:,}", "new": lambda r: r["suffix"],
        "judged": lambda r: "yes" if r.get("noted") else "no", "ms": lambda r: _ms(r["ms"]),
        "floor": lambda r: _ms(r["floor_ms"]), "×": lambda r: f"{r['x_floor']:.2f}",
    },
    "memory": {
        "tokens": lambda r: f"{r['tokens']:,}", "r": lambda r: r["ratio"],
        "peak beside the weights, GiB": lambda r: f"{r['peak_gib']:.2f}",
        "keys and values, GiB": lambda r: f"{r['cached_gib']:.2f}",
    },
    "growth": {
        "way": lambda r: r["how"], "calls": lambda r: r["calls"], "from": lambda r: f"{r['from']:,}",
        "to": lambda r: f"{r['to']:,}", "total, ms": lambda r: _ms(r["total_ms"]),
        "P50": lambda r: _ms(r["p50_ms"]), "worst": lambda r: _ms(r["worst_ms"]),
        "compactions": lambda r: r["compactions"], "evictions": lambda r: r.get("evictions", 0),
        "peak, GiB": lambda r: f"{r['peak_gib']:.2f}",
    },
    "tail": {
        "lengths": lambda r: f"{r['tokens']:,}" if r["kind"] == "fixed" else f"{r['low']:,} to {r['high']:,}",
        "calls": lambda r: r["calls"], "P50, ms": lambda r: _ms(r["p50_ms"]),
        "P99": lambda r: _ms(r["p99_ms"]), "×": lambda r: f"{r['p99_x_p50']:.2f}",
        "worst": lambda r: _ms(r["worst_ms"]),
    },
    "same": {
        "tokens": lambda r: f"{r['tokens']:,}", "r": lambda r: r["ratio"],
        "kept by both": lambda r: f"{100 * r['kept_by_both']:.1f} %",
        "same next token": lambda r: r["same_token"],
    },
}  # fmt: skip


def _ms(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def table(rows: Iterable[Row], columns: dict[str, Callable[[Row], object]]) -> str:
    """One kind of row."""
    lines = [list(columns), ["---"] * len(columns)]
    lines += [[str(column(row)) for column in columns.values()] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Print a table for each kind of row there is."""
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    print(", ".join(dict.fromkeys(f"{row['card']}, torch {row['torch']}" for row in rows)))
    for what, columns in COLUMNS.items():
        chosen = sorted(
            (row for row in rows if row["what"] == what),
            key=lambda row: (row["shape"], row.get("path", ""), row.get("tokens", 0), -row.get("ratio", 0)),
        )
        if chosen:
            print(f"\n### {what}\n\n{table(chosen, columns)}")


if __name__ == "__main__":
    main()
