"""Where files are looked for, and how they are written."""

from pathlib import Path

from paraboloid.datasets.places import Place, cache_folder, data_folder, find


def test_the_cache_is_where_the_user_or_else_the_system_says(monkeypatch, tmp_path):
    monkeypatch.setenv("PARABOLOID_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path / "datasets"
    monkeypatch.delenv("PARABOLOID_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_folder() == tmp_path / "x" / "paraboloid" / "datasets"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    found = {}
    for system in ("linux", "darwin", "win32"):
        monkeypatch.setattr("sys.platform", system)
        found[system] = cache_folder().parts[len(tmp_path.parts) : -2]
    assert found == {"linux": (".cache",), "darwin": ("Library", "Caches"), "win32": ("local",)}


def test_an_empty_variable_names_no_folder(monkeypatch):
    monkeypatch.setenv("PARABOLOID_DATA", "")
    assert data_folder() is None


def test_a_file_is_found_in_the_folder_then_in_the_cache(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("PARABOLOID_DATA", str(tmp_path))
    assert find("tinyshakespeare") is None
    cache.mkdir(parents=True)
    (cache / "tinyshakespeare.txt").write_text("b")
    assert find("tinyshakespeare") == Place("cache", cache / "tinyshakespeare.txt")
    (tmp_path / "tinyshakespeare.txt").write_text("a")
    assert find("tinyshakespeare") == Place("folder", tmp_path / "tinyshakespeare.txt")
