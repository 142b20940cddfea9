"""A table that is replaced while it is read is noticed."""

from bornfair.cli import audit
from samples import bornfair, make_people


def test_an_audit_names_no_digest_of_another_table_than_the_one_it_read(tmp_path, monkeypatch):
    make_people(120, seed=7).to_csv(tmp_path / "people.csv", index=False)
    make_people(120, seed=8).to_csv(tmp_path / "other.csv", index=False)
    words = ["people.csv", "--target", "grant", "--sensitive", "sex", "--epochs", "1", "--hidden", "4", "--out", "b"]
    assert bornfair("train", *words, cwd=tmp_path).returncode == 0
    read = audit.options.rows_of

    def replaced(path, reading):
        rows = read(path, reading)
        (tmp_path / "other.csv").replace(tmp_path / path)
        return rows

    monkeypatch.setattr(audit.options, "rows_of", replaced)
    done = bornfair("audit", "b", "--data", "people.csv", "--target", "grant", cwd=tmp_path)
    assert done.returncode == 2 and "'people.csv' changed while it was read; run the command again" in done.stderr
    assert not (tmp_path / "audit.html").exists()
