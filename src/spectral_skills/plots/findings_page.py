"""`spectral report findings`: what experiments have found, as one page.

Everything lies in the page itself: tables beside the paper's numbers, charts, and
clips of steered runs beside their bases.
"""

import base64
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tqdm import tqdm

from spectral_skills import config as configs
from spectral_skills.experiments.findings import (
    EXPERIMENTS,
    Film,
    Findings,
)
from spectral_skills.plots import charts, findings_table, html
from spectral_skills.plots.findings_film import Studio

_TITLE = "Spectral Skills: what experiments found"
_LARGEST_FILM = 600_000
_ALL_FILMS = 8_000_000
"""Bytes; a third more in the page."""
_STYLE = """
h1, h2, h3, p, li, dd { overflow-wrap: anywhere }
h3 { margin: 1.6rem 0 .4rem; font-size: 1.05rem }
.small { font-size: .88rem; color: var(--soft); max-width: none }
.cards { display: grid; gap: 1rem; margin: 1.2rem 0;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr)) }
.cards figure { margin: 0; min-width: 0 } .cards .across { grid-column: 1 / -1 }
.cards .title { padding: .7rem .9rem .3rem; margin: 0; font-weight: 600;
  color: var(--ink); max-width: none }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem }
dt { color: var(--soft) } dd { margin: 0 } code { font-size: .9em }
figure img.strip { display: none }
@media (max-width: 30rem) { main { padding: 1.5rem .9rem 3rem }
  dl { display: block } dd { margin-bottom: .5rem } }
@media (prefers-reduced-motion: reduce) { figure img.clip { display: none }
  figure img.strip { display: block } }
@page { size: A4 landscape; margin: 14mm }
@media print { :root { --ink: #000; --soft: #444; --paper: #fff; --card: #fff;
    --line: #ccc; --accent: #000 }
  body { font-size: 10pt } main { max-width: none; padding: 0 }
  .cards { grid-template-columns: 1fr 1fr }
  figure, tr { break-inside: avoid } h2, h3 { break-after: avoid }
  figure img.clip { display: none } figure img.strip { display: block } }
"""
_PAPER = (
    "Smaller, below a number, stands what the paper says about the same cell. Its "
    "controller was trained on recorded motions and run in Isaac PhysX unless a "
    "section says otherwise, so signs and proportions compare better than digits. "
    "Nothing below a number: the paper has no such number."
)
_DATA = (
    "Bases are generated as the embedded corpus is, but belong to no corpus: nothing "
    "was trained on them. A run is compared with the unsteered run of the same base. "
    "Planners execute motions of the embedded corpus that they were trained on."
)


@dataclass(frozen=True)
class Section:
    """Findings, where they were found, and how the page calls them."""

    folder: Path
    findings: Findings
    title: str
    anchor: str


def build(folders: list[Path], out: Path, films: bool = True) -> Path:
    """Write index.html from the findings in some folders; gives its path."""
    sections, troubles = _sections(folders)
    parts = _head(sections)
    parts += [html.paragraph(trouble, "trouble") for trouble in troubles]
    count = sum(len(section.findings.films) for section in sections)
    studio = Studio(min(_LARGEST_FILM, _ALL_FILMS // max(count, 1)))
    with tqdm(total=count, desc="films", disable=None if films else True) as bar:
        for section in sections:
            parts += _text(section.findings, section.title, section.anchor)
            drawn = []
            for film in section.findings.films if films else ():
                drawn.append(_film(film, section.folder, studio))
                bar.update()
            parts += _cards(drawn)
    page = out / "index.html"
    style = _STYLE + charts.STYLE + findings_table.STYLE
    html.write_page(page, _TITLE, parts, style)
    return page


def _sections(folders: list[Path]) -> tuple[list[Section], list[str]]:
    """What was found, and what could not be read."""
    found: list[tuple[Path, Findings]] = []
    troubles = []
    for folder in folders:
        files = sorted(folder.glob("*.json"))
        if not files:
            troubles.append(f"{folder}: no findings in it.")
        for path in files:
            try:
                if _is_findings(path):
                    found.append((folder, Findings.load(path)))
            except (ValueError, OSError) as error:
                troubles.append(f"Left out, for it cannot be read: {error}")
    if not found:
        where = ", ".join(map(str, folders)) or "no folder"
        raise ValueError(
            f"no findings in {where}; `spectral evaluate composition NAME --out DIR` "
            f"makes them, chaining and planning too. {' '.join(troubles)}".strip()
        )
    found.sort(key=lambda one: _place(one[1].experiment))
    names = Counter(findings.experiment for _, findings in found)
    sections = []
    for index, (folder, findings) in enumerate(found):
        title, anchor = findings.title, findings.experiment
        if names[findings.experiment] > 1:
            title, anchor = f"{title} ({folder.name})", f"{anchor}-{index}"
        sections.append(Section(folder, findings, title, anchor))
    return sections, troubles


def _place(experiment: str) -> int:
    """Where an experiment comes in the page; others come last."""
    known = experiment in EXPERIMENTS
    return EXPERIMENTS.index(experiment) if known else len(EXPERIMENTS)


def _is_findings(path: Path) -> bool:
    """Whether a file is meant to be findings; experiments may keep others beside."""
    values = configs.parse(path.read_text(), str(path))
    return isinstance(values, dict) and "experiment" in values


def _head(sections: list[Section]) -> list[str]:
    """What is on the page, and what it was measured with."""
    results = [r for section in sections for r in section.findings.results]
    against = sum(bool(r.paper) for r in results)
    lead = f"{_count(len(sections), 'experiment')}, {_count(len(results), 'number')}, "
    lead += f"{against} of them beside the paper's."
    facts = {
        "Controller": _distinct(r.run for r in results),
        "Training": _distinct(s.findings.model for s in sections),
        "Hardware": _distinct(r.hardware for r in results),
        "Data": _DATA,
        "Paper": _PAPER,
    }
    told = "".join(f"<dt>{name}</dt><dd>{escape(v)}</dd>" for name, v in facts.items())
    contents = "".join(
        f'<li><a href="#{escape(s.anchor)}">{escape(s.title)}</a></li>'
        for s in sections
    )
    return [
        html.paragraph(lead, "lead"),
        f"<dl>{told}</dl>",
        f'<nav aria-label="Contents"><ol>{contents}</ol></nav>',
    ]


def _text(findings: Findings, title: str, anchor: str) -> list[str]:
    """A section without its films."""
    parts = [f'<h2 id="{escape(anchor)}">{escape(title)}</h2>']
    if findings.note:
        parts.append(html.paragraph(findings.note))
    tables = dict.fromkeys(r.table for r in findings.results)
    for name in tables:
        if len(tables) > 1:
            parts.append(f"<h3>{escape(name)}</h3>")
        results = [r for r in findings.results if r.table == name]
        parts += findings_table.tables(results, findings.title)
    if not findings.results:
        parts.append(html.paragraph("No numbers."))
    return parts + _cards([_chart(chart) for chart in findings.charts])


def _chart(chart: charts.Chart) -> str:
    try:
        drawn = charts.draw(chart)
    except ValueError as error:
        return html.paragraph(f"Chart “{chart.title}” is left out: {error}.")
    kind = ' class="across"' if 'class="chart wide"' in drawn else ""
    note = f"<figcaption>{escape(chart.note)}</figcaption>" if chart.note else ""
    title = f'<p class="title">{escape(chart.title)}</p>'
    return f"<figure{kind}>{title}{drawn}{note}</figure>"


def _film(film: Film, folder: Path, studio: Studio) -> str:
    try:
        clip, strip, faster = studio.film(film, folder)
    except ValueError as error:
        return html.paragraph(f"Film “{film.title}” is left out: {error}.")
    played = f", played {faster:.1f} times as fast" if faster > 1.05 else ""
    alt = f"{film.title}: the unsteered base and the steered run"
    images = "".join(
        f'<img class="{kind}" alt="{escape(alt)}" src="data:image/webp;base64,'
        f'{base64.b64encode(data).decode()}">'
        for kind, data in (("clip", clip), ("strip", strip))
    )
    caption = f"{film.title}{played}."
    return f"<figure>{images}<figcaption>{escape(caption)}</figcaption></figure>"


def _cards(cards: list[str]) -> list[str]:
    """Figures side by side where there is room; sentences below them."""
    figures = [card for card in cards if card.startswith("<figure")]
    others = [card for card in cards if not card.startswith("<figure")]
    box = [f'<div class="cards">{"".join(figures)}</div>'] if figures else []
    return box + others


def _count(n: int, name: str) -> str:
    return f"{n:,} {name}{'' if n == 1 else 's'}"


def _distinct(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(value for value in values if value))
