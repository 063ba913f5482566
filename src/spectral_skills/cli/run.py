"""Verbs that run one robot in simulation: follow, steer, chain, say, and the desk.

Each verb imports what it needs when it runs.
"""

import re
import time
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from spectral_skills import api
from spectral_skills.cli.arguments import (
    EMBEDDED,
    NOTHING_USABLE,
    RECORDS,
    check_folder,
    check_length,
)
from spectral_skills.models import (
    RELEASED,
    RELEASED_STEERING,
    RELEASED_TRACKER,
    ModelPaths,
    Models,
    SteeringPaths,
    TrackerPaths,
)

if TYPE_CHECKING:
    from spectral_skills.control.metrics import Episodes


def rollout(
    name: str,
    /,
    *,
    models: TrackerPaths = RELEASED_TRACKER,
    corpus: Path = EMBEDDED,
    out: Path,
    film: bool = True,
    film_seconds: float = 10.0,
) -> None:
    """Let a controller follow a clip in MuJoCo, and film it beside its reference.

    Success is the paper's: no rule is broken, wherever the robot went. Followed means
    success with at least 80 % of the path gone and an MPJPE-G under 0.5 m.

    Args:
        name: Name of the clip, as `corpus list` prints it.
        out: Folder for the record (.npz), the film (.gif, .mp4) and a picture.
        film: Draw a film and a picture; both take longer than the simulation.
        film_seconds: Longest film, from the beginning of the run.
    """
    from spectral_skills.control.metrics import CAUSES, episodes
    from spectral_skills.plots.film import write_film, write_strip

    check_folder(out)
    check_length("--film-seconds", film_seconds)
    loaded, folder = Models.at(models), api.corpus_folder(corpus)
    began = time.perf_counter()
    record = api.follow(loaded, name, folder)
    took_s = time.perf_counter() - began
    done, lasted_s = episodes(record), record.steps / record.fps
    outcome = "tracked to the end"
    if not done.success[0]:
        failed_s = done.failed_at[0] / record.fps
        cause = CAUSES[done.cause[0]].replace("_", " ")
        outcome = f"fails by {cause} at {failed_s:.2f} of {lasted_s:.2f} s"
    error = (
        f"MPJPE-L {done.local_mm[0]:.1f} mm, MPJPE-G {done.global_mm[0]:.1f} mm, "
        f"root drift {done.root_mm[0]:.1f} mm"
    )
    print(f"followed  {'yes' if done.followed[0] else 'no'}, {_how(done)}")
    print(f"success   {'yes' if done.success[0] else 'no'}, {outcome}")
    print(f"error     {error}")
    print(
        f"speed     {lasted_s / took_s:.1f} x real time "
        f"({lasted_s:.1f} s in {took_s:.1f} s)"
    )
    place = out / re.sub(r"[^\w.~ +-]", "_", name)
    path = place.with_name(f"{place.name}.npz")
    record.save(path)
    print(f"record    {path}")
    if film:
        for path in write_film(record, place, most_s=film_seconds):
            print(f"film      {path}")
        path = place.with_name(f"{place.name}.png")
        write_strip(record, path, subtitle=f"{outcome}; {error}")
        print(f"picture   {path}")


def _how(done: "Episodes") -> str:
    """How much of its path a robot has gone, and how alike its joints move."""
    share, path_m, alike = (
        float(column[0])
        for column in (done.path_share, done.path_m, done.joint_correlation)
    )
    told = f"{100 * share:.0f} % of a path of {path_m:.1f} m gone"
    if not done.goes[0]:
        told = "it stays where it should" if share else "it leaves where it should stay"
    return told + (f", joints correlate by {alike:.2f}" if isfinite(alike) else "")


def steer(
    *,
    base: str = "walk",
    direction: tuple[str, ...] = (),
    amplitude: tuple[float, ...] = (),
    at: tuple[float, ...] = (),
    until: tuple[float, ...] = (),
    seconds: float = 8.0,
    models: SteeringPaths = RELEASED_STEERING,
    corpus: Path = EMBEDDED,
    seed: int | None = None,
    take: Path | None = None,
    bundle: Path | None = None,
    out: Path,
    film: bool = True,
    json: bool = False,
) -> None:
    """Add directions to a base skill, and show what the robot does.

    With --take, run again what was recorded at the desk, and report any difference.

    Args:
        base: walk, jog, squat, carry, backward, stand, turn-left, turn-right; where the
            skill model has them, recorded ones such as wave, kick and sneak; or the
            name of a clip.
        direction: Names of directions, such as `"right arm"` or `s03`.
        amplitude: How much of each, in skill units; 2 is a lot.
        at: Time at which each is turned up, s; 0.8 by default.
        until: Time at which each is released, s; 0.8 before the end by default.
        seconds: Length of the run.
        corpus: Folder of the corpus that clips are taken from and distances are
            measured to.
        seed: Seed of a robot with random friction, mass and start; nothing is random
            without it.
        take: File (.npz) that `spectral desk` recorded.
        bundle: With --take: folder of the bundle that the desk ran; by default the
            released models.
        out: Folder for the record (.npz), the picture and the film.
    """
    from spectral_skills.experiments.steer import knobs
    from spectral_skills.plots import runs

    check_folder(out)
    check_length("--seconds", seconds)
    if take is not None:
        if direction or amplitude:
            raise ValueError("--take or --direction, not both")
        return _replay(take, bundle, out, film, json)
    if not direction or not amplitude:
        raise ValueError("name what to add: --direction NAME --amplitude 2")
    found = api.steer(
        Models.at(models),
        base,
        knobs(direction, amplitude, seconds, at, until),
        seconds=seconds,
        corpus=corpus,
        seed=seed,
        records=out / RECORDS,
    )
    caption = "blue: the same without steering"
    drawn = found.title, found.steered, found.plain, out, caption, film
    if json:
        print(runs.steered_json(found))
        runs.draw_pair(*drawn, silent=True)
    else:
        runs.show_steered(found)
        runs.draw_pair(*drawn)


def _replay(path: Path, bundle: Path | None, out: Path, film: bool, json: bool) -> None:
    """Run a take again, and show it."""
    import json as text

    import numpy as np

    from spectral_skills.api import bundle as base_bundle
    from spectral_skills.control.bundle import Bundle
    from spectral_skills.control.rollout import Rollout
    from spectral_skills.control.session import replay
    from spectral_skills.plots.film import write_film, write_strip

    take = Rollout.load(path)
    rows = replay(Bundle.open(bundle or base_bundle()), take)
    off = float(np.abs(rows - take.robot[:, 0]).max())
    record = Rollout.of_rows(path.stem, rows, take.reference[:, 0])
    out.mkdir(parents=True, exist_ok=True)
    record.save(out / "run.npz")
    if json:
        print(text.dumps({"seconds": take.seconds, "largest_difference": off}))
    else:
        print(f"take      {path.name}, {take.seconds:.1f} s")
        difference = "none" if off == 0 else f"{off:.2g} (m or rad)"
        print(f"differs   {difference}")
    write_strip(record, out / "run.png", subtitle="blue: the base alone")
    paths = [("picture", out / "run.png")]
    if film:
        made = write_film(record, out / "run", caption="blue: the base alone")
        paths += [("film", one) for one in made]
    for what, one in [] if json else paths:
        print(f"{what:10s}{one}")


def chain(
    names: list[str],
    /,
    *,
    switch: int = 10,
    models: SteeringPaths = RELEASED_STEERING,
    out: Path,
    film: bool = True,
) -> None:
    """Play one skill after another, blended over each switch.

    For comparison, a second robot switches at once.

    Args:
        names: walk, jog, squat, carry, backward, stand, turn-left, turn-right; where
            the skill model has them, recorded ones such as wave, kick and sneak; or
            names of clips of the embedded corpus.
        switch: Number of control steps of a switch.
        out: Folder for the record (.npz), the picture and the film.
    """
    from spectral_skills.plots import runs

    check_folder(out)
    blended, hard = api.chain(Models.at(models), names, switch, records=out / RECORDS)
    runs.show_chain(blended, hard)
    title, caption = " - ".join(names), "blue: switched at once"
    runs.draw_pair(title, blended.executed, hard.executed, out, caption, film)


def say(
    text: str,
    /,
    *,
    models: ModelPaths = RELEASED,
    seconds: float | None = None,
    every: int = 30,
    seed: int = 0,
    out: Path | None = None,
    film: bool = True,
    json: bool = False,
) -> int:
    """Let a standing robot do what a sentence says.

    Example: `spectral say "walk forward, then turn left and wave"`. A part that is far
    from everything that the planner has learned is not guessed: the robot stands
    meanwhile. The exit code is 2 if nothing was understood.

    Args:
        text: What to do; `then` begins the next step, `for 3 seconds` sets its length.
        seconds: Length of each step that does not state its own; by default as long as
            its motion takes, 2 s to 6 s.
        every: Number of steps of each plan that are used; as on a robot, the next plan
            is requested two steps earlier.
        seed: Seed of the noise that plans start from.
        out: Folder for the record (.npz), the skills (.npz), the picture and the film.
    """
    from spectral_skills.plots import runs

    check_folder(out)
    loaded = Models.at(models)
    spoken = api.say(loaded, text, every=every, seconds=seconds, seed=seed)
    if json:
        print(runs.spoken_json(spoken))
    else:
        runs.show_spoken(spoken)
    if out is not None:
        runs.draw_spoken(spoken, out, film, silent=json)
    elif not json:
        print("            --out DIR writes a film, a strip of poses and the skills")
    return 0 if spoken.understood else NOTHING_USABLE


def desk(
    bundle: Path | None = None,
    /,
    *,
    port: int | None = None,
    host: str = "127.0.0.1",
    out: Path = Path("runs/desk"),
) -> None:
    """Steer a walking robot by faders, decks and words, in the browser.

    Everything is simulated on this machine, on the CPU. Ctrl-C closes the desk.

    Args:
        bundle: Folder of `spectral export`; without it, the released models.
        port: Port of the page; by default 8080 or the next free one.
        host: Address to open the page on. Whoever can reach it can use the desk, so
            only this machine can by default; 0.0.0.0 opens it to the network.
        out: Folder for takes, films and presets.
    """
    import threading

    from spectral_skills.api import bundle as base_bundle
    from spectral_skills.control.bundle import Bundle
    from spectral_skills.control.streams import LivePlanner
    from spectral_skills.desk.engine import Engine
    from spectral_skills.desk.page import Page

    opened = Bundle.open(base_bundle() if bundle is None else bundle)
    engine = Engine(opened, LivePlanner.of(opened))
    page = Page(engine, out, host, port)
    page.start()
    print(f"desk      {page.address}")
    print("next      open it in a browser and move a fader; Ctrl-C closes the desk")
    print(f"files     {out}")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        print()
    finally:
        page.stop()


def demo(*, out: Path = Path("demo")) -> None:
    """Draw the embedded corpus, read motion files, write a page with pictures.

    Args:
        out: Folder for the page and everything it shows.
    """
    from spectral_skills.plots.demo import demo_page

    check_folder(out)
    print(f"open {demo_page(api.corpus_folder(EMBEDDED), out)}")
