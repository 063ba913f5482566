"""Verbs that make controllers of controllers, without training."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from spectral_skills.cli.shared import (
    command_of,
    device_or_best,
    models,
    open_corpora,
)

if TYPE_CHECKING:
    from torch import Tensor

    from spectral_skills.artifact import Provenance
    from spectral_skills.tracking.policy import Controller


def adapt(
    *,
    controller: Path = Path("base"),
    old_skill: Path = Path("base"),
    skill: Path | None = None,
    explicit: bool = False,
    corpus: Path = Path("embedded"),
    out: Path,
    release: Path | None = None,
    updates: int = 4000,
    device: str | None = None,
) -> None:
    """Move a controller to another skill space, without training it again.

    A small network learns from a corpus what the old skill of every new one was, or of
    every reference pose. It takes minutes on a CPU; `spectral track --init OUT` trains
    the whole from there.

    Args:
        controller: Controller; `base` is the one that comes with the package.
        old_skill: Skill model it was trained with; `base` comes with the package.
        skill: Skill model whose skills it shall follow.
        explicit: It shall follow the next pose of the reference, in place of skills.
        corpus: Folder of the corpus to learn from, with its mirror image; `embedded`
            is the one this package makes.
        out: Folder for the controller.
        release: Also write what run time needs, without the critic, here.
        updates: Steps of learning.
        device: cpu or cuda; cuda where there is one.
    """
    from spectral_skills.artifact import Provenance, load_provenance
    from spectral_skills.skill.model import SkillModel, place
    from spectral_skills.tracking import adapt as adapting
    from spectral_skills.tracking.policy import KIND

    if (skill is None) != explicit:
        raise ValueError("give either --skill DIR or --explicit: what it shall follow")
    _check_new(out, release)
    (motions,) = open_corpora([corpus])
    where, settings = device_or_best(device), adapting.AdaptConfig(updates=updates)
    actor, old = models(controller, old_skill, where)
    if old is None or actor.config.command.kind != "skill":
        raise ValueError(f"{controller}: follows no skills, so needs no adapting")
    new = None if skill is None else SkillModel.load(skill, where).encoder
    found = adapting.adapt(actor, old, new, motions.with_mirror(), settings)
    parent = load_provenance(place(controller, KIND))
    parents = {} if new is None else {"skill": new.fingerprint()}
    words = ["spectral adapt --controller", controller.name]
    words += ["--explicit"] if skill is None else ["--skill", skill.name]
    provenance = Provenance(
        KIND,
        command_of([*words, "--corpus", corpus.name], settings, adapting.AdaptConfig()),
        settings.seed,
        motions.hash,
        parents | {"controller": parent.weights_hash},
        frames=parent.frames,
    )
    told = f"{found.explained:.1%} of the old skills of clips held out"
    if math.isnan(found.explained):
        told = "not measured: the clips held out stand still"
    print(f"explained {told}")
    # The old critic may know the old commands alone: a new one must learn.
    _save(found.controller, provenance, {}, out, release)


def average(
    first: Path,
    second: Path,
    /,
    *,
    share: float = 0.5,
    out: Path,
    release: Path | None = None,
) -> None:
    """Mix the weights of a controller and of one that was trained on from it.

    What further training forgot may come back; measure before you use it.

    Args:
        first: Controller; `base` is the one that comes with the package.
        second: Controller that began with the first.
        share: Of the second; the rest is the first's.
        out: Folder for the controller, with the second's critic if both have one.
        release: Also write what run time needs, without the critic, here.
    """
    from spectral_skills.artifact import Provenance, load_provenance
    from spectral_skills.skill.model import place
    from spectral_skills.tracking import average as averaging
    from spectral_skills.tracking.policy import KIND, Controller, critic_weights

    _check_new(out, release)
    mean = averaging.average(Controller.load(first), Controller.load(second), share)
    parents = [load_provenance(place(folder, KIND)) for folder in (first, second)]
    last = parents[-1]
    provenance = Provenance(
        KIND,
        f"spectral average {first.name} {second.name} --share {share:g}",
        last.seed,
        last.data_hash,
        last.parents | {"first": parents[0].weights_hash, "second": last.weights_hash},
        frames=max(parent.frames for parent in parents),
    )
    _save(mean, provenance, critic_weights(second), out, release)


def _check_new(*folders: Path | None) -> None:
    """Refuse folders that are there already."""
    for folder in folders:
        if folder is not None and folder.exists():
            raise ValueError(f"{folder}: there already; name a new folder")


def _save(
    controller: "Controller",
    provenance: "Provenance",
    critic: "dict[str, Tensor]",
    out: Path,
    release: Path | None,
) -> None:
    """Write a controller that was not trained, with its critic unless a part of it was
    released without."""
    if controller.config.released:
        controller.release(out, provenance)
    else:
        controller.save(out, provenance, critic)
    print(f"model     {out}")
    if release is not None:
        controller.release(release, provenance)
        print(f"release   {release}")
