"""What the documents show can be done: commands parse, and what they name is there."""

import ast
import importlib
import importlib.util
import inspect
import re
import shlex
import textwrap
import tomllib
from pathlib import Path

import pytest

import spectral_skills as ss
from spectral_skills.cli import main as cli
from spectral_skills.plots.tables import _layout, load, pages
from spectral_skills.recipes import PRETRAIN, TRACK

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "spectral_skills"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if p.parent.name != "results"),
]


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


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_name_files_that_exist(path):
    """Files of the package, of tests and of benchmarks, and what stands in them."""
    folder = PACKAGE
    for name, inside in re.findall(r"`([\w/]+\.py)(?:: (\w+))?`", path.read_text()):
        # A name without a folder is beside the one before.
        tried = [ROOT / name, PACKAGE / name, folder / name]
        found = [path for path in tried if path.exists()]
        assert found, name
        folder = found[0].parent
        defined = rf"^(?:def |class |){inside}\b"
        assert re.search(defined, found[0].read_text(), re.M), f"{name}: {inside}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_python_in_pages_imports_what_exists(path):
    """Blocks of Python compile, and the names they import are there."""
    for block in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL):
        tree = ast.parse(textwrap.dedent(block))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and "spectral" in (node.module or ""):
                module = importlib.import_module(node.module or "")
                assert all(hasattr(module, alias.name) for alias in node.names)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.value.id == "ss":
                    assert node.attr in ss.__all__


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_use_plain_words(path):
    """No commands that are gone, and no words that readers stumbled over."""
    gone = r"spectral bench|\b(?:foretold|told|tells|made time|left away|comes of)\b"
    assert not re.findall(gone, " ".join(path.read_text().split()))


def test_the_readme_fits_two_screens():
    assert len((ROOT / "README.md").read_text().splitlines()) < 100


def test_the_reference_is_generated_from_the_code():
    """`python docs/make_reference.py` writes it."""
    spec = importlib.util.spec_from_file_location(
        "make_reference", ROOT / "docs" / "make_reference.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text() == module.page()
    assert module.CONTRIBUTING.read_text() == module.contributing()


CLAIMS = tomllib.loads((ROOT / "docs" / "claims.toml").read_text())["claim"]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["text"][:40])
def test_numbers_in_pages_are_those_of_the_results(claim):
    """A number that a page states comes from docs/results.jsonl."""
    found = [
        result.value * claim.get("times", 1)
        for result in load(ROOT / "docs" / "results.jsonl")
        if (result.table, result.row, result.metric)
        == (claim["table"], claim["row"], claim["metric"])
        and claim.get("seed", result.seed) == result.seed
        and claim.get("hardware", "") in result.hardware
    ]
    assert len(found) == 1, f"{len(found)} results for {claim}"
    stated = claim["text"].format(found[0])
    for page in claim["pages"]:
        assert stated in " ".join((ROOT / page).read_text().split()), stated


@pytest.mark.parametrize(
    ("document", "recipes"), [("controller.md", TRACK), ("skill_space.md", PRETRAIN)]
)
def test_tables_of_recipes_are_whole(document, recipes):
    """Each recipe is named, and ablations of skill spaces together."""
    text = (ROOT / "docs" / "tutorials" / document).read_text()
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
