"""A key table has the version that the tree itself names: nobody types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlx.backends.verl.generate_keys import generate
from rlx.backends.verl.keys import TRAINERS, find_table, shipped_versions
from rlx.errors import UsageError


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "keys"
    monkeypatch.setattr("rlx.backends.verl.generate_keys.KEYS_FOLDER", folder)
    monkeypatch.setattr("rlx.backends.verl.keys.KEYS_FOLDER", folder)
    return folder


def tree(root: Path, version: str | None) -> Path:
    """A checkout of verl with a configuration of few keys; without a version file for None."""
    config = root / "verl/trainer/config"
    config.mkdir(parents=True, exist_ok=True)
    for trainer in TRAINERS:
        (config / f"{trainer}.yaml").write_text("trainer: {nnodes: 1}\n", encoding="utf-8")
    if version is not None:
        (root / "verl/version").mkdir(exist_ok=True)
        (root / "verl/version/version").write_text(version, encoding="utf-8")
    return config


@pytest.mark.parametrize("version", ["0.9.1", "0.8.0.dev", "0.8.0.dev0", "0.10.0rc1", "0.9.1.post1"])
def test_the_table_has_the_version_of_the_tree(version: str, tmp_path: Path, tables: Path) -> None:
    written = generate(tree(tmp_path, f"{version}\n"))
    assert [path.parent for path in written] == [tables / version] * len(TRAINERS)


@pytest.mark.parametrize("part", ["", "verl"])
def test_a_folder_above_the_configuration_will_do(part: str, tmp_path: Path, tables: Path) -> None:
    tree(tmp_path, "0.9.1")
    assert {path.parent for path in generate(tmp_path / part)} == {tables / "0.9.1"}


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (None, "No such file"),
        ("", "names no version"),
        ("main\n", "names no version"),
        ("../../0.9.1", "names no version"),
        ("0.9.1\n0.9.2\n", "names no version"),
        ("9" * 1_000_000, "is larger than"),
    ],
)
def test_a_tree_that_names_no_version_gets_no_table(
    version: str | None, said: str, tmp_path: Path, tables: Path
) -> None:
    with pytest.raises(UsageError) as refused:
        generate(tree(tmp_path, version))
    assert "verl/version/version" in refused.value.message
    assert said in refused.value.message
    assert "--fork" in refused.value.hint
    assert not tables.exists()


def test_the_table_of_a_release_goes_before_that_of_a_tree_in_development(tmp_path: Path, tables: Path) -> None:
    for version in ("0.88.0", "0.88.0.dev", "0.88.0rc1"):
        generate(tree(tmp_path, version))
    assert set(shipped_versions()[:2]) == {"0.88.0.dev", "0.88.0rc1"}
    assert find_table("0.88.3", TRAINERS[0]).version == "0.88.0"
    assert find_table("0.88.0.dev", TRAINERS[0]).version == "0.88.0.dev"
