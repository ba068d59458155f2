"""Work leaves the event loop: quick work in one queue, drawing in another; neither starves the other."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from app.service import Service
from multifold.errors import needs_extra

with needs_extra("serve"):
    import anyio
    from fastapi import Request

T = TypeVar("T")


@dataclass(frozen=True)
class Desk:
    """The service, and how many may ask it something at once."""

    service: Service
    quick: anyio.CapacityLimiter
    slow: anyio.CapacityLimiter

    @classmethod
    def of(cls, service: Service) -> "Desk":
        """A desk with the service's own limits."""
        quick, slow = service.settings.encodes, service.settings.renderers
        return cls(service, anyio.CapacityLimiter(quick), anyio.CapacityLimiter(slow))

    async def run(self, work: Callable[[], T], *, slow: bool = False) -> T:
        """Do it in a thread."""
        return await anyio.to_thread.run_sync(work, limiter=self.slow if slow else self.quick)


def desk(request: Request) -> Desk:
    """The desk of the service that this request came to."""
    found: Desk = request.app.state.desk
    return found
