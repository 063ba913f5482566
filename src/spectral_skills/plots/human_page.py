"""The page of a retargeted corpus: how good it is, films of it, and every clip."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator
from tqdm import tqdm

from spectral_skills.experiments.corpus_check import groups
from spectral_skills.motion.corpus import FPS, Corpus
from spectral_skills.motion.corpus_writer import Refusal
from spectral_skills.motion.human.quality import pooled
from spectral_skills.plots import charts, film, human
from spectral_skills.plots.human_sheet import (
    MEASURES,
    TEXTS,
    quality_line,
    read_quality,
)
from spectral_skills.plots.page import Part, Section, cells, embedded, text, write
from spectral_skills.workers import in_order

FILM_SIZE = (288, 176)
FILMS = 24
"""Number of clips that are filmed to show the kinds."""
WORST = 2
"""Number of clips that are filmed for being worst by a measure."""
_LENGTH_S, _STEP = 2.8, 6
"""Of a film, and frames from one picture to the next."""
_LARGEST_FILM = 160_000
_BINS = 24


class Shown(NamedTuple):
    """A clip of the page: what is filmed of it, and why."""

    index: int
    start: int
    end: int
    why: str = ""


def write_page(
    corpus: Corpus | Path,
    out: Path,
    refusals: Sequence[Refusal] = (),
    workers: int | None = None,
) -> Path:
    """Write one file, complete in itself, about a retargeted corpus; gives its path."""
    label = "" if isinstance(corpus, Corpus) else corpus.name
    corpus = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
    if corpus.human(0) is None:
        raise ValueError(
            "this corpus has no persons beside its clips; `spectral retarget` makes "
            "one that has"
        )
    table, kinds = Measured(corpus), groups(corpus)
    chosen = spread(kinds, table.rank, FILMS)
    best = [_window(corpus, i, int(corpus.lengths[i]) // 2) for i in chosen]
    bad = list(table.worst(WORST))
    films = Films(corpus, [*best, *bad], workers)
    sections = {
        "How good it is": [text(TEXTS["quality"]), *table.parts()],
        "All kinds": [text(TEXTS["kinds"]), films.cards(best, kinds)],
        "Worst clips": [text(TEXTS["worst"]), films.cards(bad, kinds)],
        "Refused": _refused(refusals),
        "All clips": [text(TEXTS["clips"]), table.all_clips(kinds)],
    }
    if not bad:
        del sections["Worst clips"]
    lead = f"{len(corpus):,} clips, {corpus.hours:.2f} hours, made from people's motion"
    lead += f"; {len(refusals):,} refused." if refusals else "."
    write(
        out,
        title=f"Human motion on the G1: {label}".removesuffix(": "),
        lead=lead,
        sections=[
            Section(heading, f"part-{i}", parts)
            for i, (heading, parts) in enumerate(sections.items())
        ],
        opening=[text(TEXTS["page"])],
        facts=_facts(corpus),
    )
    return out


def _facts(corpus: Corpus) -> dict[str, str]:
    entries = [corpus.entry(i) for i in range(len(corpus))]
    columns = {"Source": "source", "Licence": "licence", "Skeleton": "skeleton"}
    facts = {"Corpus": corpus.hash}
    for name, column in columns.items():
        found = dict.fromkeys(getattr(entry, column) for entry in entries)
        facts[name] = "; ".join(filter(None, found))
    return {name: words for name, words in facts.items() if words}


def spread(kinds: Sequence[str], rank: np.ndarray, most: int) -> list[int]:
    """Clips of every kind, of large kinds more, from best to worst in each."""
    own = {kind: [i for i, k in enumerate(kinds) if k == kind] for kind in set(kinds)}
    order = sorted(own, key=lambda kind: (-len(own[kind]), kind))[:most]
    shares = dict.fromkeys(order, 1)
    for _ in range(most - len(order)):
        # The next one goes to the kind of which the smallest share is shown.
        open_ = [kind for kind in order if shares[kind] < len(own[kind])]
        if not open_:
            break
        shares[min(open_, key=lambda kind: shares[kind] / len(own[kind]) ** 0.5)] += 1
    chosen = []
    for kind in order:
        ranked = sorted(own[kind], key=lambda i: (rank[i], i))
        places = (np.arange(shares[kind]) + 0.5) / shares[kind] * len(ranked)
        chosen += [ranked[int(place)] for place in places]
    return chosen


def _window(corpus: Corpus, index: int, middle: int, why: str = "") -> Shown:
    frames, length = int(corpus.lengths[index]), round(_LENGTH_S * FPS)
    start = int(np.clip(middle - length // 2, 0, max(frames - length, 0)))
    return Shown(index, start, min(start + length, frames), why)


class Measured:
    """The measures of all clips of a corpus that have some."""

    def __init__(self, corpus: Corpus):
        self.corpus = corpus
        self.entries = [corpus.entry(i) for i in range(len(corpus))]
        self.quality = [read_quality(entry.quality) for entry in self.entries]
        self.values = {
            key: np.array([found.get(key, np.nan) for found in self.quality])
            for key in MEASURES
        }
        ranks = [
            np.argsort(np.argsort(np.nan_to_num(self.values[key])))
            for key, measure in MEASURES.items()
            if measure.large == "bad"
        ]
        self.rank = np.mean(ranks, axis=0)
        """(clips,) from good to bad, by all measures of which much is bad."""

    def worst(self, count: int) -> Iterator[Shown]:
        """The clips that are worst by each measure, each clip once."""
        seen = set()
        for key, measure in MEASURES.items():
            values = np.nan_to_num(self.values[key])
            for index in np.argsort(-values, kind="stable")[:count].tolist():
                if measure.at and values[index] > 0 and index not in seen:
                    seen.add(index)
                    frame = self.quality[index].get("worst", {}).get(measure.at, 0)
                    why = f"{measure.heading} {measure.words(float(values[index]))}"
                    yield _window(self.corpus, index, frame, why)

    def parts(self) -> list[Part]:
        lines = [["", "all frames", "median clip", "95th percentile", "worst clip", ""]]
        for key, measure in MEASURES.items():
            known = np.isfinite(self.values[key])
            if known.any():
                marks = (50, 95, 100) if measure.large == "bad" else (50, 5, 0)
                overall = pooled([q for q in self.quality if key in q], key)
                numbers = overall, *np.percentile(self.values[key][known], marks)
                words = [measure.words(float(number)) for number in numbers]
                lines.append([measure.heading, *words, measure.means])
        if len(lines) == 1:
            return [text("No clip of this corpus has been measured.")]
        figure = {"kind": "figure", "svg": self._histograms(), "wide": True}
        caption = "Number of clips by each measure; the last bar has all beyond it."
        return [cells(lines, "numbers told"), {**figure, "caption": caption}]

    @charts.styled
    def _histograms(self) -> str:
        found = {key: v[np.isfinite(v)] for key, v in self.values.items()}
        shown = [key for key, v in found.items() if len(v) and np.ptp(v) > 0]
        deep = max(1, -(-len(shown) // 4))
        layout = ConstrainedLayoutEngine(h_pad=0.12, w_pad=0.08)
        figure = Figure((1040 / 72, 160 * deep / 72), layout=layout)
        for number, key in enumerate(shown):
            measure, axes = MEASURES[key], figure.add_subplot(deep, 4, number + 1)
            values = measure.factor * found[key]
            low, high = np.percentile(values, (1, 99))
            low, high = (0.0, high) if measure.large == "bad" else (low, values.max())
            edges = np.linspace(low, max(high, low + 1e-6), _BINS + 1)
            axes.hist(values.clip(low, edges[-1]), edges, color=charts.COLOURS[0])
            axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
            axes.set_title(f"{measure.heading} ({measure.unit})")
        alt = f"Histograms of {', '.join(MEASURES[key].heading for key in shown)}."
        return charts.svg(figure, alt)

    def all_clips(self, kinds: list[str]) -> Part:
        heads = ["clip", "kind", "text", "s"]
        heads += [f"{m.heading} ({m.unit})" for m in MEASURES.values()]
        lines = []
        for i, entry in enumerate(self.entries):
            line = [
                entry.name,
                kinds[i],
                _first(entry.text),
                f"{entry.length / FPS:.1f}",
            ]
            for key, measure in MEASURES.items():
                value = self.values[key][i]
                line.append(measure.number(value) if np.isfinite(value) else "")
            lines.append(line)
        return sortable(heads, lines)


class Films:
    """Films of clips, drawn by several processes."""

    def __init__(self, corpus: Corpus, shown: list[Shown], workers: int | None):
        self.corpus = corpus
        wanted = list(dict.fromkeys((s.index, s.start, s.end) for s in shown))
        jobs = (self._job(*one) for one in wanted)
        many = workers if len(wanted) > 8 else 1
        drawn = tqdm(
            in_order(draw_film, jobs, many),
            desc="films",
            unit="film",
            total=len(wanted),
            disable=None,
        )
        self.drawn = dict(zip(wanted, drawn, strict=True))

    def _job(self, index: int, start: int, end: int) -> human.Pair:
        pair = human.Pair.of_clip(self.corpus, index)
        assert pair is not None
        return pair.part(start, end)

    def cards(self, shown: list[Shown], kinds: list[str]) -> Part:
        return {
            "kind": "cards",
            "look": "films",
            "cards": [self._card(one, kinds[one.index]) for one in shown],
        }

    def _card(self, one: Shown, kind: str) -> Part:
        entry = self.corpus.entry(one.index)
        seconds = f"{one.start / FPS:.1f} to {one.end / FPS:.1f} s"
        if one.end - one.start < entry.length:
            seconds += f" of {entry.length / FPS:.1f} s"
        found = one.why or quality_line(entry.quality, short=True)
        alt = f"{entry.name}: the person and the robot beside it"
        return {
            "kind": "figure",
            "title": entry.name,
            "images": embedded(alt, *self.drawn[one.index, one.start, one.end]),
            "caption": f"{_first(entry.text)}\n{kind}, {seconds}\n{found}",
        }


def draw_film(pair: human.Pair) -> tuple[bytes, np.ndarray]:
    """A film of a pair, and a few pictures of it side by side."""
    frames = np.arange(0, pair.frames, _STEP)
    drawn = human.shots(pair, frames, FILM_SIZE, film_step=_STEP)
    few = drawn[:: max(1, len(drawn) // 3)][:3]
    clip = film.webp_bytes(drawn, _STEP / FPS, _LARGEST_FILM)
    return clip, np.concatenate(few, axis=1)


def _first(words: str) -> str:
    return words.partition("\n")[0]


def sortable(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> Part:
    """A table whose first three columns are words and the others numbers."""
    return {"kind": "sortable", "heads": heads, "lines": lines, "words": 3}


def _refused(refusals: Sequence[Refusal]) -> list[Part]:
    if not refusals:
        return [text("Nothing was refused.")]
    kinds = Counter(refusal.kind for refusal in refusals).most_common()
    counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds)
    lines = [(Path(r.file).name, r.kind, _first(r.reason)) for r in refusals]
    table = sortable(("motion", "kind", "reason"), lines)
    return [text(f"{TEXTS['refused']} {counts}."), table]
