"""A page of our own: no script, no request, one style for every report."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from spectral_skills.atomic import write_file

_STYLE = """
:root { color-scheme: light dark; --ink: #1b2530; --soft: #5d6b7a; --paper: #fbfbfa;
  --card: #fff; --line: #e3e6ea; --accent: #0b6e99; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7ebef; --soft: #9aa7b4;
  --paper: #14181c; --card: #1c2227; --line: #2c343b; --accent: #59b8e0; } }
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif }
main { max-width: 1100px; margin: 0 auto; padding: 2.5rem 1.25rem 4rem }
h1 { font-size: 2rem; line-height: 1.15; margin: 0 0 .4rem }
h2 { margin: 2.6rem 0 .6rem; font-size: 1.25rem }
p { max-width: 70ch } .lead { color: var(--soft); font-size: 1.1rem }
figure { margin: 1rem 0 2rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; overflow: hidden }
figure img { display: block; width: 100%; height: auto; background: #fff }
figcaption { padding: .6rem .9rem; color: var(--soft); font-size: .92rem }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: .8rem 1rem; overflow-x: auto; font-size: .88rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
td, th { text-align: left; padding: .35rem .9rem .35rem 0;
  border-bottom: 1px solid var(--line); vertical-align: top }
.numbers td + td, .numbers th + th { text-align: right }
.numbers th { font-size: .85rem; vertical-align: bottom }
a { color: var(--accent) }
"""


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text."""
    return (
        f'<p class="{escape(kind)}">{escape(text)}</p>'
        if kind
        else (f"<p>{escape(text)}</p>")
    )


def heading(text: str) -> str:
    """A section heading."""
    return f"<h2>{escape(text)}</h2>"


def terminal(text: str) -> str:
    """Output of a command, as it looked."""
    return f"<pre>{escape(text)}</pre>"


def figure(picture: str, caption: str) -> str:
    """A picture beside the page, with its caption."""
    return (
        f'<figure><img src="{escape(picture)}" alt="{escape(caption)}" loading="lazy">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """A table of plain text; of the kind `numbers`, all but the first column are."""

    def line(cells: Sequence[str], tag: str) -> str:
        inner = "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells)
        return f"<tr>{inner}</tr>"

    body = "".join(line(row, "td") for row in rows)
    opening = f'<table class="{escape(kind)}">' if kind else "<table>"
    return f"{opening}{line(header, 'th')}{body}</table>"


def write_page(path: Path, title: str, parts: Sequence[str], style: str = "") -> None:
    """Write a whole page, in the usual style and with more of it."""
    content = "\n".join(parts)
    write_file(
        path,
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}{style}</style></head>"
        f"<body><main>\n<h1>{escape(title)}</h1>\n{content}\n</main></body></html>\n",
    )
