"""The card of a release: what its models are and were trained on, and what they reach.

A release is a folder of models, such as the package's `pretrained`. What its motions
are is written to data.json beside them when the corpora are at hand. The card is
generated from that file, from the provenance of every model and from recorded results
of these models. card.toml has the words.
"""

import json
import math
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from safetensors import safe_open

from spectral_skills import artifact
from spectral_skills.atomic import write_file
from spectral_skills.config import read_table
from spectral_skills.control import played, recorded
from spectral_skills.motion import motion_sets
from spectral_skills.motion.corpus import Corpus
from spectral_skills.plots.corpus import describe
from spectral_skills.plots.tables import Table, load, markdown
from spectral_skills.results import Result
from spectral_skills.skill.model import SkillModel
from spectral_skills.spectral.direction_file import Directions

CARD, DATA = "CARD.md", "data.json"
_WORDS = read_table(__file__)
_KINDS = ("skill", "controller", "planner")
_DIRECTIONS = "directions.safetensors"
_PLAYED = {"bases.safetensors": recorded.read, "motions.safetensors": played.read}
_KEPT = ("clips", "hours", "hash", "sources", "licences")
_OLDER = ", for the skill model"
"""What is said of a corpus that has been made anew since."""


def write_data(release: Path, folders: Sequence[Path], held_out: float) -> Path:
    """Write what the corpora of a release are, and how many clips were held out.

    What was written of others that its skill model was trained on is kept.
    """
    corpora = [Corpus.open(folder) for folder in folders]
    found = []
    unseen = motion_sets.hold_out(corpora, held_out)[1]
    for folder, corpus in zip(folders, corpora, strict=True):
        facts = describe(corpus)
        ours = sum(len(view) for view in unseen if view.hash == corpus.hash)
        kept = {name: facts[name] for name in _KEPT}
        found.append({"name": folder.name, "held_out": ours} | kept)
    now = {one["hash"] for one in found}
    for one in _described(release):
        if one["hash"] in set(_trained_on(release)) - now:
            name = one["name"].removesuffix(_OLDER) + _OLDER
            found.append(one | {"name": name})
    write_file(release / DATA, json.dumps(found, indent=2) + "\n")
    return release / DATA


def write_card(release: Path, results: Path) -> Path:
    """Write the card of a release, with the results that were measured with it."""
    write_file(release / CARD, card(release, load(results)))
    return release / CARD


def card(release: Path, results: Sequence[Result]) -> str:
    """The card's text."""
    parts = [f"# {_WORDS['title']}\n", _WORDS["opening"]]
    parts += ["## What they were trained on\n", *_data(release)]
    parts += ["## Models\n", *_models(release)]
    parts += ["## Numbers\n", *_numbers(release, results)]
    parts += ["## Limits\n", _WORDS["limits"]]
    return "\n".join(parts)


def _described(release: Path) -> list[dict[str, Any]]:
    path = release / DATA
    return json.loads(path.read_text()) if path.is_file() else []


def _trained_on(release: Path) -> list[str]:
    """Hashes of the corpora that the skill model was trained on."""
    return artifact.load_provenance(release / "skill").data_hash.split("+")


def _data(release: Path) -> list[str]:
    corpora = _described(release)
    lines = [["corpus", "clips", "of these held out", "hours", "licence", "hash"]]
    lines += [
        [
            one["name"],
            f"{one['clips']:,}",
            f"{one['held_out']:,}",
            f"{one['hours']:.2f}",
            "; ".join(one["licences"]),
            f"`{one['hash'][:8]}`",
        ]
        for one in corpora
    ]
    known = {one["hash"] for one in corpora}
    unknown = [one for one in _trained_on(release) if one not in known]
    lines += [["not described", *[""] * 4, f"`{one[:8]}`"] for one in unknown]
    sources = dict.fromkeys(source for one in corpora for source in one["sources"])
    thanks = [f"- {_WORDS['sources'][s]}" for s in sources if s in _WORDS["sources"]]
    found = [markdown(lines), ""]
    return [*found, *thanks, ""] if thanks else found


def _models(release: Path) -> list[str]:
    lines = [["model", "parameters", "MB", "frames", "hash", "made from", "command"]]
    for kind in _KINDS:
        folder = release / kind
        if not folder.is_dir():
            continue
        made = artifact.load_provenance(folder)
        digest = made.weights_hash
        if kind == "skill":  # others name it by its encoder
            digest = SkillModel.load(folder).encoder.fingerprint()
        files = list(folder.glob("weights*.safetensors"))
        lines.append(
            [
                kind,
                f"{sum(map(_parameters, files)):,}",
                _megabytes(*files),
                f"{made.frames:,}" if made.frames else "",
                f"`{digest[:8]}`",
                ", ".join(f"{k} `{v[:8]}`" for k, v in made.parents.items()),
                f"`{made.command}`",
            ]
        )
        for part in made.beside:
            files = list(folder.glob(f"{part}*.safetensors"))
            count, size = sum(map(_parameters, files)), _megabytes(*files)
            digest = f"`{made.beside[part][:8]}`"
            lines.append([f"{kind}: {part}", f"{count:,}", size, "", digest, "", ""])
    directions = Directions.load(release / _DIRECTIONS)
    about = f"{len(directions)} directions from {directions.contexts:,} contexts"
    digest, parent = directions.fingerprint()[:8], directions.encoder[:8]
    size = _megabytes(release / _DIRECTIONS)
    lines.append([about, "", size, "", f"`{digest}`", f"skill `{parent}`", ""])
    for name, read in _PLAYED.items():
        if not (path := release / name).is_file():
            continue
        digest = sha256(path.read_bytes()).hexdigest()[:8]
        about = f"{len(read(path, directions.encoder))} {_WORDS['played'][name]}"
        own = [about, "", _megabytes(path), "", f"`{digest}`", f"skill `{parent}`", ""]
        lines.append(own)
    files = [path for path in release.rglob("*") if path.name not in (CARD, DATA)]
    return [markdown(lines), "", f"All files together: {_megabytes(*files)} MB.\n"]


def _parameters(path: Path) -> int:
    with safe_open(path, framework="numpy") as file:
        return sum(math.prod(file.get_slice(n).get_shape()) for n in file.keys())


def _megabytes(*paths: Path) -> str:
    return f"{sum(p.stat().st_size for p in paths if p.is_file()) / 1e6:.1f}"


def _numbers(release: Path, results: Sequence[Result]) -> list[str]:
    """Tables of the results that name this release's controller, rounded or not."""
    made = artifact.load_provenance(release / "controller")
    controller, unrounded = made.weights_hash[:8], f"controller {made.unrounded[:8]}"
    known = {one[:8] for one in (made.weights_hash, made.unrounded) if one}
    ours = [
        r
        for r in results
        if r.run in known or any(f"controller {one}" in r.models for one in known)
    ]
    found = []
    for prefix, about in _WORDS["numbers"].items():
        tables = dict.fromkeys(r.table for r in ours if r.table.startswith(prefix))
        for table in tables:
            chosen = [
                r
                for r in ours
                if r.table == table
                and r.row in about.get("rows", [r.row])
                and r.metric in about["metrics"]
            ]
            if chosen:
                commands = dict.fromkeys(r.command for r in chosen)
                words = "; ".join(f"`{command}`" for command in commands if command)
                if made.unrounded and all(unrounded in r.models for r in chosen):
                    words += "; before the weights were rounded"
                found += [f"{table} ({words}):\n", markdown(Table.of(chosen).strings())]
                found.append("")
    return found or [f"Nothing was measured with the controller `{controller}` yet.\n"]
