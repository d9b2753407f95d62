"""docs/bundle.md against the code: its program runs, and it names every key."""

import re
import subprocess
import sys
from pathlib import Path

import bundle_fakes as fakes

from outrider.core.bundle.manifest import Graph, Manifest, Member, Parity

PAGE = (Path(__file__).parents[3] / "docs" / "bundle.md").read_text(encoding="utf-8")


def test_the_program_of_the_page_runs(tmp_path):
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len([line for line in program.splitlines() if line.strip()]) <= 15
    assert "outrider" not in program
    path = fakes.make_bundle(tmp_path / "b.outrider")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    name, shape, error = re.fullmatch(r"(\S+) (\(.*\)) (\S+)\n", done.stdout).groups()
    assert (name, shape) == (fakes.NAME, f"({fakes.N}, {fakes.E}, {fakes.A})")
    assert float(error) <= 1e-5


def test_the_page_names_every_key():
    table = re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.MULTILINE)
    assert [key for key in table if key in Manifest.model_fields] == list(Manifest.model_fields)
    for model in (Graph, Parity, Member):
        for key in model.model_fields:
            assert f"`{key}`" in PAGE, key
    for key in fakes.manifest().task:
        assert f"`{key}`" in PAGE, key
