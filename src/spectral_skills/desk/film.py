"""A film of a take, in a process of its own: `python -m spectral_skills.desk.film`.

Drawing needs torch and a core; the robot on the page needs neither.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path

from spectral_skills.control.rollout import Rollout
from spectral_skills.plots.film import write_film

LONGEST_S = 30.0
"""Of a longer take the film shows the beginning."""
_NICER = 10


def main() -> None:
    """Take, then the film's file without its ending."""
    os.nice(_NICER)
    take, out = Path(sys.argv[1]), Path(sys.argv[2])
    record = replace(Rollout.load(take), names=(out.stem,))
    for path in write_film(record, out, most_s=LONGEST_S, caption="blue: the base"):
        print(path)


if __name__ == "__main__":
    main()
