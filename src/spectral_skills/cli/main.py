"""The command line. Verbs import what they need when they run, so help is instant."""

import inspect
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from spectral_skills.cli import evaluate, learn, motions, report, robot, run, skills
from spectral_skills.cli.arguments import INTERRUPTED
from spectral_skills.results import set_command

_VERBS = {
    "motions": {
        motions: "ingest, retarget, synth, corpus info, corpus list, corpus show, "
        "corpus check",
    },
    "learn": {learn: "pretrain, directions, track, adapt, collect, plan"},
    "run": {run: "demo, rollout, steer, chain, say, desk"},
    "measure": {
        evaluate: "evaluate tracking, evaluate composition, evaluate chaining, "
        "evaluate planning, evaluate readout",
        skills: "skills encode, skills bases, skills motions, skills map",
        report: "report, report skill, report tracking, report card",
    },
    "robot": {robot: "export, drive, robot-sim, doctor"},
}
GROUPS: dict[str, dict[str, Callable]] = {
    group: {
        verb: getattr(module, re.sub("[ -]", "_", verb))
        for module, verbs in modules.items()
        for verb in verbs.split(", ")
    }
    for group, modules in _VERBS.items()
}
"""Verbs by what a person wants to do."""
VERBS = {
    verb: function for group in GROUPS.values() for verb, function in group.items()
}


EXTRAS = {
    **dict.fromkeys(("warp", "mujoco_warp", "tensorboard"), "[train]"),
    **dict.fromkeys(("viser", "trimesh"), "[desk]"),
    **dict.fromkeys(("torch", "mujoco", "onnx", "matplotlib", "PIL", "jinja2"), ""),
    "cyclonedds": "[robot]",
}
"""Groups of dependencies that install these modules."""
SHARED = {
    "corpus": "Folder of the corpus; `embedded`, made on first use, needs no download.",
    "device": "cpu or cuda; by default cuda, if there is a device.",
    "film": "Draw a film too; it takes longer than the simulation.",
    "json": "Print everything as JSON and nothing else.",
    "recipe": "Name of a recipe.",
    "record": "File of results to update (docs/results.jsonl); its page is rewritten.",
    **dict.fromkeys(
        ("workers", "jobs"), "Number of processes; one per core by default."
    ),
}
"""Help of options that mean the same wherever a verb does not describe them."""
COUNTS = ("--frames", "--robots", "--probe-every", "--checkpoint-every")
"""Options that take 200M, 1.5B or 2e9 for a number."""
AXES = ("--up",)
"""Options that take -x, -y or -z, which look like options themselves."""


def usage(only: str = "") -> str:
    """Return what `spectral --help` prints, or the verbs that begin with `only`."""
    width = max(map(len, VERBS))
    lines = [
        "Spectral Skills: a skill space for humanoids, with knobs that add.",
        "",
        "usage: spectral VERB [options]        spectral VERB --help",
    ]
    for group, verbs in GROUPS.items():
        chosen = [verb for verb in verbs if verb.startswith(only)]
        if chosen:
            lines += ["", group]
        for verb in chosen:
            summary = (inspect.getdoc(VERBS[verb]) or "").splitlines()[0]
            lines.append(f"  {verb:<{width}}  {summary}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Run a verb."""
    # Threads that wait should sleep: spinning, they take the core that another
    # program's thread, or their own, needs to go on. Read when torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        _print(usage())
        return
    if arguments[0] == "--version":
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(version("spectral-skills"))
        except PackageNotFoundError:  # a robot's computer has the smaller package
            print(version("spectral-skills-robot"))
        return
    for words in (2, 1):
        verb = " ".join(arguments[:words])
        if verb in VERBS:
            set_command(["spectral", *arguments])
            _end(_run(verb, arguments[words:]))
    first = arguments[0]
    inner = [verb.split()[1] for verb in VERBS if verb.startswith(f"{first} ")]
    if inner and {"-h", "--help"} & set(arguments):
        _print(usage(f"{first} "))
        return
    if inner:
        message = f"{first} needs one of: {', '.join(inner)}"
    else:
        from difflib import get_close_matches

        close = ", ".join(get_close_matches(first, VERBS))
        message = f"unknown verb {first!r}" + (f"; close to it: {close}" * bool(close))
        message += "\n`spectral --help` lists all verbs"
    print(f"error: {message}", file=sys.stderr)
    sys.exit(1)


def _end(code: int) -> None:
    """Exit; at once where torchrun has started several processes. Their threads of
    communication outlive the group, and now and then one aborts a process whose
    interpreter is being taken down."""
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _command(verb: str, arguments: list[str]) -> tuple[Callable, list[str]]:
    """Return a verb's function as tyro sees it, and the arguments left to parse.

    Every field of a named recipe, and every path of the models, is an option.
    """
    import tyro

    function, given = VERBS[verb], {}
    flat = tyro.conf.arg(name="")
    parameters = dict(inspect.signature(function).parameters)
    summary, helps = _described(function)
    for name, parameter in parameters.items():
        if name in helps:
            shown: Any = _shown(parameter)
            described = tyro.conf.arg(help=helps[name], **shown)
            kind = Annotated[parameter.annotation, described]
            parameters[name] = parameter.replace(annotation=kind)
    if "models" in parameters:
        paths = parameters["models"]
        parameters["models"] = paths.replace(
            annotation=Annotated[paths.annotation, flat]
        )
    if "config" in parameters:
        settings, default = Annotated[Any, tyro.conf.Suppress], None
        if arguments and not arguments[0].startswith("-"):
            from spectral_skills import recipes

            given["recipe"], *arguments = arguments
            del parameters["recipe"]
            default = getattr(recipes, verb)(given["recipe"])
            settings = Annotated[type(default), flat]
        parameters["config"] = parameters["config"].replace(
            default=default, annotation=settings
        )

    def run(*args, **kwargs):
        return function(*given.values(), *args, **kwargs)

    run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore
    run.__annotations__ = {p.name: p.annotation for p in parameters.values()}
    run.__doc__ = summary
    return run, arguments


def _described(function: Callable) -> tuple[str, dict[str, str]]:
    """Return a verb's description, and the help of each of its parameters.

    Lines are joined: tyro would begin a new one wherever a docstring does.
    """
    import docstring_parser

    parsed = docstring_parser.parse(function.__doc__ or "")
    paragraphs = (parsed.description or "").split("\n\n")
    helps = {each.arg_name: each.description or "" for each in parsed.params}
    helps = {
        name: " ".join(text.split())
        for name, text in {**SHARED, **helps}.items()
        if name in inspect.signature(function).parameters
    }
    return "\n\n".join(" ".join(each.split()) for each in paragraphs), helps


def _shown(parameter: inspect.Parameter) -> dict[str, str]:
    """Return how the help shows a parameter: `NAME`, not `STR`; no default of None."""
    kind, default, shown = parameter.annotation, parameter.default, {}
    positional = parameter.kind is parameter.POSITIONAL_ONLY
    values = [each for each in get_args(kind) if each is not type(None)]
    many = get_origin(kind) is list
    if positional and get_origin(kind) is not Literal:
        name = parameter.name.upper() + " ..." * many
        shown["metavar"] = name if default is parameter.empty else f"[{name}]"
    elif len(values) == 1 and values[0] in (str, int, float, Path):
        shown["metavar"] = values[0].__name__.upper() + " ..." * many
    if default in (None, (), "") or (positional and many):
        shown["help_behavior_hint"] = ""
    return shown


def _plain(arguments: list[str]) -> list[str]:
    """Return the arguments with counts such as 200M written out, and --up=-y."""
    found: list[str] = []
    for before, word in zip(["", *arguments], arguments, strict=False):
        option, equals, value = word.rpartition("=")
        number = re.fullmatch(r"([\d.]+)(?:([kMB])|e(\d+))", value)
        if number and (option if equals else before) in COUNTS:
            power = int(number[3] or {"k": 3, "M": 6, "B": 9}[number[2]])
            word = f"{option}{equals}{round(float(number[1]) * 10**power)}"
        if before in AXES and re.fullmatch("-[xyz]", word, re.IGNORECASE):
            word = f"{found.pop()}={word}"
        found.append(word)
    return found


def _run(verb: str, arguments: list[str]) -> int:
    import tyro

    try:
        function, rest = _command(verb, _plain(arguments))
        named = arguments[: len(arguments) - len(rest)]
        prog = " ".join(["spectral", verb, *named])
        code = tyro.cli(function, args=rest, prog=prog)
    except SystemExit as stop:
        # 2 means that nothing was usable; a mistyped option is another matter.
        return 1 if stop.code == 2 else int(stop.code or 0)
    except BrokenPipeError:
        _stop_printing()
        return 0
    except ModuleNotFoundError as error:
        # Those without a module's name are our own, written for users.
        if error.name not in (None, *EXTRAS) or os.environ.get("SPECTRAL_DEBUG"):
            raise
        remedy = f"pip install 'spectral-skills{EXTRAS.get(error.name or '', '')}'"
        missing = f"{error.name} is not installed; spectral {verb} needs {remedy}"
        print(f"error: {missing if error.name else error}", file=sys.stderr)
        return 1
    except (ValueError, OSError) as error:
        # These are written for users; anything else is a bug and shows its trace.
        if os.environ.get("SPECTRAL_DEBUG"):
            raise
        print(f"error: {_message(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return INTERRUPTED
    return code or 0


def _message(error: Exception) -> str:
    """Return what an error says, in words where the system gives a number."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}"
    return str(error)


def _print(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:
        _stop_printing()


def _stop_printing() -> None:
    """Drop further output: its reader, such as `head`, has seen enough."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
