"""The verb that tells a robot what to do. It imports what it needs when it runs."""

from pathlib import Path

from spectral_skills.cli.planning import matched
from spectral_skills.cli.shared import NOTHING_USABLE

_BASE = Path("base")


def say(
    text: str,
    /,
    *,
    planner: Path = _BASE,
    controller: Path = _BASE,
    skill: Path = _BASE,
    directions: Path | None = _BASE,
    seconds: float | None = None,
    every: int = 30,
    seed: int = 0,
    out: Path | None = None,
    film: bool = True,
    json: bool = False,
) -> int:
    """Tell a standing robot what to do, in words, and see what it makes of them.

    `spectral say "walk forward, then turn left and wave"`. What is far from everything
    that the planner has learned is not guessed: the robot stands meanwhile. The exit
    code is 2 if nothing was understood.

    Args:
        text: What to do; `then` is for one after the other, `for 3 seconds` for how
            long.
        planner: Planner; `base` is the one that comes with the package.
        controller: Controller it was trained for; `base` comes with the package.
        skill: Skill model of both; `base` comes with the package.
        directions: File of `spectral directions`, for wishes such as `higher steps`;
            `base` comes with the package, None for none.
        seconds: Length of each step that does not tell its own; by default as long as
            its motion takes, 2 s to 6 s.
        every: Control steps after which is planned anew.
        seed: Of the noise that plans begin with.
        out: Folder for the record (.npz), the skills (.npz), the picture and the film.
        film: Draw a film too; it takes longer than the simulation.
        json: Print everything as JSON and nothing else.
    """
    from spectral_skills.experiments.spoken import speak
    from spectral_skills.planner.text import text_encoder
    from spectral_skills.plots import spoken_run
    from spectral_skills.spectral.direction_file import Directions

    if out is not None and out.is_file():
        raise ValueError(f"{out}: a file; name a folder")
    actor, found = matched(planner, controller, skill, "cpu")
    knobs = None
    if directions is not None and found.config.output == "skill":
        knobs = Directions.load(directions)
    more = {"every": every, "seconds": seconds, "seed": seed}
    spoken = speak(actor, found, text_encoder(), knobs, text, **more)
    if json:
        print(spoken_run.as_json(spoken))
    else:
        spoken_run.show(spoken)
    if out is not None:
        spoken_run.draw(spoken, out, film, silent=json)
    elif not json:
        print("            --out DIR writes a film, a strip of poses and the skills")
    return 0 if spoken.understood else NOTHING_USABLE
