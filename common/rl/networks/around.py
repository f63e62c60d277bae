"""Networks around a network: they change what it sees, or what it says, and have no parameters of their own."""

from common.rl.networks.heads import PolicyValue


class Around(PolicyValue):
    """As it is where nothing is overridden."""

    def __init__(self, network: PolicyValue, what: str) -> None:
        """what: it does, for the architecture."""
        super().__init__()
        self.inner = network
        self.action = network.action
        self.chunk = network.chunk
        self.state_size = network.state_size
        self.architecture = f"{what} {network.architecture}"


def peel(network: PolicyValue) -> tuple[list[Around], PolicyValue]:
    """What is around it, the outermost first, and the network itself."""
    around = []
    while isinstance(network, Around):
        around.append(network)
        network = network.inner
    return around, network
