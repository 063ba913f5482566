"""What the ladder measures, and what the paper's table says of it."""

MEASURES: dict[str, str] = {
    "speed": "m/s",
    "yaw rate": "deg/s",
    "right shoulder pitch": "rad",
    "left apex": "cm",
    "right apex": "cm",
    "distance": "",
}
SUPPORT = "support"

# Of the seeds, mean and SD: speed, yaw rate, shoulder, left and right apex, distance;
# distance of the run without chance; support of three seeds and of that run.
_TABLE = """
walk     | base        | 0.98 0.03  -8 2   0.05 0.01  15 0 16 0  2.73 0.09 | 2.76 | 90009 92259 93794 90252
walk     | + right arm | 1.07 0.01   3 1  -0.76 0.02  15 0 16 0  3.32 0.04 | 3.37 | 2334 1988 2124 2180
walk     | + turn      | 1.06 0.03  35 2  -0.77 0.03  14 1 15 0  3.63 0.08 | 3.60 | 112 102 100 119
walk     | + clearance | 1.11 0.06  36 3  -0.80 0.04  19 2 24 1  3.93 0.03 | 3.96 | 19 35 95 21
walk     | released    | 1.02 0.01  -1 2   0.01 0.02  16 0 15 1  2.87 0.15 | 2.69 |
jog      | base        | 1.21 0.03   2 1  -0.10 0.01  17 0 16 0  2.95 0.03 | 2.93 | 68531 68818 71607 71050
jog      | + right arm | 1.45 0.04   3 1  -1.10 0.04  17 0 19 0  3.66 0.03 | 3.65 | 245 210 276 228
jog      | + turn      | 1.32 0.03  42 3  -1.09 0.04  16 1 17 1  4.26 0.05 | 4.22 | 23 13 20 21
jog      | + clearance | 1.49 0.14  38 5  -1.17 0.07  27 1 32 1  4.39 0.11 | 4.32 | 1 0 0 1
jog      | released    | 1.35 0.11  -4 3  -0.13 0.03  18 1 17 1  3.32 0.25 | 3.09 |
backward | base        | 0.84 0.00   1 1  -0.15 0.00  11 0 10 0  2.67 0.02 | 2.66 | 27865 27582 27902 27626
backward | + right arm | 0.76 0.02   6 1  -1.38 0.02  11 1 13 0  3.69 0.03 | 3.67 | 206 193 189 192
backward | + turn      | 0.58 0.01  45 2  -1.36 0.01  11 1 11 0  4.13 0.03 | 4.10 | 0 0 0 0
backward | + clearance | 0.38 0.04  51 7  -1.47 0.06  19 2 24 0  4.17 0.02 | 4.15 | 0 0 0 0
backward | released    | 0.73 0.05  -5 3  -0.29 0.00  12 0 10 1  2.70 0.11 | 2.65 |
"""  # noqa: E501


def _read(table: str) -> dict[tuple[str, str, str], str]:
    """The paper's cells by base, stage and metric."""
    found = {}
    for line in table.strip().splitlines():
        base, stage, seeds, alone, counts = (part.strip() for part in line.split("|"))
        values = seeds.split()
        for i, name in enumerate(MEASURES):
            found[base, stage, f"{name}, mean of seeds"] = values[2 * i]
            found[base, stage, f"{name}, SD of seeds"] = values[2 * i + 1]
        found[base, stage, "distance"] = alone
        for who, count in zip((0, 1, 2, None), counts.split(), strict=False):
            found[base, stage, support_of(who)] = count
    return found


def support_of(seed: int | None) -> str:
    return SUPPORT if seed is None else f"{SUPPORT}, seed {seed}"


PAPER = _read(_TABLE)
