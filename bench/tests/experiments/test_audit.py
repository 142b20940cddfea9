"""The audit of a folder of public networks."""

import pytest

from bornfair.core.errors import InputError
from bornfair_bench.experiments import audit
from interop_models import NNET as TEXT


def test_an_audit_gives_every_network_of_a_folder_a_verdict(tmp_path):
    (tmp_path / "hand.nnet").write_text(TEXT)
    (tmp_path / "other-2.nnet").write_text(TEXT.replace("-4.0,", "-400.0,"))
    rows = audit.run(tmp_path, sensitive=["1"], timeout=30)
    assert [(row.model, row.verdict.answer) for row in rows] == [("hand", "falsified"), ("other-2", "verified")]
    assert audit.summary(rows).startswith("2 of 2 decided")
    with pytest.raises(InputError, match=r"which inputs of 'hand.nnet' are sensitive"):
        audit.run(tmp_path)
    with pytest.raises(InputError, match=r"there are no .nnet files in"):
        audit.run(tmp_path / "nowhere")
