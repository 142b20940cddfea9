"""A few reference queries in `make test`: what they answer is the same on every machine."""

import json

import pytest

from queries import GROUPS
from record import EXPECTED, differences
from running import answers, plain

EVERYWHERE = {group: chosen for group, all_ in GROUPS.items() if (chosen := [one for one in all_ if one.everywhere])}


@pytest.mark.parametrize("group", EVERYWHERE)
def test_reference_answers_stay_as_they_are(group, tmp_path):
    recorded = json.loads((EXPECTED / f"{group}.json").read_text(encoding="utf-8"))
    expected = {one.name: plain(recorded[one.name]) for one in EVERYWHERE[group]}
    found = {name: plain(answer) for name, answer in answers(EVERYWHERE[group], tmp_path).items()}
    assert "\n".join(differences(group, expected, found)) == ""


@pytest.mark.parametrize("group", GROUPS)
def test_every_query_has_a_recorded_answer_and_none_is_an_internal_error(group):
    recorded = json.loads((EXPECTED / f"{group}.json").read_text(encoding="utf-8"))
    names = [query.name for query in GROUPS[group]]
    assert len(set(names)) == len(names) and set(recorded) == set(names)
    assert [name for name, answer in recorded.items() if answer.get("status") == 4 or "raised" in answer] == []
