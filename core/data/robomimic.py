"""Reading robomimic's HDF5 files (0.2 to 0.5), low-dimensional data.

`data/demo_K` holds one demonstration: `obs/KEY` (T, ...), `actions` (T, A), `rewards`, `dones`,
perhaps `next_obs` and the simulator's `states`. `data.attrs["env_args"]` says how the environment
was made, and `mask/KEY` names subsets. Quaternions are x-y-z-w, as robosuite observes them.
"""

import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outrider.core.data.env_args import EnvArgs, parse_env_args
from outrider.core.data.errors import DataError
from outrider.core.errors import MissingDependency, OutriderError
from outrider.core.host.objects import DatasetInfo
from outrider.core.types import Episode, Field, Float, Spec, TaskSpec

MAX_ARRAY_BYTES = 2 << 30
STANDARD_KEYS = tuple(
    f"robot{i}_{key}" for i in range(4) for key in ("eef_pos", "eef_quat", "gripper_qpos")
)
NO_SEED = -1
_UNITS = {"pos": "m", "qpos": "m"}


def split_filter(path: Path) -> tuple[Path, str | None]:
    """`FILE#KEY` asks for the demonstrations that `mask/KEY` names."""
    file, hash_sign, key = path.name.rpartition("#")
    return (path.with_name(file), key) if hash_sign and file and key else (path, None)


def is_robomimic(path: Path) -> bool:
    """Whether the file is HDF5 with a `data` group that has `env_args`; damaged HDF5 counts."""
    file, _ = split_filter(path)
    if not file.is_file():
        return False
    with file.open("rb") as handle:
        if handle.read(8) != b"\x89HDF\r\n\x1a\n":
            return False
    try:
        with _h5py().File(file, "r") as opened:
            return "data" in opened and any(_number(name) >= 0 for name in opened["data"])
    except OSError:
        return file.suffix in (".hdf5", ".h5")  # so that the reader says what is wrong with it


class RobomimicReader:
    """An open robomimic file; a `DatasetReader` with random access.

    Args:
        path: the file, or `FILE#KEY` for the demonstrations that `mask/KEY` names.
        keys: observation keys, in order; None takes robomimic's low-dimensional ones: end
            effector position and quaternion and gripper of each robot, then `object`.

    Attributes:
        info: task, number of demonstrations, source with notes on what was left out or guessed.

    Raises:
        DataError: when the file as a whole cannot be used.
    """

    def __init__(self, path: Path, keys: Sequence[str] | None = None) -> None:
        self.path, self.filter = split_filter(path)
        notes: list[str] = []
        with self._open() as file:
            data = self._data_group(file)
            self._names = self._select(file, _ordered(data), notes)
            first = self._demo(data, self._names[0])
            shapes = self._observation_shapes(first)
            self.keys = tuple(keys) if keys is not None else _choose_keys(shapes, notes)
            unknown = [key for key in self.keys if key not in shapes]
            if unknown:
                raise self._error(
                    "is missing",
                    self._names[0],
                    f"obs/{unknown[0]}",
                    f"The file has {', '.join(sorted(shapes))}.",
                )
            env = parse_env_args(data.attrs.get("env_args"), self.path)
            lengths = [len(_dataset(data[name], "actions") or ()) for name in self._names]
            notes.extend(_assumptions(env, first))
            width = self._action_width(first)
            self._env = env
            self._task = _task(env, {k: shapes[k] for k in self.keys}, width, max(lengths))
            source = self._source(file, env, notes)
        self.info = DatasetInfo(self._task, len(self._names), source)

    def __len__(self) -> int:
        return len(self._names)

    def names(self) -> tuple[str, ...]:
        """The demonstrations' names, ordered by number."""
        return self._names

    def episode(self, index: int) -> Episode:
        """Read one demonstration.

        Raises:
            DataError: when it is damaged or its arrays disagree.
        """
        with self._open() as file:
            return self._read_episode(self._data_group(file), self._names[index])

    def episodes(self) -> Iterator[Episode]:
        """The demonstrations in the order of their numbers.

        Raises:
            DataError: at the first that is damaged or whose arrays disagree.
        """
        with self._open() as file:
            data = self._data_group(file)
            for name in self._names:
                yield self._read_episode(data, name)

    def _read_episode(self, data: Any, name: str) -> Episode:
        demo = self._demo(data, name)
        arrays = {
            field: self._array(demo, name, field)
            for field in ("actions", *(f"obs/{key}" for key in self.keys))
        }
        optional = ("rewards", "dones", *(f"next_obs/{key}" for key in self.keys), "states")
        arrays |= {f: self._array(demo, name, f) for f in optional if _dataset(demo, f) is not None}
        self._check_lengths(demo, name, arrays)
        return _episode(arrays, self.keys, self._env)

    def _check_lengths(self, demo: Any, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        steps = len(arrays["actions"])
        wrong = [field for field, array in arrays.items() if len(array) != steps]
        if wrong:
            more = f" (and {len(wrong) - 1} more fields disagree)" if len(wrong) > 1 else ""
            raise self._error(
                f"has {len(arrays[wrong[0]])} rows, actions has {steps}{more}", name, wrong[0]
            )
        if steps == 0:
            raise self._error("has no steps", name)
        declared = demo.attrs.get("num_samples", steps)
        if int(declared) != steps:
            raise self._error(f"num_samples is {declared}, actions has {steps} rows", name)
        expected = {f"obs/{f.name}": (steps, *f.shape) for f in self._task.observation.fields}
        expected["actions"] = (steps, self._task.action.size)
        for field, shape in expected.items():
            if arrays[field].shape != shape:
                raise self._error(
                    f"has shape {arrays[field].shape}, in {self._names[0]} rows of {shape[1:]}",
                    name,
                    field,
                )

    def _array(self, demo: Any, name: str, field: str) -> npt.NDArray[Any]:
        dataset = _dataset(demo, field)
        if dataset is None:
            raise self._error("is missing", name, field)
        if dataset.dtype.kind not in "biuf" or not dataset.shape:
            raise self._error(f"is no numeric array ({dataset.dtype})", name, field)
        if dataset.nbytes > MAX_ARRAY_BYTES:
            raise self._error(f"declares {dataset.nbytes} bytes, too many", name, field)
        if dataset.nbytes and not dataset.id.get_storage_size():
            raise self._error("was declared but never written", name, field)
        try:
            return np.asarray(dataset[()])
        except (OSError, RuntimeError, ValueError) as error:
            raise self._error(f"cannot be read ({_brief(error)})", name, field) from error

    def _action_width(self, demo: Any) -> int:
        actions = _dataset(demo, "actions")
        if actions is None or len(actions.shape) != 2 or not actions.shape[1]:
            found = "is missing" if actions is None else f"has shape {actions.shape}"
            raise self._error(found, self._names[0], "actions")
        return int(actions.shape[1])

    def _observation_shapes(self, demo: Any) -> dict[str, tuple[int, ...]]:
        h5py = _h5py()
        group = demo.get("obs")
        if not isinstance(group, h5py.Group):
            raise self._error(
                "is missing: the file holds simulator states only",
                self._names[0],
                "obs",
                "Extract observations with robomimic's dataset_states_to_obs.py.",
            )
        return {
            key: tuple(item.shape[1:])
            for key, item in group.items()
            if isinstance(item, h5py.Dataset)
        }

    def _select(self, file: Any, names: tuple[str, ...], notes: list[str]) -> tuple[str, ...]:
        if not names:
            raise self._error("holds no group demo_K", field="data")
        if self.filter is None:
            return names
        masks = _masks(file)
        if self.filter not in masks:
            raise self._error(
                f"there is no filter {self.filter!r}",
                field="mask",
                fix=f"The file has: {', '.join(masks) or 'none'}.",
            )
        wanted = masks[self.filter]
        absent = sorted(wanted - set(names), key=_number)
        if absent:
            notes.append(f"mask/{self.filter} names {len(absent)} absent ones, such as {absent[0]}")
        chosen = tuple(name for name in names if name in wanted)
        if not chosen:
            raise self._error(f"filter {self.filter!r} selects no demonstration", field="mask")
        return chosen

    def _source(self, file: Any, env: EnvArgs, notes: list[str]) -> dict[str, Any]:
        return {
            "format": "robomimic",
            "file": self.path.name,
            "filter": self.filter,
            "filters": {name: len(demos) for name, demos in _masks(file).items()},
            "env_args": env.values,
            "quaternions": "x-y-z-w",
            "notes": notes,
        }

    def _data_group(self, file: Any) -> Any:
        h5py = _h5py()
        if not isinstance(file.get("data"), h5py.Group):
            raise self._error("is missing", field="data")
        return file["data"]

    def _demo(self, data: Any, name: str) -> Any:
        h5py = _h5py()
        try:
            demo = data.get(name)
        except (KeyError, OSError, RuntimeError) as error:
            raise self._error(f"cannot be read ({_brief(error)})", name) from error
        if not isinstance(demo, h5py.Group):
            raise self._error("is no group", name)
        return demo

    @contextmanager
    def _open(self) -> Iterator[Any]:
        try:
            file = _h5py().File(self.path, "r")
        except OSError as error:
            raise self._error(
                f"is no readable HDF5 file ({_brief(error)})",
                fix="Copy it again: it is probably truncated.",
            ) from error
        with file:
            try:
                yield file
            except OutriderError:
                raise
            except (OSError, KeyError, RuntimeError, ValueError, TypeError) as error:
                raise self._error(f"is damaged ({_brief(error)})") from error

    def _error(self, what: str, episode: str = "", field: str = "", fix: str = "") -> DataError:
        return DataError(what, path=self.path, episode=episode, field=field, fix=fix)


def _episode(arrays: Mapping[str, npt.NDArray[Any]], keys: Sequence[str], env: EnvArgs) -> Episode:
    steps = len(arrays["actions"])
    observation = _concatenate([arrays[f"obs/{key}"] for key in keys])
    final = observation[-1].copy()
    if all(f"next_obs/{key}" in arrays for key in keys):
        final = _concatenate([arrays[f"next_obs/{key}"][-1:] for key in keys])[0]
    reward = _float32(arrays.get("rewards", np.zeros(steps)).reshape(steps))
    success = env.success(reward)
    done = bool(arrays["dones"][-1]) if "dones" in arrays else False
    return Episode(
        observation=observation,
        action=_float32(arrays["actions"]),
        reward=reward,
        success=success,
        final_observation=final,
        terminated=done and bool(success[-1]),
        truncated=not (done and bool(success[-1])),
        seed=NO_SEED,
        extra={"states": arrays["states"]} if "states" in arrays else {},
    )


def _concatenate(parts: Sequence[npt.NDArray[Any]]) -> Float:
    flat = [_float32(part.reshape(len(part), -1)) for part in parts]
    return np.concatenate(flat, axis=1)


def _float32(array: npt.NDArray[Any]) -> Float:
    with np.errstate(over="ignore"):  # becomes infinite, which every reader of it refuses
        return array.astype(np.float32)


def _choose_keys(shapes: Mapping[str, tuple[int, ...]], notes: list[str]) -> tuple[str, ...]:
    vectors = [key for key, shape in shapes.items() if len(shape) <= 1]
    images = sorted(set(shapes) - set(vectors))
    if images:
        notes.append(f"images are not read: {', '.join(images)}")
    standard = [key for key in (*STANDARD_KEYS, "object") if key in vectors]
    if standard and "object" not in standard:
        notes.append("no obs/object: the observation holds the robot alone")
    return tuple(standard or sorted(vectors))


def _assumptions(env: EnvArgs, demo: Any) -> Iterator[str]:
    if "next_obs" not in demo:
        yield "no next_obs: the final observation repeats the last one"
    if env.control_hz is None:
        yield f"env_args have no control_freq: {env.rate_hz:g} Hz assumed"
    if not env.knows_success:
        yield "the file does not say what success is: none is reported"
    if env.is_robosuite_15:
        yield "obs/object follows robosuite 1.5, whose relative part has another sign than 1.4"


def _task(
    env: EnvArgs, shapes: Mapping[str, tuple[int, ...]], width: int, longest: int
) -> TaskSpec:
    observation = Spec(
        tuple(
            Field(key, shape, _UNITS.get(key.rpartition("_")[2], ""))
            for key, shape in shapes.items()
        )
    )
    return TaskSpec(
        task=env.task,
        observation=observation,
        action=env.action_spec(width),
        rate_hz=env.rate_hz,
        max_steps=longest,
        ends_on_success=False,
        reward="as recorded in the file",
    )


def _ordered(data: Any) -> tuple[str, ...]:
    return tuple(sorted((n for n in data if _number(n) >= 0), key=lambda n: (_number(n), n)))


def _number(name: str) -> int:
    found = re.fullmatch(r"demo_(\d{1,18})", name)
    return int(found.group(1)) if found else -1


def _masks(file: Any) -> dict[str, set[str]]:
    h5py = _h5py()
    group = file.get("mask")
    if not isinstance(group, h5py.Group):
        return {}
    return {
        name: {n.decode() if isinstance(n, bytes) else str(n) for n in np.asarray(item[()]).ravel()}
        for name, item in group.items()
        if isinstance(item, h5py.Dataset)
    }


def _dataset(group: Any, name: str) -> Any:
    """The dataset, or None; links into other files are not followed."""
    h5py = _h5py()
    if isinstance(group.get(name, getlink=True), h5py.ExternalLink):
        return None
    item = group.get(name)
    if not isinstance(item, h5py.Dataset) or item.external or item.is_virtual:
        return None
    return item


def _h5py() -> Any:
    try:
        return importlib.import_module("h5py")  # untyped, and not needed to import this module
    except ImportError as error:
        raise MissingDependency("h5py", "sim", "reading HDF5 demonstrations") from error


def _brief(error: Exception) -> str:
    """HDF5's message without its inner state."""
    return " ".join(str(error).split())[:160]
