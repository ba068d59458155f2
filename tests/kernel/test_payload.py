"""What machines and an ingest write into payloads."""

from multifold.payload import is_of_folder, machine_part, owner_part


def test_a_payload_is_what_its_owner_and_what_machines_wrote() -> None:
    own = {"colour": "red", "size": 3}
    made = {"machine_tags": {"kind": ["box"]}, "measured": {"height": 1.0}}
    assert owner_part({**own, **made}) == own
    assert machine_part({**own, **made}) == made
    assert not is_of_folder(own)
    assert is_of_folder({"source": "a", "path": "b.png", "content": "", "size": 4})
