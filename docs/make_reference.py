"""Write docs/reference.md from the code: all verbs, options and public names.

`python docs/make_reference.py` rewrites the page; a test compares it with the code.
"""

import ast
import dataclasses
import inspect
import re
import textwrap
from pathlib import Path

import spectral_skills as ss
from spectral_skills.cli.main import GROUPS

PAGE = Path(__file__).parent / "reference.md"
INTRODUCTION = """\
# Reference

Generated from the code by `python docs/make_reference.py`. `spectral VERB --help` shows
the same. Verbs that train by a recipe (`pretrain`, `track`, `plan`) also offer every
setting of the recipe as an option: `spectral track base --help`.
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
    described = _described(arguments)
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
    shown = "required" if default is inspect.Parameter.empty else f"`{default}`"
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


if __name__ == "__main__":
    PAGE.write_text(page())
