"""Training by several processes (torchrun) that share one batch."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn

from multifold.errors import MultifoldError

COLLECTIVE_TIMEOUT = timedelta(hours=12)  # others wait while the first rank renders and measures


class ProcessRank:
    """One process alone; `DistributedRank` is one of several."""

    rank, count = 0, 1

    def share(self, length: int) -> slice:
        """The part of so many things that this rank works on."""
        return slice(0, length)

    def gather(self, mine: Float[Tensor, "m n"], _length: int) -> Float[Tensor, "b n"]:
        """The features of all ranks, in order; `mine` are those of this rank's share."""
        return mine

    def total(self, mine: Tensor) -> Tensor:
        """The sum over ranks, without gradient."""
        return mine.detach()

    def add_gradients(self, model: nn.Module) -> None:
        """Every rank gets the sum of all gradients."""

    def agree(self, model: nn.Module) -> None:
        """Every rank gets the first one's weights."""

    def begin(self, _seed: int, _step: int) -> None:
        """Chance of a step's own."""

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """The first rank runs the block before the others, which use its results."""
        yield

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def say(self, sentence: str) -> None:
        """Print it once, by the first rank."""
        if self.is_first:
            print(sentence)


SINGLE_PROCESS = ProcessRank()


class DistributedRank(ProcessRank):
    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.count = dist.get_world_size()

    def share(self, length: int) -> slice:
        return slice(*(length * place // self.count for place in (self.rank, self.rank + 1)))

    def gather(self, mine: Float[Tensor, "m n"], length: int) -> Float[Tensor, "b n"]:
        sizes = [length * (r + 1) // self.count - length * r // self.count for r in range(self.count)]
        gathered: Tensor = _Gather.apply(mine, sizes, self.rank)
        return gathered

    def total(self, mine: Tensor) -> Tensor:
        summed = mine.detach().clone()
        dist.all_reduce(summed)
        return summed

    @torch.no_grad()
    def add_gradients(self, model: nn.Module) -> None:
        gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        for gradient, summed in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(summed.view_as(gradient))

    @torch.no_grad()
    def agree(self, model: nn.Module) -> None:
        for tensor in (*model.parameters(), *model.buffers()):
            dist.broadcast(tensor.data, 0)

    def begin(self, seed: int, step: int) -> None:
        """Random numbers differ between ranks, and a resumed run repeats them without stored state."""
        torch.manual_seed((seed * 1_000_003 + step) * 4096 + self.rank)

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        if not self.is_first:
            dist.barrier()
        yield
        if self.is_first:
            dist.barrier()


class _Gather(torch.autograd.Function):
    """Features of all ranks; in backward every rank gets the gradient of its own, summed over all losses."""

    @staticmethod
    def forward(ctx: Any, mine: Tensor, sizes: list[int], rank: int) -> Tensor:  # noqa: ANN401 (torch's)
        ctx.begin = sum(sizes[:rank])
        ctx.size = sizes[rank]
        longest = max(sizes)
        padded = mine.new_zeros(longest, mine.shape[1])
        padded[: len(mine)] = mine
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        summed = gradient.contiguous().clone()
        dist.all_reduce(summed)
        return summed[ctx.begin : ctx.begin + ctx.size], None, None


@contextmanager
def join_processes(device: str) -> Iterator[tuple[ProcessRank, str]]:
    """The ranks that torchrun started, or this process alone, and its device."""
    if "WORLD_SIZE" not in os.environ or int(os.environ["WORLD_SIZE"]) < 2:
        yield SINGLE_PROCESS, choose_device(device)
        return
    if device.startswith("cuda:"):
        raise MultifoldError("under torchrun every process takes a GPU of its own: say --device cuda")
    kind = choose_device(device)
    mine = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if kind == "cuda" else kind
    if kind == "cuda":
        torch.cuda.set_device(mine)
    dist.init_process_group("nccl" if kind == "cuda" else "gloo", timeout=COLLECTIVE_TIMEOUT)
    try:
        yield DistributedRank(), mine
    finally:
        dist.destroy_process_group()


def choose_device(device: str) -> str:
    """The device of that name; `auto`: a GPU if there is one."""
    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"
