"""The plugin `df-expense`."""

from outrider.core.host.hookspecs import hookimpl
from outrider.core.host.objects import RunContext
from outrider.core.learning.types import Explorer
from outrider.plugins.df_expense.config import DfExpEnseConfig
from outrider.plugins.df_expense.explorer import DfExpEnse


class DfExpEnsePlugin:
    """Exploration with diffusion-policy candidates and a critic ensemble (arXiv 2606.19656)."""

    name = "df-expense"
    api = 1
    Config = DfExpEnseConfig

    def __init__(self, config: DfExpEnseConfig) -> None:
        self.config = config

    @hookimpl
    def explorer(self, ctx: RunContext) -> Explorer:
        """One explorer for the run."""
        return DfExpEnse(self.config)
