"""`brace demo`: the main comparison in its short form, then everything else once, on the proxy world."""

from __future__ import annotations

import shutil
from pathlib import Path

from rich.console import Console

from brace.bench.pages import PAGE
from brace.cli.bench import bench
from brace.cli.options import Out
from brace.cli.reading import audit, export, replay, report
from brace.cli.run import run
from brace.errors import LedgerError
from brace.ledger.manifest import MANIFEST


def demo(out: Out = Path("runs/demo")) -> None:
    """The quick snapshot on real worlds; then each other command once, and the proxy's sweep. A few minutes.

    [dim]brace demo --out runs/demo[/]
    """
    console = Console()
    _clear(out)
    brace, no_brace = out / "brace", out / "no-brace"

    console.rule("snapshot: the paper's main comparison, one episode of each, with the embedded planner")
    bench("snapshot", quick=True, out=out / "snapshot")
    console.rule("run: the same rehearsal with BRACE and without")
    run("rehearsal", out=brace)
    run("rehearsal-no-brace", out=no_brace)
    console.rule("report")
    report([brace, no_brace], html=out / "report.html")
    console.rule("audit: why were calls late, what became of suppressed triggers")
    audit(brace)
    console.rule("replay: every decision again")
    replay(brace)
    console.rule("export")
    export(brace, parquet=brace / "parquet")
    console.rule("proxy: the paper's controller sweep, 5 of its 60 episodes a row")
    bench("proxy", quick=True, out=out / "proxy", jobs=2)
    console.print(f"open in a browser: {out / 'snapshot' / PAGE}, {out / 'report.html'}", highlight=False)


def _clear(out: Path) -> None:
    """Begin afresh, but remove nothing that is not an earlier demo."""
    if not out.exists():
        return
    # The snapshot comes first: a demo that was interrupted may have nothing else.
    ours = (out / "brace" / MANIFEST).exists() or any((out / "snapshot").glob(f"*/{MANIFEST}"))
    if any(out.iterdir()) and not ours:
        raise LedgerError(f"{out} holds something that is not an earlier demo; choose another --out")
    shutil.rmtree(out)
