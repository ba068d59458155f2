"""What a service says of itself."""

from tests.app.house import House


def test_info_says_what_runs_here(shop: House) -> None:
    info = shop.client.get("/v1/info").json()
    about = {"version", "bundle", "collection", "feedback", "fetches", "in_place", "limits", "folder", "keys"}
    assert set(info) == about
    assert info["bundle"]["name"] == "tiny"
    assert info["bundle"]["vector_id"] == shop.service.encoder.vector_id
    assert info["collection"]["items"] == 4
    assert info["collection"]["observations"] == {"caption": 8, "photo": 4, "view": 24}
    assert info["limits"]["body_bytes"] == 16 * 1024 * 1024
    assert info["limits"]["text_tokens"] == 12
    assert 0 <= info["collection"]["sealed_rows"] <= info["collection"]["rows"] > 4
    assert info["collection"]["reading"] is None
    assert info["folder"] is None
    assert shop.client.get("/v1/folder").json() == {"folder": None, "refused": [], "notes": []}
