"""What a base install must do, without torch, a simulator or ONNX Runtime. Run as a script."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

HEAVY = ("torch", "mujoco", "robosuite", "dm_control", "gymnasium", "zarr", "onnxruntime")


def command(*arguments):
    """Run the installed command; returns exit status and standard output."""
    words = [str(Path(sys.executable).parent / "outrider"), *arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def main():
    present = [name for name in HEAVY if importlib.util.find_spec(name)]
    assert not present, f"a base install must not bring {present}"
    import outrider.core.types

    assert "site-packages" in outrider.core.types.__file__, outrider.core.types.__file__
    status, listed, _ = command("plugins", "--json")
    assert status == 0
    found = {plugin["name"]: plugin["state"] for plugin in json.loads(listed)["plugins"]}
    assert found and set(found.values()) == {"ready"}, found
    assert command("verify", "--help")[0] == 0
    assert command("tasks")[0] == 0
    status, _, error = command("run", "quickstart", "--out", "nowhere")
    assert status == 2 and "outrider[cpu,sim]" in error and error.count("\n") == 1, error


main()
