"""One torch thread in tests: shared machines stay usable, and results do not depend on cores."""

import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _one_torch_thread():
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def pytest_configure(config):
    """Let tests import the fakes that stand beside them."""
    for folder in Path(__file__).parent.rglob("*_fakes.py"):
        if str(folder.parent) not in sys.path:
            sys.path.insert(0, str(folder.parent))
