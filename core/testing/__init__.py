"""The conformance kit: give it a plugin class and it runs what every plugin must pass.

    from outrider.core.testing import check_plugin

    def test_my_plugin():
        check_plugin(MyPlugin, {"gain": 2.0})

No test framework is needed: a check returns nothing, or raises with one sentence. Checks can be
called one at a time, and the fakes beside them are for your own tests.
"""

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
from outrider.core.testing.fakes import (
    FakeSimulator,
    fake_capabilities,
    fake_episode,
    fake_run_context,
    fake_task,
)
from outrider.core.testing.kit import check_plugin
from outrider.core.testing.makers import check_deterministic, check_state_round_trip
from outrider.core.testing.offers import check_offers
from outrider.core.testing.randomness import untouched_randomness
from outrider.core.testing.subject import Subject
from outrider.core.testing.telling import (
    check_bundle_parts,
    check_diagnostic,
    check_gate,
    check_notices,
)

__all__ = [
    "FakeSimulator",
    "Subject",
    "check_bundle_parts",
    "check_config",
    "check_declaration",
    "check_deterministic",
    "check_diagnostic",
    "check_evaluation_unchanged",
    "check_explorer_choices",
    "check_explorer_permutation",
    "check_gate",
    "check_instance",
    "check_notices",
    "check_offers",
    "check_plugin",
    "check_state_round_trip",
    "check_type_hints",
    "fake_capabilities",
    "fake_episode",
    "fake_run_context",
    "fake_task",
    "untouched_randomness",
]
