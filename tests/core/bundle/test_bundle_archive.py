"""A bundle against everything that may have happened to it on its way."""

import hashlib
import io
import json
import os
import zipfile

import bundle_fakes as fakes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.core.bundle import stored
from outrider.core.bundle.archive import ParityVectors, open_bundle, write_bundle
from outrider.core.bundle.manifest import Member
from outrider.core.errors import CheckFailed, OutriderError


@pytest.fixture
def path(tmp_path):
    return fakes.make_bundle(tmp_path / "fake-0.1.0.outrider")


def check_refused(path, *words, kind=OutriderError):
    with pytest.raises(OutriderError) as caught:
        open_bundle(path).parity()
    assert type(caught.value) is kind
    text = str(caught.value)
    assert text.startswith(str(path)) and "\n" not in text
    assert len(text) < len(str(path)) + 700
    assert caught.value.fix, "an error says what to do"
    for word in words:
        assert word in text
    return text


def repack(path, change):
    """Change the members behind the manifest's back."""
    with path.open("rb") as handle:
        members = stored.unpack(handle, str(path), {})
    change(members)
    path.write_bytes(stored.pack(members, str(path)))


def rewrite_manifest(path, change):
    """Change the manifest as JSON; `change` returns text or edits the values in place."""

    def edit(members):
        values = json.loads(members["manifest.json"])
        text = change(values)
        members["manifest.json"] = (text if isinstance(text, str) else json.dumps(values)).encode()

    repack(path, edit)


# --- what holds ---------------------------------------------------------------------------------


def test_round_trip(path):
    bundle = open_bundle(path)
    assert bundle.task == fakes.TASK
    assert bundle.graph() == fakes.graph()
    assert bundle.manifest.horizon == fakes.H and bundle.manifest.execute == fakes.E
    found, expected = bundle.parity(), fakes.vectors()
    for name in ("observation", "noise", "action"):
        array = getattr(found, name)
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, getattr(expected, name))


def test_equal_content_gives_equal_bytes(path, tmp_path):
    again = tmp_path / "elsewhere" / "other-name.outrider"
    fakes.make_bundle(again, extra={})
    assert again.read_bytes() == path.read_bytes()
    members = dict(reversed(fakes.members().items()))
    write_bundle(again, fakes.manifest(), members)
    assert again.read_bytes() == path.read_bytes()


def test_members_are_sorted_and_digested(tmp_path):
    path = fakes.make_bundle(tmp_path / "b", extra={"parts/p/z.bin": b"z", "a.txt": b"a"})
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        manifest = json.loads(archive.read("manifest.json"))
        assert names == sorted(names) and set(names) == {*manifest["members"], "manifest.json"}
        for name, member in manifest["members"].items():
            content = archive.read(name)
            assert member == {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}


def test_parity_vectors_can_be_read_by_numpy_alone(path):
    with np.load(io.BytesIO(open_bundle(path).members["parity.npz"])) as arrays:
        assert set(arrays) == {"observation", "noise", "action"}
        np.testing.assert_array_equal(arrays["action"], fakes.vectors().action)


# --- damage -------------------------------------------------------------------------------------


def test_truncated(path):
    data = path.read_bytes()
    for length in sorted({*range(0, len(data), 97), len(data) - 1}):
        path.write_bytes(data[:length])
        check_refused(path)


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_any_flipped_byte(path, data):
    content = fakes.make_bundle(path).read_bytes()
    position = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bytes(changed))
    with pytest.raises(OutriderError):
        open_bundle(path)


def test_changed_member(path):
    def change(members):
        members["policy.onnx"] = members["policy.onnx"][:-1] + b"\x00"

    repack(path, change)
    check_refused(path, "policy.onnx was changed", "Do not run it", kind=CheckFailed)


def test_missing_and_extra_members(path):
    repack(path, lambda members: members.pop("parity.npz"))
    check_refused(path, "members missing: 'parity.npz'", kind=CheckFailed)
    fakes.make_bundle(path)
    repack(path, lambda members: members.update({"parts/x/evil.py": b""}))
    check_refused(path, "not in the manifest: 'parts/x/evil.py'", kind=CheckFailed)


def test_many_strange_members_make_a_short_line(path):
    repack(path, lambda members: members.update({f"{'x' * 200}{i}": b"" for i in range(900)}))
    assert "and 895 more" in check_refused(path, kind=CheckFailed)


def test_members_that_every_bundle_has(path):
    repack(path, lambda members: members.pop("manifest.json"))
    check_refused(path, "not a bundle")
    write_bundle(path, fakes.manifest(), fakes.members(**{"parity.npz": None}))
    check_refused(path, "parity.npz is missing")
    write_bundle(path, fakes.manifest(), fakes.members(**{"policy.onnx": None}))
    check_refused(path, "policy.onnx is missing")


@pytest.mark.parametrize("name", ["../x", "/abs", "C:\\x", "a\\b", "dir/", ".x"])
def test_writing_a_name_outside(tmp_path, name):
    with pytest.raises(OutriderError, match="not plain and relative"):
        fakes.make_bundle(tmp_path / "b", extra={name: b""})
    assert not list(tmp_path.iterdir())


def test_what_is_no_bundle_at_all(tmp_path):
    check_refused(tmp_path / "none", "no such bundle")
    check_refused(tmp_path, "this is no file")
    (tmp_path / "text").write_text("hello, I am a bundle, honestly\n")
    check_refused(tmp_path / "text", "no bundle at all")
    os.mkfifo(tmp_path / "pipe")
    check_refused(tmp_path / "pipe", "this is no file")


def test_a_huge_manifest_is_not_read(path):
    repack(path, lambda members: members.update({"manifest.json": b" " * ((16 << 20) + 1)}))
    check_refused(path, "manifest.json has 16777217 bytes")


# --- the manifest -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2, "1", None, True, 1.0, [1], "x" * 10_000])
def test_unknown_schema(path, version):
    rewrite_manifest(path, lambda values: values.update(schema_version=version))
    check_refused(path, "schema version", "Update Outrider")


NOTHING = {"name": "empty", "shape": [0], "low": None, "high": None}


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda v: v.update(colour="red"), "manifest.json.colour: unknown key"),
        (lambda v: v["parity"].update(toleranse=1), "did you mean 'tolerance'"),
        (lambda v: v.pop("horizon"), "manifest.json.horizon: field required"),
        (lambda v: v.update(name="../../x"), "manifest.json.name"),
        (lambda v: v.update(version="1.0"), "manifest.json.version"),
        (lambda v: v["parity"].update(tolerance=2.0), "manifest.json.parity.tolerance"),
        (lambda v: v["parity"].update(tolerance=0), "manifest.json.parity.tolerance"),
        (lambda v: v.update(name="x" * 1_000_000 + "!"), "manifest.json.name"),
        (lambda v: v.update({"k" * 1_000_000: 1}), "unknown key"),
        (lambda v: v.update(action_scale=[1.0]), "action_scale has 1 numbers for 2 actions"),
        (lambda v: v.update(action_scale=[1.0, 0.0]), "manifest.json.action_scale"),
        (lambda v: v.update(execute=fakes.H + 1), "execute is 5, larger than horizon, 4"),
        (lambda v: v.update(horizon=10**15), "more than 1048576 numbers"),
        (lambda v: v.update(safety={"low": [0.0]}), "safety must give low and high"),
        (lambda v: v.update(safety={"low": [1, 1], "high": [0, 2]}), "low limit above"),
        (lambda v: v["task"].pop("rate_hz"), "task is not usable"),
        (lambda v: v["task"].update(rate_hz=0), "task is not usable"),
        (lambda v: v["task"].update(rate_hz=1e308), "rate_hz is 1e+308"),
        (lambda v: v["task"].update(rate_hz=1e9), "rate_hz is 1e+09"),
        (lambda v: v["task"].update(rate_hz=1e-300), "rate_hz is 1e-300"),
        (lambda v: v["task"].update(max_steps=0), "max_steps is 0"),
        (
            lambda v: v["task"]["action"].append({**v["task"]["action"][0], **NOTHING}),
            "the field 'empty' has no elements",
        ),
        (lambda v: v["task"].update(action=[]), "task is not usable"),
        (lambda v: v["task"]["observation"][0].update(shape=[10**9]), "more than"),
        (lambda v: v["task"]["observation"][0].update(shape=[10**30]), "more than 1048576 numbers"),
        (lambda v: v["task"]["observation"][0].update(shape="abc"), "task is not usable"),
        (lambda v: v["task"]["action"][0].update(shape="9" * 5000), "task is not usable"),
        (lambda v: v["graph"].update(file="x" * 5000), "is missing"),
        (lambda v: "[]", "no mapping"),
        (lambda v: "{", "not JSON"),
        (lambda v: "[" * 100_000, "not JSON"),
        (lambda v: '{"schema_version": 1, "schema_version": 1}', "a key occurs twice"),
        (lambda v: '{"schema_version": NaN}', "NaN is no JSON number"),
        (lambda v: '{"schema_version": ' + "9" * 10_000 + "}", "not JSON"),
    ],
)
def test_manifests_that_say_nonsense(path, change, words):
    rewrite_manifest(path, change)
    check_refused(path, words)


def test_manifests_that_are_no_text(path):
    repack(path, lambda members: members.update({"manifest.json": b"\xff\xfe\x00"}))
    check_refused(path, "not JSON")


def test_a_manifest_that_json_cannot_hold(tmp_path):
    with pytest.raises(OutriderError, match="no JSON"):
        fakes.make_bundle(tmp_path / "b", evaluation={"success": object()})
    assert not list(tmp_path.iterdir())


def test_an_evaluation_that_is_no_number_becomes_null(path):
    fakes.make_bundle(path, evaluation={"success": float("nan")})
    assert open_bundle(path).manifest.evaluation == {"success": None}


# --- the recorded vectors -----------------------------------------------------------------------


def arrays(**changes):
    found = {
        name: getattr(fakes.vectors(), name) for name in ("observation", "noise", "action")
    } | changes
    return {name: array for name, array in found.items() if array is not None}


def npz(**changes):
    """parity.npz with arrays exchanged, in the canonical form."""
    files = {}
    for name, array in arrays(**changes).items():
        stream = io.BytesIO()
        np.save(stream, array, allow_pickle=True)
        files[f"{name}.npy"] = stream.getvalue()
    return stored.pack(files, "parity.npz")


def poisoned(value):
    action = fakes.vectors().action.copy()
    action[7, 1, 0] = value
    return action


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"action": poisoned(np.nan)}, "action is not finite"),
        ({"action": poisoned(np.inf)}, "action is not finite"),
        ({"action": fakes.vectors().action.astype(np.float64)}, "action is float64"),
        ({"action": fakes.vectors().action.astype(">f4")}, "action is >f4"),
        ({"action": fakes.vectors().action[:-1]}, "action is float32 (119, 2, 2)"),
        ({"noise": fakes.vectors().noise[:, :2]}, "noise is float32 (120, 2, 2)"),
        ({"observation": np.asfortranarray(fakes.vectors().observation)}, "observation is"),
        ({"observation": np.float32(1)}, "observation is float32 ()"),
        ({"noise": None}, "expected action, noise, observation"),
        ({"more": np.zeros(3, np.float32)}, "expected action, noise, observation"),
        ({"action": np.array([print] * 3, dtype=object)}, "action is object"),
    ],
)
def test_vectors_of_another_kind(path, changes, words):
    fakes.make_bundle(path, parity=npz(**changes))
    check_refused(path, words)


def test_objects_are_never_unpickled(path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("it was unpickled",))

    bomb = np.empty(1, dtype=object)
    bomb[0] = Bomb()
    fakes.make_bundle(path, parity=npz(action=bomb))
    check_refused(path, "action is object")


def header(shape, version=(1, 0)):
    stream = io.BytesIO()
    described = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, described)
    return stream.getvalue().replace(b"\x93NUMPY\x01\x00", b"\x93NUMPY" + bytes(version))


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "cannot be read"),
        (b"\x93NUMPY", "cannot be read"),
        (header((fakes.N, fakes.E, fakes.A)), "cut off"),
        (header((fakes.N, fakes.E, fakes.A)) + bytes(10**5), "cut off or too long"),
        (header((10**12, 10**6)), "expected float32"),
        (header((1,), version=(3, 0)), "format version"),
        (b"\x93NUMPY\x01\x00\x04\x00os()", "cannot be read"),
        (b"\x93NUMPY\x01\x00\xff\xff" + b"[" * 65535, "cannot be read"),
    ],
)
def test_headers_are_not_believed(path, content, words):
    good = stored.unpack(io.BytesIO(fakes.vectors().to_bytes()), "", {})
    fakes.make_bundle(path, parity=stored.pack(good | {"action.npy": content}, ""))
    check_refused(path, words)


def test_vectors_compressed_or_by_another_writer(path):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays(observation=np.zeros((10**6,), np.float32)))
    fakes.make_bundle(path, parity=buffer.getvalue())
    check_refused(path, "compressed")
    fakes.make_bundle(path, parity=b"PK")
    check_refused(path, "damaged")


def test_the_count_of_vectors_is_the_manifests(path):
    few = ParityVectors(*(arrays()[k][:50] for k in ("observation", "noise", "action")))
    fakes.make_bundle(path, parity=few)
    check_refused(path, "expected float32 (120, 3)")


def test_a_manifest_whose_digest_is_of_another_length(path):
    def change(values):
        values["members"]["policy.onnx"]["size"] += 1

    rewrite_manifest(path, change)
    check_refused(path, "policy.onnx was changed", kind=CheckFailed)
    assert Member(sha256="0" * 64, size=0)
    with pytest.raises(ValueError, match="pattern"):
        Member(sha256="0" * 64 + "\n", size=0)
