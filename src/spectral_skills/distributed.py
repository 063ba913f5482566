"""Several processes that train as one; with a single process nothing happens.

Every process draws the random numbers of the whole batch and works on its own
share, so the numbers do not depend on how many processes there are.
"""

import os

import torch
import torch.distributed as dist
from torch import Tensor


def rank() -> int:
    """Number of this process among those that train together."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """Number of processes that train together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def join(device: str) -> torch.device:
    """Join the processes that torchrun started, and take this one's device."""
    if "WORLD_SIZE" in os.environ and not dist.is_initialized():
        dist.init_process_group("nccl" if device == "cuda" else "gloo")
    if torch.device(device).type == "cuda":
        torch.set_float32_matmul_precision("high")
    if device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device(device)


def leave() -> None:
    """Leave the group of processes when all of them do: one that left earlier would
    break off what others still say to it."""
    if dist.is_initialized():
        of_first(0.0)  # waits for all
        dist.destroy_process_group()


def share(values: Tensor) -> Tensor:
    """The part of a batch that belongs to this process."""
    size = len(values) // world_size()
    return values[rank() * size : (rank() + 1) * size]


def all_reduce_sum(values: Tensor) -> Tensor:
    """Sum over processes."""
    if world_size() > 1:
        values = values.clone()
        dist.all_reduce(values)
    return values


def of_first(value: float) -> float:
    """The number of the first process, in all of them."""
    if world_size() == 1:
        return value
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    # In float32 with NCCL and gloo alike; a day of seconds is exact to 8 ms.
    own = torch.tensor(value if rank() == 0 else 0.0, device=device)
    return float(all_reduce_sum(own))


class _Mean(torch.autograd.Function):
    """Mean over processes, of values and of gradients.

    Each process's loss has the mean in it, and the gradients of all processes are
    averaged afterwards; so what reaches one process's values is the mean, over
    processes, of the gradients that reached the mean.
    """

    @staticmethod
    def forward(ctx, values: Tensor) -> Tensor:
        return all_reduce_sum(values) / world_size()

    @staticmethod
    def backward(ctx, *grads: Tensor) -> Tensor:
        return all_reduce_sum(grads[0]) / world_size()


def mean_over_ranks(values: Tensor) -> Tensor:
    """Mean over processes, with its gradient."""
    return _Mean.apply(values) if world_size() > 1 else values  # type: ignore


def average_gradients(parameters: list[torch.nn.Parameter]) -> None:
    """Give every process the mean of all processes' gradients."""
    if world_size() > 1:
        for parameter in parameters:
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= world_size()
