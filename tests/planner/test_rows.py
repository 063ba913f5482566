"""Rows are places in frames: what was sensed before, what was told after."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from spectral_skills.motion.windows import anchor_poses
from spectral_skills.planner.data import CHUNK, About, Motion, Rows

STEPS, ROBOTS = 80, 3
ABOUT = About(
    controller="abc",
    encoder="def",
    command="skill",
    hold=1,
    corpus="c",
    motions=(Motion("walk", ("walk", "go")), Motion("turn", ("turn",), ("spin",))),
)


def _frames(steps: int = STEPS) -> dict[str, torch.Tensor]:
    """Frames whose numbers tell step and robot."""
    step = torch.arange(steps)[:, None].float().expand(steps, ROBOTS)
    robot = torch.arange(ROBOTS).float().expand(steps, ROBOTS)
    generator = torch.Generator().manual_seed(0)
    turns = torch.randn((steps, ROBOTS, 4), generator=generator)
    turns = turns / turns.norm(dim=-1, keepdim=True)
    places = torch.randn((steps, ROBOTS, 3), generator=generator)
    joints = torch.randn((steps, ROBOTS, 29), generator=generator)
    return {
        "proprio": (step + 100 * robot)[..., None].expand(-1, -1, 93).half(),
        "skill": (step + 100 * robot)[..., None].expand(-1, -1, 4).half(),
        "root": torch.cat((places, turns), dim=-1),
        "reference": torch.cat((places, turns, joints), dim=-1),
        "motion": torch.zeros((steps, ROBOTS), dtype=torch.int16),
        "valid": torch.ones((steps, ROBOTS), dtype=torch.bool),
    }


def test_a_row_is_the_past_and_the_commands_from_now_on():
    rows = Rows(ABOUT, _frames())
    assert len(rows) == (STEPS - CHUNK) * ROBOTS
    at = (rows.places == torch.tensor([20, 1])).all(dim=1).nonzero()[:, 0]
    batch = rows.batch(at, "skill")
    assert batch.history[0, :, 0].tolist() == [100 + t for t in range(11, 21)]
    assert batch.chunk[0, :, 0].tolist() == [100 + t for t in range(20, 50)]
    assert batch.motion.tolist() == [0]


def test_before_the_start_there_is_the_first_frame():
    rows = Rows(ABOUT, _frames())
    at = (rows.places == torch.tensor([2, 0])).all(dim=1).nonzero()[:, 0]
    assert rows.batch(at, "skill").history[0, :, 0].tolist() == [0] * 8 + [1, 2]


@pytest.mark.parametrize(("command", "first"), [("skill", 0), ("pose", 1)])
def test_poses_are_seen_from_where_the_robot_was(command, first):
    frames = _frames()
    rows = Rows(replace(ABOUT, command=command), frames)
    at = (rows.places == torch.tensor([7, 2])).all(dim=1).nonzero()[:, 0]
    root = frames["root"][7, 2]
    ahead = frames["reference"][7 + first : 7 + first + CHUNK, 2]
    expected = anchor_poses(ahead[None], root[None, :3], root[None, 3:], "heading")
    torch.testing.assert_close(rows.batch(at, "pose").chunk, expected)
    assert rows.width("pose") == 38 and rows.width("skill") == 4


def test_no_chunk_spans_two_motions_or_a_fall():
    frames = _frames()
    frames["motion"][40:, 0] = 1
    frames["valid"][50:, 1] = False
    rows = Rows(ABOUT, frames)
    steps = {r: rows.places[rows.places[:, 1] == r, 0].tolist() for r in range(ROBOTS)}
    assert steps[0] == [*range(40 - CHUNK), *range(40, STEPS - CHUNK)]
    assert steps[1] == list(range(50 - CHUNK))
    assert steps[2] == list(range(STEPS - CHUNK))


def test_held_commands_are_planned_when_they_are_due():
    rows = Rows(replace(ABOUT, hold=10), _frames())
    assert set(rows.places[:, 0].tolist()) == {0, 10, 20, 30, 40}


def test_held_out_rows_are_of_robots_of_their_own():
    rows = Rows(ABOUT, _frames())
    learned, held = rows.split(share=0.5)
    assert len(learned) + len(held) == len(rows) and len(held)
    sides = [set(rows.places[part, 1].tolist()) for part in (learned, held)]
    assert not sides[0] & sides[1]


def test_a_folder_holds_all_of_it(tmp_path: Path):
    rows = Rows(ABOUT, _frames())
    rows.save(tmp_path / "rows")
    again = Rows.open(tmp_path / "rows")
    assert again.about == ABOUT and again.hash == rows.hash
    one, other = (r.batch(torch.arange(9), "pose") for r in (rows, again))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_other_frames_are_other_rows():
    frames = _frames()
    frames["proprio"] = frames["proprio"] + 1
    assert Rows(ABOUT, frames).hash != Rows(ABOUT, _frames()).hash


def test_what_is_wrong_with_a_folder_is_said(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="no rows here"):
        Rows.open(tmp_path)
    folder = tmp_path / "rows"
    Rows(ABOUT, _frames()).save(folder)
    whole = (folder / "frames.safetensors").read_bytes()
    (folder / "frames.safetensors").write_bytes(whole[:1000])
    with pytest.raises(ValueError, match="damaged"):
        Rows.open(folder)
    with pytest.raises(ValueError, match="none is upright for 30 steps"):
        Rows(ABOUT, _frames(20))
