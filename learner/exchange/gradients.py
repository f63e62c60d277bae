"""Actors send gradients, which the learner adds up (exchange.kind = "gradients")."""

from common.wire.codecs.negotiate import choose
from common.wire.frames import Buffer
from common.wire.messages import Contribution, Gradient, Hello
from learner.exchange.base import ContributionExchange
from learner.parameters.gradient_sum import GradientSum
from learner.run import Run


class GradientExchange(ContributionExchange):
    """Takes packed gradients, and makes one optimizer step with the sum of those that wait."""

    message = Gradient
    plural = "gradients"

    def __init__(self, run: Run, gradient_sum: GradientSum) -> None:
        super().__init__(run, gradient_sum.max_bytes, gradient_sum)
        self._sum = gradient_sum

    def choose_codec(self, hello: Hello) -> str:
        exchange = self._settings.exchange
        return choose(
            exchange.codec,
            exchange.entropy_coder,
            hello.codecs,
            size=self._run.spec.parameters,
            loopback=hello.host == self._run.spec.host,
            link_mbit=exchange.link_mbit,
        )

    def _add(self, header: Contribution, body: Buffer, weight: float, lag: int, source: str) -> None:
        summed = isinstance(header, Gradient) and header.summed
        self._sum.add(body, header.codec, weight=weight, count=header.count, lag=lag, source=source, summed=summed)

    def weights_restored(self) -> None:
        self._sum.weights_restored()

    def named(self) -> list[str]:
        return super().named() + self._sum.named()
