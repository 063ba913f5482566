"""Tables of results: what has a column, what has a line, and which page it is on."""

from spectral_skills.plots.tables import (
    Table,
    blocks,
    load,
    number,
    pages,
    publish,
    show,
    show_tracking,
)
from spectral_skills.results import Result

WIDE = [
    Result("Wide", row, metric, value, "m", n=7, command="spectral x")
    for row in ("a", "b")
    for metric, value in (("one", 1.5), ("two", 2.0), ("three", 3.0))
]


def test_numbers_have_four_digits():
    values = (0.0, -0.0, 123.456, 12345.6, float("nan"))
    assert [number(v) for v in values] == ["0", "0", "123.5", "12,346", "–"]


def test_rows_with_the_same_metrics_become_a_wide_table(tmp_path):
    """Three numbers of a row are columns; other rows are lines of their own."""
    single = [Result("Long", "a", "time", 2.0, "s", paper="under 3")]
    publish(WIDE + single, tmp_path / "r.jsonl")
    text = (tmp_path / "r" / "other.md").read_text()
    assert text == pages(load(tmp_path / "r.jsonl"), "r")["r/other.md"]
    assert "|  | n | one (m) | two (m) | three (m) |" in text
    assert "| b | 7 | 1.5 | 2 | 3 |" in text
    assert "Measured with `spectral x`; seed 0." in text
    assert "| a: time | 2 s | under 3 | 1 |" in text
    assert "[Other](r/other.md): 2 tables" in (tmp_path / "r.md").read_text()


def test_newer_results_replace_older_ones_of_the_same_machine(tmp_path):
    """Columns of another unit are columns of their own; the paper is in brackets."""
    publish(WIDE, tmp_path / "r.jsonl")
    more = [
        Result("Wide", "c", "two", 4.0, "m", n=7, paper="5", hardware="H"),
        Result("Wide", "c", "three", 9.0, "mm", n=7, hardware="H"),
        Result("Wide", "alone", "time", 3.0, "s"),
        Result("Wide", "a", "one", 8.0, "m", n=7, command="spectral x"),
    ]
    publish(more, tmp_path / "r.jsonl")
    text = (tmp_path / "r" / "other.md").read_text()
    assert "| n | one (m) | two (m) | three (m) | three (mm) |" in text
    assert "| a | 7 | 8 | 2 | 3 |  |" in text
    assert "| c, H | 7 |  | 4 (5) |  | 9 |" in text
    assert "In brackets: the paper or the goal." in text
    assert "| alone: time | 3 s |  | 1 |" in text  # has nothing in common with them


def test_tables_go_to_the_page_of_their_topic():
    """By the longest prefix: latencies are about speed, old models in the archive."""
    names = (
        "Planning: latency",
        "Planning: pairs",
        "Tracking: x",
        "LAFAN1, PPO, 247 M",
    )
    found = pages([Result(name, "r", "m", 1.0) for name in names])
    assert list(found) == [
        "results.md",
        *(
            f"results/{topic}.md"
            for topic in ("tracking", "planning", "speed", "archive")
        ),
    ]
    assert "## Planning: latency" in found["results/speed.md"]


def test_headlines_come_from_the_results_with_their_seeds():
    table = "Composition: pass_rates"
    rows = ("target-directed", "target-directed, seed 0", "target-directed, seed 1")
    results = [Result(table, row, "all", 9.0 + i, n=40) for i, row in enumerate(rows)]
    front = pages(results)["results.md"]
    assert "goals met | 9 | 10, 11 |  | 40 | [composition](results/composition" in front
    assert front.count("\n| ") == 2  # no headline without a result


def test_rows_with_other_columns_have_a_table_of_their_own():
    """But a row that lacks a column stays."""
    results = [Result("t", row, m, 1.0) for row in ("a", "b") for m in ("x", "y", "z")]
    results += [Result("t", "all", "total", 1.0)]
    results += [Result("t", "c", "x", 1.0), Result("t", "c", "y", 1.0)]
    found = [list(dict.fromkeys(r.row for r in block)) for block in blocks(results)]
    assert found == [["a", "b", "c"], ["all"]]


def test_seeds_are_rows_of_their_own():
    results = [Result("t", "arm", "falls", i, seed=i, n=5) for i in range(2)]
    table = Table.of(results)
    assert [row.label for row in table.rows] == ["arm, seed 0", "arm, seed 1"]
    assert table.strings()[1] == ["arm, seed 0", "5", "0"]


def test_tracking_has_a_line_per_kind(capsys):
    results = [
        Result("t", "all", "success_rate", 0.955, n=20),
        Result("t", "all", "mpjpe_local_mm", 22.4, "mm", n=19),
        Result("t", "all", "contacts", 3.0, n=20),
        Result("t", "walk", "success_rate", 1.0, n=5),
    ]
    show_tracking(results)
    assert capsys.readouterr().out.splitlines() == [
        "       n  success  MPJPE-L",
        "all   20   95.5 %  22.4 mm",
        "walk   5  100.0 %        -",
        "  contacts: 3 (n 20)",
    ]


def test_shares_are_printed_as_percentages_once(capsys):
    """Whether or not they are percentages already."""
    show([Result("t", "a", "followed", 0.25), Result("t", "b", "followed", 25.0, "%")])
    assert [line.split()[2:] for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["25.0", "%"],
        ["25", "%"],
    ]
