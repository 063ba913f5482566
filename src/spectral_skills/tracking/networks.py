"""What controller and critic are built of: running normalisers and SiLU networks."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from spectral_skills.distributed import all_reduce_sum

_ALIGN = 16


def aligned(width: int) -> int:
    """Numbers of a row that is kept: rounded up, since such rows multiply faster."""
    return -(-width // _ALIGN) * _ALIGN


class Normalizer(nn.Module):
    """Subtracts the mean of all values seen and divides by their deviation."""

    floor, limit = 0.01, 10.0
    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, width: int):
        super().__init__()
        self.width = width
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def forward(self, values: Tensor) -> Tensor:
        std = self.variance.sqrt().clamp_min(self.floor)
        return ((values - self.mean) / std).clamp(-self.limit, self.limit)

    def moments(self, values: Tensor) -> Tensor:
        """(2, width): sums over (n, width) of distances from the mean, and squares.

        From the mean and not from zero, so that small deviations survive float32.
        """
        away = values - self.mean
        return torch.stack((away.sum(0), away.square().sum(0)))

    @torch.no_grad()
    def learn(self, moments: Tensor, count: int) -> None:
        """Take in `count` values with these moments, and those of other processes."""
        ours = torch.cat((moments.double().flatten(), self.count.new_tensor([count])))
        whole = all_reduce_sum(ours)
        added = whole[-1]
        shift, square = (whole[:-1] / added).view(2, -1)
        total = self.count + added
        share = added / total  # of the new values among all
        # Variance of a mixture: that within both parts, and that between their means.
        within = (1 - share) * self.variance + share * (square - shift.square())
        between = share * (1 - share) * shift.square()
        self.variance.copy_((within + between).clamp_min(0))
        self.mean.add_(share * shift)
        self.count.copy_(total)

    def update(self, values: Tensor) -> None:
        """Take in values (n, width), and those of other processes."""
        self.learn(self.moments(values.double()), len(values))


class Network(nn.Module):
    """SiLU layers. The last computes in float32: a mean rounded to bf16 is off by a
    fair share of a small deviation, and log-probabilities would be noise."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], outputs: int, last: float):
        super().__init__()
        self.first = nn.Linear(inputs, hidden[0])
        pairs = zip(hidden[:-1], hidden[1:], strict=True)
        inner = [layer for a, b in pairs for layer in (nn.Linear(a, b), nn.SiLU())]
        self.body = nn.Sequential(nn.SiLU(), *inner)
        self.project = nn.Linear(hidden[-1], outputs)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)
        nn.init.normal_(self.project.weight, std=last / hidden[-1] ** 0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Of inputs (n, w), with any number of columns more, all zero: rows that are
        a multiple of 16 bytes long multiply faster."""
        more, weight = x.shape[-1] - self.first.in_features, self.first.weight
        if more:  # not for nothing: padding copies the weight
            weight = functional.pad(weight, (0, more))
        h = self.body(functional.linear(x, weight, self.first.bias))
        if h.dtype == self.project.weight.dtype:
            return self.project(h)
        with torch.autocast(x.device.type, enabled=False):
            return self.project(h.to(self.project.weight.dtype))
