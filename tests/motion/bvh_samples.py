"""Small BVH files of many skeletons.

A tree is written as chains, `joint > name offset, name offset, ...`, where an offset
is an axis and a length in centimetres such as x10 or -y40, and the name `end` is an
end site. The right side mirrors the left one, whose word for the side is exchanged.
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
                name, offset = joint.rsplit(" ", 1)
                axis, length = re.fullmatch(r"(-?[xyz])(.*)", offset).groups()
                vector = np.zeros(3)
                vector["xyz".index(axis[-1])] = float(length) * (-1) ** len(axis[:-1])
                name = names[parent] + "_end" if name == "end" else name
                names.append(word.sub(right, name) if mirrored else name)
                parents.append(parent)
                offsets.append(vector * ((-1) ** mirrored, 1, 1))
                parent = len(names) - 1
    return names, parents, np.array(offsets)


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


TRUNK = "Hips y90, Spine y10, Spine1 y10, Spine2 y20, Neck y20, Head y10, end y15"
LEG = "LeftUpLeg x10, LeftLeg -y40, LeftFoot -y40, LeftToeBase z15, end z7"
ARM = "LeftShoulder x5, LeftArm x12, LeftForeArm x28, LeftHand x25, end x8"
PLAIN = (TRUNK, f"Hips > {LEG}", f"Spine2 > {ARM}")
