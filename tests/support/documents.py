"""The commands and Python snippets of README and docs, and small stand-ins for the files they name."""

from __future__ import annotations

import ast
import itertools
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markdown_it import MarkdownIt

from bank_table import customers
from bornfair.proof import checker
from samples import ROOT

DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
COMMAND = re.compile(r"^(?:[\w-]*\$ +|- (?:run: )?|srun )?((?:bornfair|python3?) (?=[a-z-]).*)$")
PLACEHOLDERS = {"MODEL": "bundle", "BUNDLE": "bundle", "TABLE": "people.csv", "A": "sex", "y": "hired"}


@dataclass(frozen=True)
class Block:
    """A code block of a document, or inline code."""

    document: str
    line: int  # from 1
    language: str
    text: str
    inline: bool = False


@dataclass(frozen=True)
class Line:
    """A command of a document as it is printed, without prompt and comment."""

    block: Block
    number: int
    text: str

    @property
    def name(self) -> str:
        return f"{self.block.document}:{self.number}"

    @property
    def words(self) -> list[str]:
        """The words after expansion by a shell; a synopsis without its optional parts, and with files for its names."""
        text = re.sub(r"\[[^]]*\]", "", self.text)
        return [PLACEHOLDERS.get(word, word) for word in shlex.split(text)]

    def words_in(self, folder: Path) -> list[str]:
        """The words with the files of a folder that unquoted patterns name."""
        quoted = re.findall(r"[\"']([^\"']*)[\"']", self.text)
        found: list[str] = []
        for word in self.words:
            unquoted = "*" in word and word not in quoted
            files = sorted(str(file.relative_to(folder)) for file in folder.glob(word)) if unquoted else []
            found += files or [word]
        return found


def blocks_of(document: Path) -> list[Block]:
    """The code blocks of a document, and its inline code."""
    name, found = str(document.relative_to(ROOT)), []
    for token in MarkdownIt("commonmark").parse(document.read_text()):
        if token.type == "fence" and token.map:
            found.append(Block(name, token.map[0] + 2, token.info.strip(), token.content))
        elif token.type == "code_block" and token.map:  # a block of several languages has blank lines between them
            at = token.map[0] + 1
            for part in re.split(r"(\n\n+)", token.content):
                if part.strip():
                    found.append(Block(name, at, "", part))
                at += part.count("\n")
        elif token.type == "inline" and token.map:
            codes = [child.content for child in token.children or [] if child.type == "code_inline"]
            found += [Block(name, token.map[0] + 1, "", code, inline=True) for code in codes]
    return found


def commands_of(block: Block) -> Iterator[Line]:
    """The commands of a code block; one that goes on in the next line is one command."""
    text = re.sub(r"\\\n", " ", block.text)
    text = re.sub(r"\n +(?=\[)", " ", text)  # a synopsis goes on with an indented optional part
    for number, line in enumerate(text.split("\n"), block.line):
        if match := COMMAND.match(re.sub(r"\s+#.*$", "", line).strip()):
            yield Line(block, number, match[1])


def is_python(block: Block) -> bool:
    """Whether a block is marked as Python, or is unmarked code that Python can parse and that begins like a program."""
    if block.inline or block.language not in ("python", ""):
        return False
    if block.language == "python":
        return True
    try:
        return bool(re.match(r"(from|import) ", block.text)) and bool(ast.parse(block.text))
    except SyntaxError:
        return False


BLOCKS = [block for document in DOCUMENTS for block in blocks_of(document)]
COMMANDS = [line for block in BLOCKS if not block.inline for line in commands_of(block)]
SNIPPETS = [block for block in BLOCKS if is_python(block)]
MENTIONED = [block for block in BLOCKS if block.inline and block.text.startswith("bornfair ")]


def people(count: int, *, seed: int = 0) -> pd.DataFrame:
    """People of a small domain, who are hired more often if they are men."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "sex": random.choice(["female", "male"], count),
            "age": random.integers(20, 50, count),
            "job": random.choice(["clerk", "nurse", "smith"], count),
            "children": random.integers(0, 4, count),
        }
    )
    score = table["age"] / 10 + 1.5 * (table["sex"] == "male") + 0.3 * table["children"] + random.normal(0, 0.5, count)
    return table.assign(hired=np.where(score > score.median(), "yes", "no"))


def nnet_text() -> str:
    """A network of 13 inputs and the layer sizes of AC-7, with means and ranges as those files have them; its sensitive
    input 8 decides for some people. Most inputs have one value, so that every engine finishes.
    """
    sizes = (13, 64, 32, 16, 8, 4, 1)
    high = [4 if i in (0, 1) else int(i == 8) for i in range(13)]
    random = np.random.default_rng(4)
    lines = ["// a stand-in", "6,13,1,64,", ",".join(map(str, sizes)) + ",", "0,"]
    lines += [",".join(["0"] * 13) + ",", ",".join(map(str, high)) + ",", "0.5," * 14, "1.0," * 14]
    for before, after in itertools.pairwise(sizes):
        weights = np.zeros((after, before))
        weights[0, 0] = 1.0  # one path through the network: x0 + 2 x8 - 3
        if before == 13:
            weights[0, 8], weights[1:] = 2.0, random.normal(0, 0.01, (after - 1, before))
        lines += [",".join(map(str, row)) + "," for row in weights]
        lines += [f"{-2.5 if after == 1 else 0.0}," for _ in range(after)]
    return "\n".join(lines) + "\n"


def decided(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a service and a program decide about rows."""
    return ["yes" if int(row["age"]) + 10 * (row["sex"] == "male") > 40 else "no" for row in rows]


PROGRAM = """
import csv, sys
for row in csv.DictReader(sys.stdin):
    print("yes" if int(row["age"]) + 10 * (row["sex"] == "male") > 40 else "no")
"""


def exported(X: pd.DataFrame, y: pd.Series) -> bytes:
    """A scikit-learn pipeline with a small network, as skl2onnx writes it."""
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType
    from sklearn.compose import make_column_transformer
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    words, numbers = ["sex", "job"], ["age", "children"]
    columns = make_column_transformer((OneHotEncoder(), words), (StandardScaler(), numbers))
    network = MLPClassifier((4,), solver="lbfgs", max_iter=1000, alpha=1.0, random_state=0)
    fitted = make_pipeline(columns, network).fit(X.astype(dict.fromkeys(words, object)), y)
    kinds = [(name, (StringTensorType if name in words else Int64TensorType)([None, 1])) for name in X]
    made = convert_sklearn(fitted, initial_types=kinds, options={id(fitted): {"zipmap": False}})
    return made.SerializeToString()


def prepare(folder: Path) -> None:
    """Write the files that the documents name."""
    import lightgbm
    import xgboost

    from bornfair import Domain, datasets

    table = people(200)
    granted = table.rename(columns={"hired": "granted"})
    for name in ("people.csv", "applicants.csv"):
        table.to_csv(folder / name, index=False)
    for name in ("new.csv", "newest.csv"):
        table.replace({"age": {int(table["age"].max()): 99}}).to_csv(folder / name, index=False)
    table.rename(columns={"hired": "default"}).to_csv(folder / "loans.csv", index=False)
    table.iloc[:1].drop(columns="hired").to_json(folder / "her.json", orient="records", lines=True)
    (folder / "people").mkdir()
    granted[:100].to_parquet(folder / "people" / "1.parquet")
    granted[100:].to_parquet(folder / "people" / "2.parquet")
    customers().to_csv(folder / "customers.csv", index=False)
    datasets.load("credit").table.to_csv(folder / "credit.csv", index=False)
    datasets.load("census").table[:300].to_csv(folder / "old.csv", index=False)
    X, y = table.drop(columns="hired"), table["hired"]
    (folder / "models").mkdir()
    (folder / "model.onnx").write_bytes(exported(X, y))
    shutil.copy(folder / "model.onnx", folder / "models" / "hiring.onnx")
    domain = Domain.infer(table, target="hired", sensitive=["sex"])
    domain.save(folder / "domain.json")
    domain.save(folder / "models" / "domain.json")
    (folder / "AC-7.nnet").write_text(nnet_text())
    (folder / "score.py").write_text(PROGRAM)
    shutil.copy(checker.__file__, folder / "checker.py")
    words = X.astype({"sex": "category", "job": "category"})
    numbers = (y == "yes").astype(int)
    xgb = xgboost.XGBClassifier(n_estimators=8, max_depth=3, enable_categorical=True, random_state=0)
    xgb.fit(words, numbers).save_model(folder / "model.json")
    light = lightgbm.LGBMClassifier(n_estimators=8, num_leaves=6, random_state=0, verbose=-1)
    light.fit(words, numbers).booster_.save_model(folder / "model.txt")


def scope(folder: Path) -> dict[str, Any]:
    """What the snippets take for granted: people, an estimator that was fitted to them, and models."""
    import xgboost
    from sklearn.linear_model import LogisticRegression

    table = people(200)
    X = pd.get_dummies(table.drop(columns="hired"), columns=["job"]).assign(relationship="Husband")
    X["relationship"] = np.where(X["age"] % 2 == 0, "Husband", "Wife")
    income = table.rename(columns={"hired": "income"})
    shutil.copy(folder / "model.json", folder / "adult_t200_d5.json")
    hired = table["hired"] == "yes"
    return {
        "model": "model.onnx", "fair": "bundle", "people": table.assign(score=table["age"] / 50, hired=hired),
        "half": income[:100], "other_half": income[100:],
        "X": X, "y": hired, "XGBClassifier": xgboost.XGBClassifier,
        "pipeline": LogisticRegression().fit(table[["age", "children"]], hired),
    }  # fmt: skip
