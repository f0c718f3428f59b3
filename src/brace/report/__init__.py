"""What a run says: tables for the terminal, plots, an episode's timeline and one page that holds them all.

It reads the ledger and nothing else. Nothing is exported here, so that a table never waits for matplotlib:
import `tables` and `compare` (rich, Markdown, LaTeX, CSV), `plots` and `timeline` (matplotlib), `page` or
`suite_page` (HTML) by name.
"""
