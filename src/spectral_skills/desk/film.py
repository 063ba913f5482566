"""A film of a take, in a process of its own: `python -m spectral_skills.desk.film`.

Drawing needs torch and a core; the robot on the page needs neither.
"""

import os
import sys
from pathlib import Path

from spectral_skills.control.rollout import Rollout
from spectral_skills.desk.takes import Take
from spectral_skills.plots.film import write_film

LONGEST_S = 30.0
"""Of a longer take the film shows the beginning."""
_NICER = 10


def film(take: Take, path: Path) -> list[Path]:
    """Write a GIF, and an mp4 where imageio-ffmpeg is: the robot beside its base."""
    record = Rollout.of_rows(path.stem, take.rows, take.ghosts)
    return write_film(record, path, most_s=LONGEST_S, caption="blue: the base")


def main() -> None:
    """Take, then the film's file without its ending."""
    os.nice(_NICER)
    for path in film(Take.load(Path(sys.argv[1])), Path(sys.argv[2])):
        print(path)


if __name__ == "__main__":
    main()
