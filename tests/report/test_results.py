"""The results page of the documentation: from records, word for word the same each time."""

import re

from paraboloid.recipes.protocol import Target
from paraboloid.report import results_page
from report import invented

GOLDEN = """\
5 claims: 2 confirmed, 1 not confirmed, 2 undecided.

## The factors of a linear network are exact

For a network with one linear layer the Kronecker-factored curvature equals the Gauss-Newton matrix.
(an invented thesis, section 3.6)

| Claim | Value | Measured | n | Published | Holds for | Verdict |
| --- | --- | ---: | ---: | --- | --- | --- |
| all entries of the two matrices agree (eq. (3.39)) | `difference` | (2.50 ± 0.33) × 10⁻¹² | 4 | equal | ≤ 1 × 10⁻⁹ | \
✓ confirmed |
| accuracy of the posterior (table 2) | `accuracy` | 0.69925 ± 0.00092 | 4 | 69.7 % | 0.69 to 0.71 | ✓ confirmed |
| it is faster than the dense matrix | `speed` | 1.038 ± 0.029 | 4 | &gt; 2× | ≥ 2 | ✗ not confirmed |
| regret stays below that of uniform play (figure 4) | `regret` | 0.400 ± 0.040 | 4 | 0.35 | ≤ 0.4 | ? undecided |

The record holds 1 more value.

Differences from the source:

- ten seeds instead of three, for an error
- float64, since the claim is about rounding

<sub>Scale laptop · paraboloid 0.2.0 at `4be1c0ffee4b` · processor An invented processor, 8 cores, cores 8, threads 2, \
memory 32 GiB · 2026-03-14 · 1 h 24 min in 3 sessions · config `5d41402abc4b`</sub>

    paraboloid run linear_factors --scale laptop --seed 0

## The factors of a linear network are exact

For a network with one linear layer the Kronecker-factored curvature equals the Gauss-Newton matrix.
(an invented thesis, section 3.6)

> This run is not finished (failed): no reason was recorded
"""


def entries():
    targets = (Target("accuracy", "accuracy | of\nthe <b>posterior</b>", "`69.7`", 0.69, 0.71),)
    return [invented.entry(), (invented.recipe(targets=targets), invented.record(state="failed"))]


def test_the_page_is_this():
    assert GOLDEN in results_page(entries())


def test_the_page_says_first_how_it_is_made_and_ends_in_one_newline():
    page = results_page(entries())
    assert page.startswith("# Results\n\n`paraboloid table --write docs/results.md` makes this page")
    assert page.endswith("\n") and not page.endswith("\n\n")
    assert results_page([]).endswith("yet.\n")


def test_the_page_is_the_same_each_time():
    assert results_page(entries()) == results_page(entries())


def test_texts_from_records_are_neither_markdown_nor_html():
    page = results_page(entries())
    assert "<b>" not in page
    row = next(line for line in page.splitlines() if "posterior&lt;" in line)
    assert r"accuracy \| of the &lt;b&gt;posterior&lt;/b&gt;" in row
    assert r"\`69.7\`" in row


def test_every_row_of_a_table_has_as_many_cells_as_its_heading():
    rows = [line for line in results_page(entries()).splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 4 + 2 + 1
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {8}
