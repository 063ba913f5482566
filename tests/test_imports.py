"""Imports point one way, and importing the package costs and changes nothing."""

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "spectral_skills"

# A room may import from rooms of a lower rank, and from itself.
RANKS = {
    **dict.fromkeys(
        ("config", "atomic", "distributed", "quaternion", "results", "workers"), 0
    ),
    **dict.fromkeys(("artifact", "rotation", "robot"), 1),
    **dict.fromkeys(("runs", "updates"), 2),
    "motion": 2,
    "skill": 3,
    "spectral": 4,
    "physics": 4,
    "tracking": 5,
    "control": 6,
    "planner": 7,
    "models": 7.5,
    "experiments": 8,
    "plots": 9,
    "runtime": 10,
    "desk": 11,
    "recipes": 12,
    "cache": 0,
    "doctor": 13,
    "api": 14,
    "cli": 15,
}
FORBIDDEN = {"mjlab", "rsl_rl", "torchvision"}


def room(module: str) -> str:
    return module.split(".")[1]


def imports(path: Path) -> set[str]:
    """All modules a file imports, at the top or inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            if module == "spectral_skills":
                found.update(f"{module}.{alias.name}" for alias in node.names)
            else:
                found.add(module)
    return found


def sources() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py") if p.name != "__init__.py")


def own_name(path: Path) -> str:
    relative = path.relative_to(PACKAGE.parent).with_suffix("")
    return ".".join(relative.parts)


def test_every_room_has_a_rank():
    """A new room must say where it stands."""
    assert {room(own_name(p)) for p in sources()} <= set(RANKS)


def test_imports_point_downwards():
    """No room imports one of its own rank or above."""
    wrong = []
    for path in sources():
        here = room(own_name(path))
        for module in imports(path):
            if not module.startswith("spectral_skills."):
                continue
            there = room(module)
            if there != here and RANKS[there] >= RANKS[here]:
                wrong.append(f"{own_name(path)} imports {module}")
    assert not wrong


def test_no_cycles_between_modules():
    """Following imports at the top of modules never comes back."""
    graph: dict[str, set[str]] = {}
    known = {own_name(p) for p in sources()}
    for path in sources():
        tree = ast.parse(path.read_text())
        tops = ast.Module(
            [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)], []
        )
        targets = set()
        for node in tops.body:
            if isinstance(node, ast.ImportFrom) and node.module:
                targets.add(node.module)
                targets.update(f"{node.module}.{a.name}" for a in node.names)
            elif isinstance(node, ast.Import):
                targets.update(a.name for a in node.names)
        graph[own_name(path)] = targets & known
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join((*trail, module))
        if module in done:
            return
        for target in graph[module]:
            visit(target, (*trail, module))
        done.add(module)

    for module in graph:
        visit(module, ())


def test_forbidden_packages_are_never_imported():
    """mjlab is a source of files, not of code; torchvision may not even import."""
    for path in sources():
        tops = {module.split(".")[0] for module in imports(path)}
        assert not tops & FORBIDDEN, f"{path} imports {tops & FORBIDDEN}"


def test_init_files_are_empty():
    """Importing a room runs nothing; the package's own lists its public names."""
    for path in PACKAGE.glob("*/**/__init__.py"):
        assert path.read_text() == "", path


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        # Help is instant because the command line needs the standard library alone.
        ("spectral_skills.cli.main", ("numpy", "torch", "tyro", "mujoco")),
        # What the robot's runtime uses needs NumPy.
        ("spectral_skills.control.mixer", ("torch", "mujoco")),
        ("spectral_skills.spectral.direction_file", ("torch", "mujoco")),
        ("spectral_skills.spectral.catalogue", ("torch", "mujoco")),
        ("spectral_skills.control.loop", ("torch", "mujoco")),
        ("spectral_skills.control.session", ("torch", "mujoco")),
        ("spectral_skills.control.simulated", ("torch",)),
        # Nor does what drives a robot, simulates one or shows one need torch.
        ("spectral_skills.runtime.drive", ("torch", "mujoco")),
        ("spectral_skills.runtime.robot_sim", ("torch", "cyclonedds")),
        ("spectral_skills.desk.page", ("torch",)),
    ],
)
def test_light_modules_import_nothing_heavy(module, heavy):
    """Importing them, and asking the first for help, loads none of these."""
    code = (
        f"import sys; import {module} as m; getattr(m, 'usage', str)(); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout.strip() == "[]", out.stdout + out.stderr


def test_a_class_name_means_one_thing():
    """No two modules define a public class of the same name."""
    owners: dict[str, list[str]] = {}
    for path in sources():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                owners.setdefault(node.name, []).append(own_name(path))
    assert not {name: where for name, where in owners.items() if len(where) > 1}


def test_tables_are_read_where_the_locale_is_ascii():
    """Package files are UTF-8 on every computer."""
    code = (
        "from spectral_skills import cache; cache.code_hash('runtime/export.py'); "
        "from spectral_skills.desk import controls; controls._template(); "
        "from spectral_skills.experiments import findings; findings._table('paper'); "
        "from spectral_skills.planner.phrases import PATTERNS; "
        "assert PATTERNS.negated.search('don\\u2019t walk')"
    )
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    subprocess.run(
        [sys.executable, "-c", code], env=os.environ | ascii_only, check=True
    )


def test_every_table_and_template_is_packaged():
    """Files that are not Python match a pattern of package-data."""
    settings = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["spectral_skills"]
    packaged = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    for path in PACKAGE.rglob("*"):
        if path.is_file() and path.suffix not in (".py", ".pyc"):
            assert path in packaged, path
