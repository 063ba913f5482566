"""The verb that takes models out of here. It imports what it needs when it runs."""

from pathlib import Path

_BASE = Path("base")


def export(
    *,
    controller: Path = _BASE,
    skill: Path = _BASE,
    directions: Path | None = _BASE,
    planner: Path | None = _BASE,
    bases: list[str] | None = None,
    corpus: Path | None = None,
    isaaclab: bool = False,
    sonic: bool = False,
    out: Path,
) -> None:
    """Write a bundle: all that drives a robot or the desk, without torch.

    Models become ONNX graphs, and nothing is written unless each gives what its model
    gives on what simulated robots observe: to 1e-5, of the largest number if above 1.

    Args:
        controller: Controller; `base` is the one that comes with the package.
        skill: Skill model it was trained with; `base` comes with the package.
        directions: File of `spectral directions`; `base` comes with the package, None
            leaves them away.
        planner: Planner that was trained with both; `base` comes with the package,
            None leaves it away.
        bases: walk, jog, squat, carry, backward, stand, turn-left, turn-right, or names
            of clips; these eight by default. A bundle always has stand.
        corpus: Folder of the corpus that clips are taken from and distances are
            measured to; the embedded one by default.
        isaaclab: Joints of the controller's graph in IsaacLab's order.
        sonic: Write what SONIC's C++ runtime reads in place of a bundle: the policy,
            and bases as references and as tokens.
        out: Folder for the bundle; one that is there is replaced.
    """
    from spectral_skills.motion.corpus import Corpus
    from spectral_skills.runtime import export as bundles
    from spectral_skills.runtime import sonic as runtime
    from spectral_skills.runtime.base_clips import NAMES
    from spectral_skills.runtime.mixer import REST
    from spectral_skills.runtime.models import Models

    clips = None if corpus is None else Corpus.open(corpus)
    names = tuple(bases or NAMES)
    if REST not in names:
        names = (*names, REST)  # what a robot does when nothing else is played
    if sonic:
        if isaaclab:
            raise ValueError("--sonic is in IsaacLab's order anyway; leave one away")
        models = Models.load(controller, skill)
        differences = runtime.export(models, out, names, clips)
    else:
        bundles.refuse_foreign(out)
        models = Models.load(controller, skill, directions, planner)
        order = "isaaclab" if isaaclab else "mujoco"
        differences = bundles.export(models, out, names, clips, order).differences
    for path in sorted(out.iterdir()):
        told = ""
        if path.name in differences:
            told = f"  differs from torch by {differences[path.name]:.1e}"
        print(f"{path.name:24}{_size(path):>9}{told}")
    print(f"folder    {out}")


def _size(path: Path) -> str:
    """Of a file, or of all in a folder."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    size = sum(file.stat().st_size for file in files)
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
