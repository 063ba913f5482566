"""Measures of what a robot does, and the smallest change of each that one notices."""

SIDES = ("left", "right")
SHOULDERS = tuple(
    f"{side}_shoulder_{axis}" for side in SIDES for axis in ("pitch", "roll", "yaw")
)
NOTICED: dict[str, float] = {
    **{name: 0.3 if name.endswith("pitch") else 0.2 for name in SHOULDERS},
    **{f"{side}_apex": 0.03 for side in SIDES},
    "heading": 27.0,
    "speed": 0.15,
    "root_height": 0.04,
    "stride": 0.15,
}
"""In rad, m, degrees, m/s and Hz; smaller changes count as none."""
