"""The hash of a mesh minds the files that it names."""

from pathlib import Path

from renderers.mesh.formats.mesh_file import content_hash


def test_the_content_hash_minds_the_files_that_a_mesh_names(tmp_path: Path) -> None:
    (tmp_path / "m.obj").write_text("mtllib m.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nusemtl a\nf 1 2 3\n")
    before = content_hash(tmp_path / "m.obj")
    (tmp_path / "m.mtl").write_text("newmtl a\nmap_Kd -s 1 1 1 t.png\n")
    named = content_hash(tmp_path / "m.obj")
    (tmp_path / "t.png").write_bytes(b"one")
    textured = content_hash(tmp_path / "m.obj")
    (tmp_path / "t.png").write_bytes(b"two")
    changed = content_hash(tmp_path / "m.obj")
    assert len({before, named, textured, changed}) == 4
    (tmp_path / "other.png").write_bytes(b"beside, but not named")
    assert content_hash(tmp_path / "m.obj") == changed


def test_the_content_hash_minds_the_textures_of_collada(tmp_path: Path) -> None:
    named = "<library_images><image id='a'><init_from>\n t.png </init_from></image></library_images>"
    (tmp_path / "m.dae").write_text(f"<COLLADA>{named}</COLLADA>")
    before = content_hash(tmp_path / "m.dae")
    (tmp_path / "t.png").write_bytes(b"one")
    assert content_hash(tmp_path / "m.dae") != before
