"""Reports of recorded runs: one HTML file, the results page of the documentation, and rows for a terminal.

    write(path, entries)      a self-contained page; needs matplotlib: pip install "paraboloid[cli]"
    results_page(entries)     markdown
    verdict_rows(entries)     claims beside measurements, as text

`entries` are pairs of a recipe and one of its records. Everything shown comes from the records.
"""

from paraboloid.report.page import write
from paraboloid.report.results import results_page
from paraboloid.report.verdicts import Entry, VerdictRow, verdict_rows

__all__ = ["Entry", "VerdictRow", "results_page", "verdict_rows", "write"]
