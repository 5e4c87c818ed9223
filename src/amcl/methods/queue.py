"""Settings of a queue of past projections, which MoCo and NNCLR share."""

from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from amcl.methods.heads import HeadSettings

S = TypeVar("S", bound="QueueSettings")


@dataclass(frozen=True, kw_only=True)
class QueueSettings(HeadSettings):
    """Settings that methods with a queue of past projections for each head share."""

    fitted: ClassVar[tuple[str, ...]] = ("queue",)

    queue: int = 4096
    """K, past projections kept a head."""

    def queued_per_step(self, batch_size: int) -> int:
        """Return the number of projections that a batch brings to the queue of a head."""
        raise NotImplementedError

    def min_queue(self) -> int:
        """Return the shortest queue that the other settings allow."""
        return 0

    def check_batch(self, batch_size: int, accumulate: int = 1) -> None:
        super().check_batch(batch_size, accumulate)
        queued = self.queued_per_step(batch_size)
        if self.queue and queued > self.queue:
            raise ValueError(
                f"a step brings {queued} projections, more than the queue of {self.queue} holds: "
                f"use --queue {2 * queued} or a smaller --batch-size."
            )

    def fit(self: S, images: int, batch_size: int) -> tuple[S, list[str]]:
        """Lower the queue to the number of projections that an epoch makes."""
        queued = self.queued_per_step(batch_size) * max(images // batch_size, 1)
        queued = max(queued, self.min_queue())
        if queued >= self.queue:
            return self, []
        note = (
            f"the queue holds {queued} projections instead of {self.queue}, no more than an epoch "
            "makes (--queue sets it)"
        )
        return replace(self, queue=queued), [note]
