"""Writing and reading the bundle file, and checking it against its own manifest.

The file is a zip in the canonical form of `stored`. A bundle comes from somewhere else:
everything about it is bounded before it is believed.
"""

import hashlib
import io
import math
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from outrider.core.bundle import stored
from outrider.core.bundle.manifest import Manifest, Member, parse_manifest, short
from outrider.core.errors import CheckFailed, OutriderError
from outrider.core.files import write_bytes
from outrider.core.task_json import task_from_json
from outrider.core.types import Float, TaskSpec

SUFFIX = ".outrider"
MANIFEST, PARITY = "manifest.json", "parity.npz"
MAX_BYTES, MAX_MEMBERS = stored.MAX_BYTES, stored.MAX_MEMBERS
MAX_MANIFEST_BYTES = 16 << 20
MAX_PARITY_BYTES = 256 << 20
MAX_ELEMENTS = 1 << 20
"""Most numbers in one observation, and in one chunk."""
MIN_RATE_HZ, MAX_RATE_HZ = 1e-3, 1e5
"""Control rates that a clock can wait for and a loop can count."""

_LIMITS = {MANIFEST: MAX_MANIFEST_BYTES, PARITY: MAX_PARITY_BYTES}
_ARRAYS = ("action", "noise", "observation")
_AGAIN = "Export it again."
_UNTOUCHED = "Do not run it; fetch the bundle again from where it was published."


@dataclass(frozen=True, slots=True)
class ParityVectors:
    """Recorded observations, the noise that went with them, and what the policy answered.

    Attributes:
        observation: (n, O), physical units.
        noise: (n, H, A).
        action: (n, E, A), physical units.
    """

    observation: Float
    noise: Float
    action: Float

    def to_bytes(self) -> bytes:
        """As `parity.npz`; equal vectors give equal bytes."""
        return stored.pack({f"{name}.npy": _save(getattr(self, name)) for name in _ARRAYS}, PARITY)


@dataclass(frozen=True, slots=True)
class Bundle:
    """An opened bundle. Its members were checked against the manifest when it was opened.

    Attributes:
        path: the file.
        manifest: the contract.
        task: the task's specs.
        members: name -> content, without the manifest.
    """

    path: Path
    manifest: Manifest
    task: TaskSpec
    members: Mapping[str, bytes] = field(repr=False)

    def graph(self) -> bytes:
        """The ONNX graph."""
        return self.members[self.manifest.graph.file]

    def parity(self) -> ParityVectors:
        """The recorded vectors.

        Raises:
            OutriderError: when they are damaged, not finite, or of other shapes than the manifest.
        """
        H, E, A = self.manifest.horizon, self.manifest.execute, self.task.action.size
        n, where = self.manifest.parity.n, f"{self.path}: {PARITY}"
        files = stored.unpack(io.BytesIO(self.members[PARITY]), where, {})
        if set(files) != {f"{name}.npy" for name in _ARRAYS}:
            raise OutriderError(
                f"it holds {sorted(files)}, expected {', '.join(_ARRAYS)}", where=where, fix=_AGAIN
            )
        return ParityVectors(
            observation=_load("observation", files, (n, self.task.observation.size), where),
            noise=_load("noise", files, (n, H, A), where),
            action=_load("action", files, (n, E, A), where),
        )


def write_bundle(path: Path, manifest: Manifest, members: Mapping[str, bytes]) -> Manifest:
    """Write a bundle atomically; returns the manifest with the members' digests filled in.

    Raises:
        OutriderError: for a member name that is not plain and relative, a manifest that JSON
            cannot hold, 2 GiB or more, or a full disk.
    """
    if MANIFEST in members:
        raise OutriderError(f"a member is called {MANIFEST}", where=str(path), fix="Rename it.")
    digests = {
        name: Member(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
        for name, content in sorted(members.items())
    }
    complete = manifest.model_copy(update={"members": digests})
    try:
        text = complete.to_bytes()
    except (ValueError, TypeError) as error:
        raise OutriderError(
            f"the manifest is no JSON ({error})", where=str(path), fix="Look for NaN or infinity."
        ) from error
    write_bytes(path, stored.pack({**members, MANIFEST: text}, str(path)))
    return complete


def open_bundle(path: Path) -> Bundle:
    """Open a bundle and check every member against the manifest.

    Raises:
        OutriderError: when the file is missing, truncated, too large, of an unknown schema, or
            holds a name outside itself.
        CheckFailed: when a member is not the one that the manifest names.
    """
    where = str(path)
    contents = _read(path)
    if MANIFEST not in contents:
        raise OutriderError("manifest.json is missing: not a bundle", where=where, fix=_AGAIN)
    manifest = parse_manifest(contents.pop(MANIFEST), where)
    _check_members(where, manifest, contents)
    for needed in (manifest.graph.file, PARITY):
        if needed not in contents:
            raise OutriderError(f"{short(needed)} is missing", where=where, fix=_AGAIN)
    try:
        task = task_from_json(manifest.task)
    except (OutriderError, ValueError, OverflowError) as error:
        raise OutriderError(
            f"manifest.json: task is not usable ({short(error)})", where=where, fix=_AGAIN
        ) from error
    _check_sizes(where, manifest, task)
    return Bundle(path, manifest, task, contents)


def _read(path: Path) -> dict[str, bytes]:
    where = str(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # to open a pipe would wait for its writer
            raise OutriderError("this is no file", where=where, fix="Name the .outrider file.")
        with path.open("rb") as handle:
            return stored.unpack(handle, where, _LIMITS)
    except FileNotFoundError as error:
        raise OutriderError(
            "there is no such bundle", where=where, fix="Check the path."
        ) from error
    except (OSError, ValueError) as error:  # a ValueError is a path with a null byte
        reason = getattr(error, "strerror", None) or error
        raise OutriderError(
            f"cannot read: {reason}", where=where, fix="Check the path and its permissions."
        ) from error


def _check_members(where: str, manifest: Manifest, contents: Mapping[str, bytes]) -> None:
    missing = sorted(set(manifest.members) - set(contents))
    extra = sorted(set(contents) - set(manifest.members))
    if missing or extra:
        raise CheckFailed(
            f"members missing: {_list(missing)}; not in the manifest: {_list(extra)}",
            where=where,
            fix=_UNTOUCHED,
        )
    for name, content in contents.items():
        expected = manifest.members[name]
        digest = hashlib.sha256(content).hexdigest()
        if len(content) != expected.size or digest != expected.sha256:
            raise CheckFailed(
                f"{name} was changed: its SHA-256 is {digest[:12]}..., "
                f"the manifest says {expected.sha256[:12]}...",
                where=where,
                fix=_UNTOUCHED,
            )


def _list(names: list[str], most: int = 5) -> str:
    shown = ", ".join(repr(name[:80]) for name in names[:most])
    return (shown + (f" and {len(names) - most} more" if len(names) > most else "")) or "none"


def _check_sizes(where: str, manifest: Manifest, task: TaskSpec) -> None:
    """What the manifest says at one place has to agree with what it says at another."""
    A, H, E = task.action.size, manifest.horizon, manifest.execute
    reasons = []
    if len(manifest.action_scale) != A:
        reasons.append(f"action_scale has {len(manifest.action_scale)} numbers for {A} actions")
    if E > H:
        reasons.append(f"execute is {E}, larger than horizon, {H}")
    if max(task.observation.size, H * A) > MAX_ELEMENTS:
        reasons.append(f"an observation or a chunk has more than {MAX_ELEMENTS} numbers")
    if task.max_steps < 1:
        reasons.append(f"max_steps is {task.max_steps}")
    if not MIN_RATE_HZ <= task.rate_hz <= MAX_RATE_HZ:
        reasons.append(f"rate_hz is {task.rate_hz:g}, not {MIN_RATE_HZ:g} to {MAX_RATE_HZ:g}")
    reasons += [
        f"the field {f.name!r} has no elements"
        for f in (*task.observation.fields, *task.action.fields)
        if math.prod(f.shape) < 1
    ]
    reasons += _envelope_faults(manifest.safety, A)
    if reasons:
        raise OutriderError(f"manifest.json: {reasons[0]}", where=where, fix=_AGAIN)


def _envelope_faults(safety: Mapping[str, list[float]], size: int) -> list[str]:
    if not safety:
        return []
    low, high = safety.get("low", []), safety.get("high", [])
    if set(safety) != {"low", "high"} or len(low) != size or len(high) != size:
        return [f"safety must give low and high, {size} numbers each"]
    crossed = any(not a <= b for a, b in zip(low, high, strict=True))
    return ["safety has a low limit above its high limit"] if crossed else []


def _save(array: Float) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.ascontiguousarray(array), allow_pickle=False)
    return stream.getvalue()


def _load(name: str, files: Mapping[str, bytes], shape: tuple[int, ...], where: str) -> Float:
    """One array. Its header is believed only as far as it says what is expected."""
    content = files[f"{name}.npy"]
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        if version != (1, 0):
            raise ValueError(f"format version {version}")
        found, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
    except Exception as error:  # the header is a Python literal, and may be any nonsense
        raise OutriderError(f"{name} cannot be read ({error})", where=where, fix=_AGAIN) from error
    if found != shape or dtype != np.dtype("<f4") or by_columns:
        raise OutriderError(
            f"{name} is {dtype} {found}, expected float32 {shape}", where=where, fix=_AGAIN
        )
    start = stream.tell()
    if len(content) - start != 4 * math.prod(shape):
        raise OutriderError(f"{name} is cut off or too long", where=where, fix=_AGAIN)
    array: Float = np.frombuffer(content, np.float32, offset=start).reshape(shape).copy()
    if not np.isfinite(array).all():
        raise OutriderError(f"{name} is not finite", where=where, fix=_AGAIN)
    return array
