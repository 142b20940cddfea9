"""Commands and addresses are named without what may be a secret."""

import shlex
import sys

import pytest

from bornfair import Domain, verify
from bornfair.core.errors import InputError
from bornfair.core.redacted import command_shown, typed, url_shown
from bornfair.models.opaque.command import Command
from bornfair.models.opaque.endpoint import Endpoint
from bornfair.people.features import BooleanFeature
from outside_models import served

COMMANDS = [
    "scorer --key s3cr3t", "scorer --key=s3cr3t", "scorer -ps3cr3t", "scorer s3cr3t", "env TOKEN=s3cr3t scorer",
    "scorer 'https://ann:s3cr3t@h/'", "sh -c 'curl -H s3cr3t h'",
]  # fmt: skip
ADDRESSES = [
    "https://h/?api_key=s3cr3t", "https://h/?s3cr3t", "https://h/?s3cr3t=1", "https://h/a/s3cr3t", "https://h/#s3cr3t",
    "https://h/a;key=s3cr3t/b", "https://h/%73s3cr3t", "https://h/S3CR3Ts3cr3t?a=1&b=s3cr3t",
]  # fmt: skip


@pytest.mark.parametrize("text", COMMANDS)
def test_arguments_of_a_command_are_hidden(text):
    command = Command(text)
    shown = [command.name, command.how, repr(command), command_shown(shlex.split(text))]
    assert not any("s3cr3t" in one for one in shown)
    assert shlex.split(text)[0] in command.name
    for words in (["--model-command", text], [f"--model-command={text}"]):
        assert "s3cr3t" not in typed(["bornfair", "audit", *words]) and "…" in typed(["bornfair", "audit", *words])


@pytest.mark.parametrize("url", ADDRESSES)
def test_parameters_of_an_address_are_hidden(url):
    service = Endpoint(url)
    assert not any("s3cr3t" in one.lower() for one in (service.name, service.how, repr(service), url_shown(url)))
    assert url_shown(url).startswith("https://h/")
    for words in (["--endpoint", url], [f"--endpoint={url}"], ["--data", url.replace("https", "s3")]):
        assert "s3cr3t" not in typed(["bornfair", "audit", *words]).lower()


@pytest.mark.parametrize("given", ["scorer 's3cr3t", ""])
def test_a_command_that_is_refused_is_not_repeated(given):
    with pytest.raises(InputError) as refused:
        Command(given)
    assert "s3cr3t" not in str(refused.value)


@pytest.mark.parametrize("given", ["ftp://h/?key=s3cr3t", "https://h:s3cr3t/", "https://[s3cr3t/", "https://s3cr3t@h/"])
def test_an_address_that_is_refused_is_not_repeated(given):
    with pytest.raises(InputError) as refused:
        Endpoint(given)
    assert "s3cr3t" not in str(refused.value)


def test_what_a_program_and_a_service_repeat_is_hidden():
    domain = Domain(features=(BooleanFeature(name="s"), BooleanFeature(name="t")), sensitive=("s",))
    echo = f"{sys.executable} -c 'import sys; sys.exit(str(sys.argv))' --key s3cr3t --token=s3cr3t -ps3cr3t"
    with pytest.raises(InputError, match="ended with status 1") as failed:
        verify(Command(echo), domain, timeout=20)
    assert "s3cr3t" not in str(failed.value)

    def refused(_, handler):
        handler.send_error(401, "refused", f"{handler.path} {handler.headers['Authorization']}")

    with served(refused) as url:
        service = Endpoint(f"{url}?api_key=s3cr3t", headers={"Authorization": "Bearer s3cr3t"})
        with pytest.raises(InputError, match="status") as failed:
            verify(service, domain, timeout=20)
    assert "s3cr3t" not in str(failed.value)
    with pytest.raises(InputError) as failed:
        verify(Endpoint("http://127.0.0.1:9/?key=s3cr3t and more"), domain, timeout=20)
    assert "s3cr3t" not in str(failed.value)


def test_files_of_a_command_are_named(tmp_path):
    script = tmp_path / "score.py"
    script.write_text("")
    assert command_shown(["/usr/bin/python3", str(script), "--fast", "7"]) == "python3 score.py …"
