# %% [markdown]
# # Audit a model that can only be run
#
# A support vector machine with a rule of the house on top, a program, a service: nothing of these can be read layer by
# layer. They are asked instead. That shows two people who are told apart, how many are affected, and whom; it proves
# nothing, and no such model is ever called verified.

# %%
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from bornfair import Command, audit, datasets, verify

people = datasets.load("credit").table
X, y = people.drop(columns="risk"), people["risk"]
words = [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]
asked = {"target": "risk", "sensitive_features": ["sex"]}

# %% [markdown]
# ## A scikit-learn pipeline of any kind

# %%
pipeline = make_pipeline(
    make_column_transformer((OneHotEncoder(handle_unknown="ignore"), words), remainder=StandardScaler()), SVC()
).fit(X, y)
report = audit(pipeline, people, timeout=8, **asked)
report.save("audit.html")
document = report.documents[0]
print(report)
print(document.making["Asked from outside"])

# %% [markdown]
# ## A function of rows
#
# Whatever happens around the model belongs to the decision: here small credits are always granted.


# %%
def with_rule(applicants: pd.DataFrame) -> np.ndarray:
    decided = pipeline.predict(applicants)
    return np.where(applicants["amount"] < 1_000, "good", decided)


verdict = verify(with_rule, people, timeout=8, **asked)
print(verdict.answer, verdict.decisions)

# %% [markdown]
# ## A program
#
# It reads CSV on standard input and writes a decision for each row; in the shell:
# `bornfair audit --model-command "python3 score.py" --data people.csv --target risk --sensitive sex`.

# %%
Path("score.py").write_text(
    "import csv, sys\n"
    "for row in csv.DictReader(sys.stdin):\n"
    "    points = int(row['duration_months']) / 24 + int(row['amount']) / 6000 - 0.2 * (row['sex'] == 'male')\n"
    "    print('bad' if points > 1.6 else 'good')\n"
)
program = Command(f"{sys.executable} -S score.py")
by_program = verify(program, people, timeout=20, **asked)
print(by_program.answer, by_program.reason)
