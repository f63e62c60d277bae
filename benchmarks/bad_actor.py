"""An actor that multiplies its gradients by a factor: `python benchmarks/bad_actor.py FACTOR [ARGUMENTS]`.

The arguments are those of `a3cd`, such as `actor ADDRESS --name flipper`.
"""

from __future__ import annotations

import sys

from actor.players.gradients import GradientPlayer
from actor.rollout_summary import RolloutSummary
from deploy.cli.command import main

HONEST = GradientPlayer.pack


def spoil(factor: float) -> None:
    def pack(self: GradientPlayer, sequence: int | None) -> tuple[RolloutSummary, bytes]:
        self._sum *= factor
        return HONEST(self, sequence)

    GradientPlayer.pack = pack  # type: ignore[method-assign]


if __name__ == "__main__":
    spoil(float(sys.argv.pop(1)))
    main()
