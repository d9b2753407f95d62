"""Offers the DSRL finetuners. Imports torch only when one is built."""

from collections.abc import Sequence

from outrider.core.config import NoConfig
from outrider.core.host.hookspecs import hookimpl
from outrider.core.host.objects import FinetuneContext, FinetunerProvider
from outrider.core.learning.types import Finetuner
from outrider.policies.steering.config import NoiseAliasedConfig, NoiseSpaceConfig


class SteeringPlugin:
    """DSRL in its two forms: `dsrl-na` (noise-aliased) and `dsrl-sac` (critics on noise)."""

    name = "steering"
    api = 1
    Config = NoConfig

    def __init__(self, config: NoConfig) -> None:
        self.config = config

    @hookimpl
    def finetuners(self) -> Sequence[FinetunerProvider]:
        """Offer both."""
        return (
            FinetunerProvider(
                "dsrl-na",
                NoiseAliasedConfig,
                NoiseAliasedConfig.capabilities,
                _noise_aliased,
            ),
            FinetunerProvider(
                "dsrl-sac",
                NoiseSpaceConfig,
                NoiseSpaceConfig.capabilities,
                _noise_space,
            ),
        )


def _noise_aliased(config: NoiseAliasedConfig, ctx: FinetuneContext) -> Finetuner:
    from outrider.policies.steering.noise_aliased import NoiseAliased

    return NoiseAliased(config, ctx)


def _noise_space(config: NoiseSpaceConfig, ctx: FinetuneContext) -> Finetuner:
    from outrider.policies.steering.noise_space import NoiseSpace

    return NoiseSpace(config, ctx)
