"""What machines and an ingest write into payloads."""

from multifold.payload import is_of_folder, keep_changes, machine_part, owner_part


def test_a_payload_is_what_its_owner_and_what_machines_wrote() -> None:
    own = {"colour": "red", "size": 3}
    made = {"machine_tags": {"kind": ["box"]}, "measured": {"height": 1.0}}
    assert owner_part({**own, **made}) == own
    assert machine_part({**own, **made}) == made
    assert not is_of_folder(own)
    assert is_of_folder({"source": "a", "path": "b.png", "content": "", "size": 4})


def test_what_others_change_meanwhile_stays_but_of_files() -> None:
    former = {"content": "", "path": "a.png", "price": 1, "tags": ["old"], "gone": 1, "dropped": 1}
    wanted = {"content": "b3", "path": "a.png", "price": 2, "tags": ["old"], "gone": 1, "measured": {}}
    current = {"content": "?", "path": "b.png", "price": 3, "tags": ["new"], "dropped": 1, "machine_tags": {}}
    assert keep_changes(wanted, former, former) == wanted
    assert keep_changes(wanted, former, current) == {
        "content": "b3",
        "path": "a.png",
        "price": 2,
        "tags": ["new"],
        "measured": {},
        "machine_tags": {},
    }
