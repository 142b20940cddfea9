"""What people may rely on: every public name says what it does, and shows it by an example that the tests run."""

import inspect

import pytest

import bornfair

NAMES = [name for name in bornfair.__all__ if name not in ("__version__", "datasets")]
ASKING = ("verify", "quantify", "audit", "repair")


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_described_with_an_example(name):
    text = inspect.getdoc(getattr(bornfair, name))
    assert text and ">>> " in text
    if inspect.isfunction(getattr(bornfair, name)):
        assert "Raises" in text and ("Returns:" in text or "Returns" in text)


def test_names_are_listed_once_and_loaded_when_asked():
    assert sorted(set(dir(bornfair))) == sorted(bornfair.__all__)
    with pytest.raises(AttributeError, match="module 'bornfair' has no attribute 'verfy'"):
        bornfair.verfy  # noqa: B018


def test_all_questions_are_asked_alike():
    signatures = [inspect.signature(getattr(bornfair, name)) for name in ASKING]
    assert {tuple(list(signature.parameters)[:2]) for signature in signatures} == {("model", "people")}
    for signature in signatures:
        assert signature.parameters["asking"].kind is inspect.Parameter.VAR_KEYWORD
