"""Settings are read as this version and earlier ones wrote them."""

from dataclasses import asdict

from index.engines.search_setting import OrdinaryReach, SearchSetting, StrangeReach, settings_from_json

SETTING = SearchSetting(10, 4, 16, 0.99, 1e-4, far=2.5, visited=7.0, hardest="noise")


def test_what_was_written_is_read() -> None:
    every = [
        SETTING,
        SearchSetting(10, 4, 16, 0.99, 1e-4, ordinary=OrdinaryReach(1.5, 0.2)),
        SearchSetting(10, 4, 16, 0.99, 1e-4, 0, OrdinaryReach(1.5, 0.2), StrangeReach(0.4, 3)),
    ]
    assert settings_from_json([asdict(one) for one in every]) == tuple(every)


def test_what_earlier_versions_wrote_is_read() -> None:
    """Reaches were five fields of a setting, and before that there were none."""
    plain = {"limit": 10, "effort": 4, "candidates": 16, "recall": 0.99, "seconds": 1e-4}
    flat = plain | {"enough": 0, "near": 1.5, "reach": 0.2, "far_reach": 0.4, "further": 3, "far": 2.5}
    none = flat | {"near": 0.0, "reach": None, "far_reach": None, "further": 1}
    no_strange = flat | {"far_reach": None, "far": 1.5}
    read = settings_from_json([plain | {"stored": "float32"}, flat, none, no_strange])
    ordinary, base = OrdinaryReach(1.5, 0.2), SearchSetting(10, 4, 16, 0.99, 1e-4)
    assert read == (
        base,
        SearchSetting(10, 4, 16, 0.99, 1e-4, 0, ordinary, StrangeReach(0.4, 3), 2.5),
        SearchSetting(10, 4, 16, 0.99, 1e-4, far=2.5),
        SearchSetting(10, 4, 16, 0.99, 1e-4, 0, ordinary, far=1.5),
    )
