"""Pictures of a skill space: a map of its clips, and the effects of its directions."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import FuncNorm, LinearSegmentedColormap
from sklearn.decomposition import PCA
from torch import Tensor

from spectral_skills.experiments.findings import Chart, Series
from spectral_skills.experiments.neighbours import MOST_POINTS, tsne
from spectral_skills.motion.corpus import Corpus
from spectral_skills.motion.kinematics import Kinematics, sole_heights
from spectral_skills.motion.motion_sets import OTHER, kind
from spectral_skills.plots import charts, film
from spectral_skills.plots.charts import INK, LEFT, MUTED, RIGHT, RULE
from spectral_skills.plots.tables import text
from spectral_skills.robot import g1
from spectral_skills.skill.encoder import SkillBank
from spectral_skills.spectral.direction_file import DETERMINED, SINGLE_LIMB, Directions
from spectral_skills.spectral.response import ATTRIBUTES

PAPER_STD = 0.80
"""Mean standard deviation of a skill dimension over the paper's corpus."""
LARGEST_RAD = 0.9
"""Change of the joint that moves most, at either end of a row of poses."""
FARTHEST = 30.0
"""Largest amplitude that is drawn; a whole skill has a length of about 7."""
PANELS = 7
SHOWN = (
    *("s01", "s02", "s03", "s04", "s06"),
    *("right_arm", "left_arm", "spread", "stance_height"),
)
_KINDS = 9
_LIMB_COLOURS = {
    "left_arm": LEFT,
    "right_arm": RIGHT,
    "left_leg": "#56B4E9",
    "right_leg": "#E69F00",
    "waist": "#009E73",
    "root_position": "#CC79A7",
    "root_rotation": "#8E7CC3",
}
"""Bluish for the left, orange for the right, in the order they are stacked."""
_SCALES = {a.name: a.scale for a in ATTRIBUTES}
_BLOCKS = (
    *("right_hip_pitch", "waist_yaw", "left_shoulder_pitch", "right_shoulder_pitch"),
    *("root_height", "left_foot_height", "left_hand_x"),
)
"""Attributes that begin a block of rows."""


@charts.styled
def draw_map(corpus: Corpus, bank: SkillBank, path: str | Path) -> None:
    """Draw t-SNE and PCA of the mean skills of clips, or of a random part of them."""
    clips, means = (x.cpu() for x in bank.clip_means())
    counted = f"{len(clips):,} clips"
    if len(clips) > MOST_POINTS:
        generator = torch.Generator().manual_seed(0)
        order = torch.randperm(len(clips), generator=generator)[:MOST_POINTS]
        clips, means = clips[order], means[order]
        counted = f"{MOST_POINTS:,} of {counted}"
    entries = [corpus.entry(i) for i in clips.tolist()]
    kinds = [kind(entry.name, entry.text) for entry in entries]
    straight, share = pca(means, 2)
    subtitle = (
        f"Each dot is the mean skill of one clip: {counted}, {len(bank.skills):,} "
        f"skills, {corpus.hours:,.2f} h. Mean standard deviation of a skill dimension "
        f"{bank.spread():.2f} (paper {PAPER_STD:.2f})."
    )
    figure = charts.sheet(940, "Map of the skill space", subtitle)
    x, y = (f"component {i}, {s:.0%} of the variance" for i, s in enumerate(share, 1))
    near, far = (_by_kind(p.numpy(), kinds) for p in (tsne(means), straight))
    maps = [
        Chart("t-SNE: similar skills are neighbours", "map", "", "", near),
        Chart("PCA: the two directions of largest variance", "scatter", x, y, far),
    ]
    places = figure.subplots(1, 2)
    handles, names = [], []
    for axes, chart in zip(places, maps, strict=True):
        axes.set_title(chart.title)
        axes.set_aspect("equal", adjustable="datalim")
        charts.plot(axes, chart)
        handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower left", ncols=len(names))
    charts.save(figure, path)


def pca(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Coordinates (n, k) of points (n, d) and the share (k,) of the variance of each.

    The largest component of every axis is positive, so that signs are reproducible.
    """
    if k > min(x.shape):
        count, size = x.shape
        raise ValueError(f"{k} components of {count} points in {size} dimensions")
    if (x == x[0]).all():  # there is no variance
        return x.new_zeros((len(x), k)), x.new_zeros(k)
    fit = PCA(k, svd_solver="full")
    places = torch.as_tensor(fit.fit_transform(x.double().numpy()))
    share = torch.as_tensor(fit.explained_variance_ratio_)
    return places.to(x.dtype), share.to(x.dtype)


def _by_kind(places: np.ndarray, kinds: list[str]) -> tuple[Series, ...]:
    """A series for each of the most common kinds, and one in grey for all others.

    The point of a kind that has most others of its kind around it bears its name.
    """
    counts = Counter(name for name in kinds if name != OTHER)
    common = sorted(counts, key=lambda name: (-counts[name], name))[:_KINDS]
    groups = [name if name in common else OTHER for name in kinds]
    found = []
    for name in [OTHER, *common]:
        own = places[[group == name for group in groups]]
        away = np.linalg.norm(own[:, None] - own, axis=-1)
        around = (away < 0.06 * np.ptp(places)).sum(axis=1)
        marks = [""] * len(own)
        if name != OTHER:
            marks[int(around.argmax())] = name
        role = "behind" if name == OTHER else ""
        label = f"{name}  {len(own):,}"
        x, y = own.T
        found.append(Series.of(label, x, y, marks, role))
    return tuple(found)


def pose_amplitude(directions: Directions, index: int) -> float | None:
    """The amplitude that moves the foremost joint by LARGEST_RAD.

    None if that joint moves now one way, now the other, or hardly at all: a picture
    would claim too much.
    """
    columns = [directions.attributes.index(name) for name in g1.JOINTS]
    mean = np.abs(directions.effect_mean[index, columns])
    foremost = int(mean.argmax())
    steady = mean[foremost] > directions.effect_std[index, columns[foremost]]
    if not steady or mean[foremost] * FARTHEST < LARGEST_RAD:
        return None
    return LARGEST_RAD / float(mean[foremost])


def predicted_poses(directions: Directions, index: int, amplitude: float) -> np.ndarray:
    """(PANELS, 36) the default pose from minus to plus an amplitude, joints alone."""
    columns = [directions.attributes.index(name) for name in g1.JOINTS]
    joints = directions.effect_mean[index, columns]
    qpos = np.tile(g1.DEFAULT_QPOS, (PANELS, 1))
    steps = np.linspace(-amplitude, amplitude, PANELS)[:, None]
    qpos[:, 7:] = (qpos[:, 7:] + steps * joints).clip(*g1.JOINT_LIMITS.T)
    feet = Kinematics(g1.FEET, dtype=torch.float64)(torch.as_tensor(qpos))
    qpos[:, 2] -= sole_heights(feet).amin(dim=1).numpy()  # stand on the floor
    return qpos


def draw_poses(
    directions: Directions, path: str | Path, names: Sequence[str] = SHOWN
) -> None:
    """Draw the standing robot changed as predicted, a row for each steady direction."""
    rows = []
    for name in names:
        index = directions.index(name)
        if (far := pose_amplitude(directions, index)) is not None:
            qpos = predicted_poses(directions, index, far)
            label = f"{directions.names[index]} +-{far:.1f}"
            rows.append(film.Still(qpos, np.arange(PANELS), label=label))
    if not rows:
        raise ValueError(
            f"within an amplitude of {FARTHEST:g} no direction moves a joint by "
            f"{LARGEST_RAD:g} rad, the same way in most contexts; train longer"
        )
    film.strip(path, rows)


@charts.styled
def all_ranks(directions: Directions, path: str | Path) -> None:
    """Draw gains, stability and effects of all spectral directions."""
    chosen = directions.family("spectral")
    if not len(chosen):
        raise ValueError("no spectral directions to draw")
    limbs = np.count_nonzero(directions.single_limb[chosen])
    stable = np.count_nonzero(directions.determined[chosen])
    subtitle = (
        f"Predicted over {directions.contexts:,} contexts, per unit amplitude. "
        f"{limbs} move a single limb; {stable} come out the same from both halves of "
        "the contexts."
    )
    figure = charts.sheet(1860, f"All {len(chosen)} spectral directions", subtitle)
    top, middle, bottom = figure.subplots(3, 1, height_ratios=(40, 12, 84))
    for axes in (top, middle):
        axes.set_xlim(0.4, len(chosen) + 0.6)
        axes.set_xticks([1, *range(8, len(chosen) + 1, 8)])
    _gains(top, directions, chosen)
    _agreement(middle, directions, chosen)
    _effects(bottom, directions, chosen)
    charts.save(figure, path)


def _gains(axes: Axes, directions: Directions, chosen: np.ndarray) -> None:
    """Bars of gain, shared out among the parts of the body by energy."""
    gains, bottom = directions.gains[chosen], np.zeros(len(chosen))
    ranks = np.arange(1, len(chosen) + 1)
    for group, colour in _LIMB_COLOURS.items():
        share = directions.group_shares[chosen, directions.groups.index(group)]
        label = group.replace("_", " ")
        axes.bar(ranks, share * gains, 0.82, bottom, color=colour, label=label)
        bottom += share * gains
    single = directions.single_limb[chosen] != ""
    label = f"one limb has over {SINGLE_LIMB:.0%} of the energy"
    top = gains[single] + 0.022 * gains.max()
    axes.plot(ranks[single], top, "D", color=MUTED, markersize=5.5, label=label)
    axes.set_title("predicted gain by rank, by the part of the body that moves")
    axes.set(ylim=(0, 1.07 * gains.max()), ylabel="rms change of the future")
    axes.legend(loc="upper right", ncols=2)


def _agreement(axes: Axes, directions: Directions, chosen: np.ndarray) -> None:
    """How much two halves of the contexts agree, and how much single contexts do."""
    stability, ranks = directions.stability[chosen], np.arange(1, len(chosen) + 1)
    label, green = "mean effect over its rms over contexts", charts.COLOURS[2]
    axes.plot(ranks, directions.sameness[chosen], color=green, linewidth=2, label=label)
    axes.plot(ranks, stability, color=RULE, linewidth=1, zorder=1)
    look = {"markersize": 6, "mec": INK, "mew": 1.1}
    for own, face, label in (
        (stability >= DETERMINED, INK, "|cos| between halves of the contexts"),
        (stability < DETERMINED, "white", f"below {DETERMINED:g}: not determined"),
    ):
        axes.plot(ranks[own], stability[own], "o", mfc=face, label=label, **look)
    axes.set_title("is it the same direction, and the same effect?")
    axes.set(ylim=(-0.06, 1.12), yticks=[0, 0.5, 1])
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), ncols=3)


def _effects(axes: Axes, directions: Directions, chosen: np.ndarray) -> None:
    scale = np.array([_SCALES[name] for name in directions.attributes])
    effects = (directions.effect_mean[chosen] / scale).T
    limit = max(float(np.quantile(np.abs(effects), 0.995)), 1e-9)
    colours = ["#0a4f7d", "#5aa3cc", "#ffffff", "#ec9a5b", "#a8430a"]
    # A square root on both sides of zero shows weak effects beside strong ones.
    both = (lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda x: np.sign(x) * x**2)
    image = axes.imshow(
        effects,
        aspect="auto",
        cmap=LinearSegmentedColormap.from_list("both ways", colours),
        norm=FuncNorm(both, vmin=-limit, vmax=limit),
        extent=(0.5, len(chosen) + 0.5, len(effects) - 0.5, -0.5),
        interpolation="nearest",
    )
    axes.set_title("mean effect on each attribute, in noticeable steps (in brackets)")
    axes.grid(False)
    units = zip(directions.attributes, scale, directions.units, strict=True)
    labels = [f"{name.replace('_', ' ')} ({step:g} {u})" for name, step, u in units]
    axes.set_yticks(range(len(labels)), labels)
    every = -(-len(chosen) // 64)
    names = [directions.names[k] for k in chosen[::every]]
    axes.set_xticks(range(1, len(chosen) + 1, every), names, rotation=270)
    axes.tick_params(labelcolor=INK, labelsize=8.5)
    for name in _BLOCKS:
        if name in directions.attributes:
            row = directions.attributes.index(name) - 0.5
            axes.axhline(row, color=MUTED, linewidth=0.8)
    ends = limit * np.array([-1, -0.25, 0, 0.25, 1])
    bar = axes.inset_axes((0.81, 1.012, 0.19, 0.012))
    axes.figure.colorbar(image, bar, orientation="horizontal", ticks=ends)
    bar.set_xticks(ends, [f"{end:.2g}" for end in ends])
    bar.xaxis.tick_top()
    bar.spines[:].set_visible(False)


def effect_table(directions: Directions) -> str:
    """A line for every direction: gain, marks, and its three largest effects."""
    heads = ("direction", "gain", "same", "limb", "amplitude", "mean effect +- spread")
    rows: list[tuple[str, ...]] = [heads]
    scale = np.array([_SCALES[name] for name in directions.attributes])
    for k, name in enumerate(directions.names):
        goal = directions.families[k] in ("target", "robot")
        mean, std = directions.effect_mean[k], directions.effect_std[k]
        largest = np.argsort(-np.abs(mean / scale), kind="stable")[:3]
        effects = [
            f"{directions.attributes[a]} {mean[a]:+.2g} +- {std[a]:.1g} "
            f"{directions.units[a]}"
            for a in largest
        ]
        same = f"{directions.stability[k]:.2f}" + " *"[int(directions.determined[k])]
        limb = directions.single_limb[k].replace("_", " ")
        amplitude = f"{directions.amplitudes[k]:.1f}" if goal else ""
        gain = f"{directions.gains[k]:.3f}"
        rows.append((name, gain, same, limb, amplitude, ", ".join(effects)))
    source = "standing" if directions.hand_standing else "all upright"
    notes = (
        f"per unit amplitude, over {directions.contexts:,} contexts",
        f"same: |cos| between two halves of them, * if at least {DETERMINED:g}",
        f"limb: has over {SINGLE_LIMB:.0%} of the energy",
        "amplitude: predicted to reach the goal; a robot needs far less, since "
        "predicted effects are smaller than real ones",
        f"hand maps from {directions.hand_contexts:,} {source} contexts",
    )
    return "\n".join((text(rows, "<"), "", *notes))
