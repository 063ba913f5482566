"""Small BVH files of many skeletons.

A tree is written as chains, `joint > name offset, name offset, ...`, where an offset
is an axis and a length in centimetres such as x10 or -y40, and the name `end` is an
end site. The right side mirrors the left one, whose word for the side is exchanged.
`point=name` says which point of the body a joint is.
"""

import re

import numpy as np

CHANNELS = "Xposition Yposition Zposition Zrotation Yrotation Xrotation"


def tree(*chains: str, sides: tuple[str, str] = ("Left", "Right")):
    """Names, parents and offsets (J, 3) of chains; y is up, z forward, x left."""
    names, parents, offsets = [], [], []
    left, right = sides
    word = re.compile(left)
    for chain in chains:
        start, _, joints = chain.rpartition(" > ")
        for mirrored in (False, True) if left and word.search(joints) else (False,):
            name = word.sub(right, start) if mirrored else start
            parent = names.index(name) if name else -1
            for joint in joints.split(", "):
                name, offset = joint.rpartition("=")[2].rsplit(" ", 1)
                axis, length = offset.lstrip("-")[0], offset.lstrip("-")[1:]
                vector = np.zeros(3)
                vector["xyz".index(axis)] = float(length) * (-1) ** offset.count("-")
                name = names[parent] + "_end" if name == "end" else name
                names.append(word.sub(right, name) if mirrored else name)
                parents.append(parent)
                offsets.append(vector * ((-1) ** mirrored, 1, 1))
                parent = len(names) - 1
    return names, parents, np.array(offsets)


def points(*chains: str) -> dict[str, str]:
    """Points that the chains name, and their joints; of limbs the left ones."""
    found = {}
    for chain in chains:
        joint = ""
        for entry in chain.rpartition(" > ")[2].split(", "):
            point, _, name = entry.rsplit(" ", 1)[0].rpartition("=")
            joint = f"{joint}_end" if name == "end" else name
            if point:
                trunk = point in ("pelvis", "chest", "neck", "head")
                found[point if trunk else f"left_{point}"] = joint
    return found


def text(names, parents, offsets, rows, channels: str = CHANNELS, fps: float = 30.0):
    """A BVH file: the root has these channels, every other joint the rotations."""
    turns = " ".join(c for c in channels.split() if "rot" in c)
    lines = ["HIERARCHY"]

    def put(joint: int, indent: str) -> None:
        end = names[joint].endswith("_end")
        kind = "ROOT" if parents[joint] < 0 else "JOINT"
        lines.append(indent + ("End Site" if end else f"{kind} {names[joint]}"))
        lines.append(indent + "{")
        offset = " ".join(f"{x:.6g}" for x in offsets[joint])
        lines.append(f"{indent}\tOFFSET {offset}")
        if not end:
            own = channels if parents[joint] < 0 else turns
            lines.append(f"{indent}\tCHANNELS {len(own.split())} {own}")
        for child, parent in enumerate(parents):
            if parent == joint:
                put(child, indent + "\t")
        lines.append(indent + "}")

    for root in [i for i, parent in enumerate(parents) if parent < 0]:
        put(root, "")
    lines += ["MOTION", f"Frames: {len(rows)}", f"Frame Time: {1 / fps:.7f}"]
    lines += [" ".join(f"{x:.9g}" for x in row) for row in rows]
    return "\n".join(lines) + "\n"


TRUNK = (
    "pelvis=Hips y90, Spine y10, Spine1 y10, chest=Spine2 y20, neck=Neck y20, "
    "head=Head y10, end y15"
)
LEG = (
    "hip=LeftUpLeg x10, knee=LeftLeg -y40, ankle=LeftFoot -y40, toe=LeftToeBase z15, "
    "end z7"
)
ARM = (
    "LeftShoulder x5, shoulder=LeftArm x12, elbow=LeftForeArm x28, wrist=LeftHand x25, "
    "hand=end x8"
)
PLAIN = (TRUNK, f"Hips > {LEG}", f"Spine2 > {ARM}")
