"""Write docs/reference.md and the tree in CONTRIBUTING.md from the code.

`python docs/make_reference.py` rewrites both; a test compares them with the code.
"""

import ast
import dataclasses
import inspect
import re
import textwrap
from pathlib import Path

import spectral_skills as ss
from spectral_skills.cli.main import GROUPS, SHARED

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- tree -->\n", "<!-- end of tree -->"
INTRODUCTION = """\
# Reference

Generated from the code by `python docs/make_reference.py`. `spectral VERB --help` shows
the same. Verbs that train by a recipe (`pretrain`, `track`, `plan`) also offer every
setting of the recipe as an option: `spectral track release --help`.
"""


def page() -> str:
    """Return the whole page."""
    parts = [INTRODUCTION]
    for group, verbs in GROUPS.items():
        parts.append(f"## {group.capitalize()}\n")
        parts += [verb(name, function) for name, function in verbs.items()]
    parts.append("## Python\n\n`import spectral_skills as ss`\n")
    parts += [python(name) for name in ss.__all__]
    return "\n".join(parts)


def verb(name: str, function) -> str:
    """Return the section of a verb: its summary and a table of its options."""
    text, _, arguments = (inspect.getdoc(function) or "").partition("\nArgs:\n")
    described = SHARED | _described(arguments)
    rows = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "config":
            continue
        kind = parameter.annotation
        if dataclasses.is_dataclass(kind):
            rows += [_row(f"--{n}", d, text) for n, d, text in _fields(kind)]
            continue
        option = parameter.name.replace("_", "-")
        positional = parameter.kind is inspect.Parameter.POSITIONAL_ONLY
        shown = option.upper() if positional else f"--{option}"
        rows.append(_row(shown, parameter.default, described.get(parameter.name, "")))
    table = ["| option | default | meaning |", "|---|---|---|", *rows]
    return f"### spectral {name}\n\n{text.strip()}\n\n" + "\n".join(table) + "\n"


def _row(option: str, default, text: str) -> str:
    shown = "" if default == () else f"`{default}`"
    if default is inspect.Parameter.empty:
        shown = "required"
    return f"| `{option}` | {shown} | {text.replace('|', '/')} |"


def _described(arguments: str) -> dict[str, str]:
    """Return the descriptions below `Args:` by the names of the parameters."""
    entries = re.split(r"\n(?=\w+: )", textwrap.dedent(arguments).strip())
    pairs = (entry.partition(": ") for entry in entries)
    return {name: " ".join(text.split()) for name, _, text in pairs}


def _fields(kind: type) -> list[tuple[str, object, str]]:
    """Return name, default and docstring of every field of a group of options."""
    found = []
    for owner in reversed(kind.__mro__[:-1]):
        definition = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
        body = definition.body  # type: ignore
        for node, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                name = node.target.id
                text = (
                    ast.literal_eval(after.value) if isinstance(after, ast.Expr) else ""
                )
                found.append((name, getattr(kind, name), " ".join(text.split())))
    return found


def python(name: str) -> str:
    """Return the section of a public name."""
    value = getattr(ss, name)
    signature = re.sub(r"(-> |: )'([^']+)'", r"\1\2", str(inspect.signature(value)))
    modules = r"(spectral_skills|pathlib|collections|typing)[\w.]*\."
    signature = re.sub(modules, "", signature)
    text = inspect.getdoc(value) or ""
    return f"### ss.{name}\n\n    ss.{name}{signature}\n\n{text}\n"


def contributing() -> str:
    """Return CONTRIBUTING.md with the tree of today's files."""
    before, _, rest = CONTRIBUTING.read_text().partition(BEGIN)
    return before + BEGIN + tree() + END + rest.partition(END)[2]


def tree() -> str:
    """Return one line for every module: its name and what it is."""
    package = ROOT / "src" / "spectral_skills"
    lines = ["    src/spectral_skills/"]
    for folder in (package, *sorted(p for p in package.rglob("*") if p.is_dir())):
        modules = [p for p in sorted(folder.glob("*.py")) if p.read_text()]
        if not modules:
            continue
        if folder != package:
            lines.append(f"      {folder.relative_to(package)}/")
        for path in modules:
            indent = 6 if folder == package else 8
            lines.append(f"{' ' * indent}{path.stem:20s}{_summary(path)}")
    return "\n".join(lines) + "\n"


def _summary(path: Path) -> str:
    """Return the first sentence of a module's docstring."""
    text = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split())
    first = re.split(r"(?<=[.!?])\s", text)[0].rstrip(".")
    if len(first) > 95:
        first = re.split(r"[,;:(][^,;:(]*$", first[:95])[0].rstrip()
    return first


if __name__ == "__main__":
    PAGE.write_text(page())
    CONTRIBUTING.write_text(contributing())
