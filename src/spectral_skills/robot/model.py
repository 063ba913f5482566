"""The G1 as a MuJoCo model, built from the MJCF inside the mjlab distribution."""

from importlib.util import find_spec
from pathlib import Path

import mujoco

from spectral_skills.robot import g1

_MJCF = "asset_zoo/robots/unitree_g1/xmls/g1.xml"


def mjcf_path() -> Path:
    """Return the path of the G1's MJCF; mjlab is located, never imported."""
    package = find_spec("mjlab")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError(
            "the G1 model comes with mjlab, which is not installed: "
            "pip install mjlab==1.6.0"
        )
    path = Path(package.submodule_search_locations[0]) / _MJCF
    if not path.is_file():
        raise FileNotFoundError(f"{path}: mjlab 1.6.0 has this file; reinstall it")
    return path


def build_spec(*, meshes: bool, floor: bool = True) -> mujoco.MjSpec:
    """Describe the G1 with SONIC's actuators; only pictures need the `meshes`."""
    spec = mujoco.MjSpec.from_file(str(mjcf_path()))
    spec.option.timestep = g1.PHYSICS_DT_S
    if not meshes:
        for geom in [g for g in spec.geoms if g.type == mujoco.mjtGeom.mjGEOM_MESH]:
            spec.delete(geom)
        for mesh in list(spec.meshes):
            spec.delete(mesh)
    for name, motor in zip(g1.JOINTS, g1.MOTORS, strict=True):
        joint = spec.joint(f"{name}_joint")
        joint.armature = motor.armature
        joint.actfrclimited = mujoco.mjtLimited.mjLIMITED_TRUE
        joint.actfrcrange = [-motor.effort, motor.effort]
        actuator = spec.add_actuator(name=name, target=f"{name}_joint")
        actuator.trntype = mujoco.mjtTrn.mjTRN_JOINT
        actuator.set_to_position(kp=motor.stiffness, kv=motor.damping)
        actuator.forcelimited = mujoco.mjtLimited.mjLIMITED_TRUE
        actuator.forcerange = [-motor.effort, motor.effort]
    if floor:
        spec.worldbody.add_geom(
            name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 0.05]
        )
    spec.add_key(name="default", qpos=g1.DEFAULT_QPOS, ctrl=g1.DEFAULT_JOINTS, time=0.0)
    return spec


def build_model(*, meshes: bool = False, floor: bool = True) -> mujoco.MjModel:
    return build_spec(meshes=meshes, floor=floor).compile()
