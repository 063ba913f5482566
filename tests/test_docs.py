"""What the documents show can be done: commands parse, and what they name is there."""

import inspect
import re
import shlex
from pathlib import Path

import pytest

from spectral_skills.cli import main as cli
from spectral_skills.plots.tables import _layout, load, pages
from spectral_skills.recipes import PRETRAIN
from spectral_skills.tracking.recipes import TRACK

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "spectral_skills"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _commands() -> list[str]:
    """Every line of `spectral` in a block of code, but for outlines of one."""
    found = []
    for path in PAGES:
        text = path.read_text().replace("\\\n", " ").replace(" NAME ", " dose ")
        lines = re.findall(r"^ {4}(?:spectral|torchrun .*\)) (.*)$", text, re.MULTILINE)
        found += [line for line in lines if not re.search(r"\.\.\. |\[", line)]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("command", _commands())
def test_commands_are_understood(command, monkeypatch):
    """Verb, recipe, options and their values; nothing is run."""
    calls = []

    def stand_in(function):
        def noted(*args, **kwargs):
            calls.append((args, kwargs))

        noted.__signature__ = inspect.signature(function)  # type: ignore
        noted.__annotations__ = function.__annotations__
        noted.__doc__ = function.__doc__
        return noted

    stand_ins = {verb: stand_in(function) for verb, function in cli.VERBS.items()}
    monkeypatch.setattr(cli, "VERBS", stand_ins)
    arguments = shlex.split(command, comments=True)
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 0
    assert len(calls) == (not {"-h", "--help"} & set(arguments))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text())
    for link in links:
        assert "://" in link or (path.parent / link).exists(), link


def test_the_map_names_what_is_there():
    """Files of the package and of the tests, and what stands in them."""
    text = (ROOT / "docs" / "paper_map.md").read_text()
    named = re.findall(r"`([\w/]+\.py)(?:: (\w+))?`", text)
    assert len(named) > 50
    folder = PACKAGE
    for name, inside in named:
        # A name without a folder is beside the one before.
        tried = [ROOT / name, PACKAGE / name, folder / name]
        found = [path for path in tried if path.exists()]
        assert found, name
        folder = found[0].parent
        assert inside in found[0].read_text(), f"{name}: {inside}"


@pytest.mark.parametrize(
    ("document", "recipes"), [("tracking.md", TRACK), ("skill_space.md", PRETRAIN)]
)
def test_tables_of_recipes_are_whole(document, recipes):
    """Each recipe is named, and ablations of skill spaces together."""
    text = (ROOT / "docs" / document).read_text()
    for name in recipes:
        assert f"`{name}`" in text or name.startswith("ablation-"), name


def test_pages_of_results_are_generated_from_their_file():
    """The front page fits one screen, and no headline is missing."""
    results = load(ROOT / "docs" / "results.jsonl")
    wanted = pages(results)
    for name, text in wanted.items():
        assert (ROOT / "docs" / name).read_text() == text, name
    written = (ROOT / "docs" / "results").glob("*.md")
    assert {f"results/{path.name}" for path in written} | {"results.md"} == set(wanted)
    front = wanted["results.md"]
    assert len(front.splitlines()) < 50
    for headline in _layout()["headlines"]:
        assert f"| {headline['what']} |" in front
    assert "results/other.md" not in wanted
