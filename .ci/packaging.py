"""Checks of the packaging: a mapping of folders can fail in five ways with exit status zero.

1. the wheel holds every file of the source folders;
2. the wheel, installed alone with the base dependencies, runs outside the checkout;
3. the type checker sees the code (a planted error is found);
4. a clone without symbolic links installs and imports;
5. `import core` is refused.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("core", "policies", "robots", "plugins", "configs")
SHIPPED = {".py", ".typed", ".yaml", ".html", ".xml"}


def run(*command: str | Path, cwd: Path, expect: int = 0) -> str:
    """Run a command without our checkout on the path; returns what it printed."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MYPYPATH")}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True
    )
    if done.returncode != expect:
        sys.exit(
            f"{' '.join(map(str, command))}: exit status {done.returncode}, expected {expect}\n"
            f"{done.stdout}{done.stderr}"
        )
    return done.stdout + done.stderr


def tracked(folder: str) -> set[str]:
    """Files of a source folder that belong into the wheel."""
    listed = run("git", "ls-files", folder, cwd=ROOT).split()
    return {name for name in listed if Path(name).suffix in SHIPPED}


def check_wheel_content(scratch: Path) -> Path:
    """Build the wheel through the source distribution, and compare its files with the folders."""
    run(sys.executable, "-m", "build", "--outdir", scratch / "dist", ROOT, cwd=scratch)
    (wheel,) = (scratch / "dist").glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    expected = {f"outrider/{name}" for folder in FOLDERS for name in tracked(folder)}
    missing = sorted(expected - held)
    if missing:
        sys.exit(f"the wheel lacks {missing}")
    return wheel


def check_wheel_alone(scratch: Path, wheel: Path) -> None:
    """A base install of the wheel works without a simulator, outside the checkout."""
    venv = scratch / "base"
    run(sys.executable, "-m", "venv", venv, cwd=scratch)
    python = venv / "bin" / "python"
    constraint = ROOT / "constraints.txt"
    run(python, "-m", "pip", "install", "-q", "-c", constraint, wheel, cwd=scratch)
    run(python, ROOT / "tests" / "smoke.py", cwd=scratch)


def check_types_are_seen(scratch: Path) -> None:
    """A type error in a source folder must be reported: a green checker may have seen nothing."""
    planted = ROOT / "core" / "_planted.py"
    planted.write_text('WRONG: int = "text"\n')
    try:
        said = run(sys.executable, "-m", "mypy", "-p", "outrider.core", cwd=ROOT, expect=1)
    finally:
        planted.unlink()
    if "_planted.py:1: error" not in said:
        sys.exit(f"mypy does not see the source folders:\n{said}")


def check_clone_without_links(scratch: Path) -> None:
    """Install from a clone whose symbolic links are plain files."""
    clone = scratch / "clone"
    run("git", "clone", "-q", "-c", "core.symlinks=false", ROOT, clone, cwd=scratch)
    venv = scratch / "linkless"
    run(sys.executable, "-m", "venv", venv, cwd=scratch)
    python = venv / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", clone, cwd=scratch)
    run(python, ROOT / "tests" / "smoke.py", cwd=scratch)


def check_second_name_is_refused() -> None:
    """From the checkout, `import core` would make a second copy of every class."""
    said = run(sys.executable, "-c", "import core", cwd=ROOT, expect=1)
    if "outrider.core" not in said:
        sys.exit(f"`import core` fails without saying what to import:\n{said}")


def main() -> None:
    """Run all checks."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        check_second_name_is_refused()
        check_types_are_seen(scratch)
        wheel = check_wheel_content(scratch)
        check_wheel_alone(scratch, wheel)
        check_clone_without_links(scratch)
    sys.stdout.write("packaging: wheel complete, runs alone, types seen, links not needed\n")


if __name__ == "__main__":
    main()
