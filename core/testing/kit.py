"""All checks in one call."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from outrider.core.learning.types import Capabilities
from outrider.core.testing.declaration import (
    check_config,
    check_declaration,
    check_instance,
    check_type_hints,
)
from outrider.core.testing.exploring import (
    check_evaluation_unchanged,
    check_explorer_choices,
    check_explorer_permutation,
)
from outrider.core.testing.fakes import fake_capabilities
from outrider.core.testing.makers import check_deterministic, check_state_round_trip
from outrider.core.testing.offers import check_offers
from outrider.core.testing.subject import Subject
from outrider.core.testing.telling import (
    check_bundle_parts,
    check_diagnostic,
    check_gate,
    check_notices,
)

CHECKS: tuple[Callable[[Subject], None], ...] = (
    check_declaration,
    check_config,
    check_instance,
    check_type_hints,
    check_offers,
    check_deterministic,
    check_explorer_choices,
    check_explorer_permutation,
    check_evaluation_unchanged,
    check_state_round_trip,
    check_diagnostic,
    check_bundle_parts,
    check_notices,
    check_gate,
)
"""In the order in which they run: a later one relies on what the earlier ones found."""


def check_plugin(
    plugin_class: type[Any],
    config: Mapping[str, Any] | None = None,
    *,
    capabilities: Capabilities | None = None,
) -> None:
    """Run every check that a plugin must pass; those of hooks that it lacks pass at once.

    Args:
        plugin_class: the class that the entry point names.
        config: what a recipe would say under the plugin's name; None for its defaults.
        capabilities: of the finetuner that its makers are to work with; None for an off-policy
            one with four critics on actions and a prior.

    Raises:
        AssertionError: a sentence that says what does not hold.
        OutriderError: the sentence with which the host would refuse the plugin in a run.
    """
    with tempfile.TemporaryDirectory() as folder:
        subject = Subject(
            plugin_class, config or {}, capabilities or fake_capabilities(), Path(folder)
        )
        for check in CHECKS:
            check(subject)
