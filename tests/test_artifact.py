"""A model folder comes back as it was saved, or not at all."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from spectral_skills import artifact, atomic
from spectral_skills.artifact import Provenance
from spectral_skills.atomic import replacing_folder, write_file


@dataclass(frozen=True)
class Config:
    width: int = 4
    layers: tuple[int, ...] = (1, 2)


def some_weights(seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "encoder.weight": torch.randn(8, 4, generator=generator),
        "encoder.bias": torch.randn(8, generator=generator).bfloat16(),
        "mean": torch.randn(3, generator=generator, dtype=torch.float64),
        "count": torch.tensor(7),
        "mask": torch.tensor([True, False]),
        "empty": torch.zeros(0, 3),
    }


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype and torch.equal(a[k], b[k]) for k in a
    )


@pytest.mark.parametrize("limit", [None, 1, 100, 10**9])
def test_round_trip(tmp_path, limit):
    """Config, every dtype, whole or in shards."""
    folder = tmp_path / "new" / "model"
    weights = some_weights()
    artifact.save(folder, Config(5), weights, Provenance("skill"), limit)
    config, loaded = artifact.load(folder, Config)
    assert config == Config(5)
    assert same(loaded, weights)
    files = sorted(p.name for p in folder.glob("*.safetensors"))
    if limit in (None, 10**9):
        assert files == ["weights.safetensors"]
    else:
        assert len(files) > 1 and files[0].startswith("weights-01-of-")
    if limit == 100:
        for path in folder.glob("*.safetensors"):
            # One tensor larger than the limit is a shard of its own.
            assert path.stat().st_size < 100 + 8 * 4 * 4 + 500


def test_many_shards_keep_their_order(tmp_path):
    """More than a hundred shards still load."""
    weights = {f"w{i}": torch.full((2,), float(i)) for i in range(101)}
    artifact.save(tmp_path / "model", Config(), weights, Provenance("skill"), 1)
    assert same(artifact.load(tmp_path / "model", Config)[1], weights)


def test_slices_and_gradients_are_saved_as_plain_tensors(tmp_path):
    """Transposed views and parameters are what training has at hand."""
    parameter = torch.nn.Parameter(torch.randn(3, 5))
    artifact.save(tmp_path / "model", Config(), {"w": parameter.T}, Provenance("skill"))
    loaded = artifact.load(tmp_path / "model", Config)[1]["w"]
    assert torch.equal(loaded, parameter.detach().T) and not loaded.requires_grad


def test_nothing_is_pickled(tmp_path):
    """JSON and safetensors only."""
    artifact.save(tmp_path / "m", Config(), some_weights(), Provenance("skill"))
    names = {path.name for path in (tmp_path / "m").iterdir()}
    assert names == {"config.json", "provenance.json", "weights.safetensors"}


def test_provenance(tmp_path):
    """What was given is kept; versions and the weights' hash are stamped."""
    given = Provenance(
        "controller", "spectral track", 3, "abc", parents={"skill": "def"}
    )
    artifact.save(tmp_path / "a", Config(), some_weights(), given)
    artifact.save(tmp_path / "b", Config(), some_weights(), given)
    artifact.save(tmp_path / "c", Config(), some_weights(1), given)
    a, b, c = (artifact.load_provenance(tmp_path / name) for name in "abc")
    assert (a.kind, a.command, a.seed, a.data_hash) == (
        *("controller", "spectral track", 3, "abc"),
    )
    assert a.parents == {"skill": "def"}
    assert a.versions["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert {"python", "numpy"} <= a.versions.keys()
    assert a.weights_hash == b.weights_hash != c.weights_hash


@pytest.fixture
def sharded(tmp_path):
    folder = tmp_path / "model"
    artifact.save(folder, Config(), some_weights(), Provenance("skill"), 1)
    return folder


def test_changed_shard_is_an_error(sharded):
    """One flipped bit."""
    path = sorted(sharded.glob("*.safetensors"))[1]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="missing or was changed"):
        artifact.load(sharded, Config)


def test_missing_and_additional_shards_are_errors(sharded):
    """Neither fewer nor more weights than were saved."""
    first, second = sorted(sharded.glob("*.safetensors"))[:2]
    shutil.copy(first, sharded / "weights-99-of-99.safetensors")
    with pytest.raises(ValueError, match="missing or was changed"):
        artifact.load(sharded, Config)
    (sharded / "weights-99-of-99.safetensors").unlink()
    artifact.load(sharded, Config)
    second.unlink()
    with pytest.raises(ValueError, match="missing or was changed"):
        artifact.load(sharded, Config)


@pytest.mark.parametrize("name", ["config.json", "provenance.json"])
def test_missing_files_are_named(sharded, name):
    """A folder that is no model says so."""
    (sharded / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        artifact.load(sharded, Config)


def test_config_of_another_kind_is_an_error(sharded):
    """Loading with the wrong config class names the file and the key."""

    @dataclass(frozen=True)
    class Other:
        depth: int = 1

    with pytest.raises(ValueError, match="config.json: unknown key"):
        artifact.load(sharded, Other)


def from_the_future(folder: Path, **changes) -> None:
    path = folder / "provenance.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_newer_format_is_an_error(sharded):
    """The way out is an upgrade, and it says so."""
    from_the_future(sharded, format_version=artifact.VERSION + 1)
    with pytest.raises(ValueError, match="upgrade"):
        artifact.load(sharded, Config)
    with pytest.raises(ValueError, match="upgrade"):
        artifact.load_provenance(sharded)


def test_newer_format_with_new_fields_says_upgrade(sharded):
    """A newer format has other keys; those must not be what is complained about."""
    from_the_future(sharded, format_version=artifact.VERSION + 1, colour="red")
    with pytest.raises(ValueError, match="upgrade"):
        artifact.load_provenance(sharded)


def test_newer_format_with_another_config_says_upgrade(sharded):
    """Likewise when the config has keys of the future."""
    from_the_future(sharded, format_version=artifact.VERSION + 1)
    path = sharded / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"colour": "red"}))
    with pytest.raises(ValueError, match="upgrade"):
        artifact.load(sharded, Config)


def test_replacing_leaves_only_the_new(sharded):
    """A sharded model replaced by a whole one leaves no shard behind."""
    artifact.save(sharded, Config(9), {"w": torch.ones(2)}, Provenance("skill"))
    config, weights = artifact.load(sharded, Config)
    assert config == Config(9) and weights.keys() == {"w"}
    assert len(list(sharded.iterdir())) == 3
    assert [p.name for p in sharded.parent.iterdir()] == ["model"]


def test_failed_save_leaves_the_old_model_and_nothing_else(sharded):
    """A config that cannot be written fails after the weights were."""
    before = {p.name: p.read_bytes() for p in sharded.iterdir()}
    with pytest.raises((TypeError, ValueError)):
        artifact.save(sharded, Config(float("nan")), {}, Provenance("skill"))  # type: ignore
    assert {p.name: p.read_bytes() for p in sharded.iterdir()} == before
    assert [p.name for p in sharded.parent.iterdir()] == ["model"]


def test_failed_first_save_leaves_nothing(tmp_path):
    """No half model, no temporary folder; also on a keyboard interrupt."""
    for error in (RuntimeError, KeyboardInterrupt):
        with pytest.raises(error), replacing_folder(tmp_path / "m") as folder:
            (folder / "half").write_text("x")
            raise error
    assert not list(tmp_path.iterdir())


def test_failed_swap_keeps_the_old_model(sharded, monkeypatch):
    """If the new folder cannot be moved in, the old one is still in its place."""
    replace, refusals = os.replace, []

    def refuse_the_new(source, target):
        if Path(target) == sharded and not refusals:
            refusals.append(source)
            raise OSError("disk trouble")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(atomic, "_exchange", lambda *_: False)
        patch.setattr(os, "replace", refuse_the_new)
        with pytest.raises(OSError, match="disk trouble"):
            artifact.save(sharded, Config(9), {}, Provenance("skill"))
    assert artifact.load(sharded, Config)[0] == Config()
    assert [p.name for p in sharded.parent.iterdir()] == ["model"]


def test_write_file_is_whole_or_old(tmp_path, monkeypatch):
    """Text and bytes; an error on the way leaves the old file and no other."""
    path = tmp_path / "deep" / "file.txt"
    write_file(path, "grün")
    assert path.read_bytes() == "grün".encode()
    write_file(path, b"\x00\x01")
    assert path.read_bytes() == b"\x00\x01"

    def fail(handle):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_file(path, "new")
    assert path.read_bytes() == b"\x00\x01"
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]


def test_what_is_not_a_model_is_never_replaced(tmp_path):
    """A folder with somebody's thesis in it stays as it is."""
    folder = tmp_path / "full"
    folder.mkdir()
    (folder / "thesis.txt").write_text("precious")
    with pytest.raises(ValueError, match="thesis.txt"):
        artifact.save(folder, Config(), some_weights(), Provenance("skill"))
    assert (folder / "thesis.txt").read_text() == "precious"
    with pytest.raises(ValueError, match="a file"):
        artifact.save(
            folder / "thesis.txt", Config(), some_weights(), Provenance("skill")
        )


def test_a_released_model_names_what_it_was_rounded_from(tmp_path):
    """So that whatever was made with the whole model fits the small one."""
    whole, small = tmp_path / "whole", tmp_path / "small"
    artifact.save(whole, Config(), some_weights(), Provenance("skill"))
    made = artifact.load_provenance(whole)
    artifact.release(small, Config(), some_weights(), ("mean",), made)
    rounded = artifact.load_provenance(small)
    assert rounded.weights_hash != made.weights_hash == rounded.unrounded
    assert rounded.is_of(made.weights_hash) and rounded.is_of(rounded.weights_hash)
    assert not made.is_of(rounded.weights_hash) and not made.is_of("")
