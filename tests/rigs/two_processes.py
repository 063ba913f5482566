"""Two processes of one distributed job, forked from a server that imported torch."""

import multiprocessing
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes

from spectral_skills import distributed

PRELOADED = ["torch", "spectral_skills.skill.pretrain", "spectral_skills.tracking.ppo"]


def in_two(function: Callable[..., dict], out: Path, *arguments: object) -> list[dict]:
    """What a function of a module finds in each of two processes."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOADED)
    given = function, out, arguments
    start_processes(_process, given, nprocs=2, start_method="forkserver")
    return [torch.load(out / f"rank{rank}.pt") for rank in range(2)]


def _process(rank: int, function: Callable, out: Path, arguments: tuple) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{out}/meet", rank=rank, world_size=2
    )
    torch.save(function(*arguments), out / f"rank{rank}.pt")
    distributed.leave()
