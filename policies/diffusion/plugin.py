"""Offers the diffusion policy to the host; torch is imported when a policy is built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from outrider.core.config import NoConfig
from outrider.core.host.hookspecs import hookimpl
from outrider.core.host.objects import PolicyProvider
from outrider.core.types import TaskSpec
from outrider.policies.diffusion.config import DiffusionConfig

if TYPE_CHECKING:
    from outrider.core.learning.types import TrainablePolicy


def build(config: DiffusionConfig, task: TaskSpec) -> TrainablePolicy:
    """The policy for a task, with weights that are drawn but not trained."""
    from outrider.policies.diffusion import policy

    return policy.build(config, task)


class DiffusionPlugin:
    """The built-in diffusion policy."""

    name = "diffusion"
    api = 1
    Config = NoConfig

    def __init__(self, config: NoConfig | None = None) -> None:
        self.config = config or NoConfig()

    @hookimpl
    def policies(self) -> Sequence[PolicyProvider]:
        """One policy: `diffusion`."""
        return (PolicyProvider("diffusion", DiffusionConfig, build),)
