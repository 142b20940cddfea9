# %% [markdown]
# # Repair boosted trees
#
# What most people ship for tables: gradient-boosted trees, here of XGBoost and of LightGBM. Who is a good risk? Both
# models read the applicant's sex. Are women and men decided alike, what would it take, and how does one prove it?

# %%
import lightgbm
import pandas as pd
import xgboost
from sklearn.model_selection import train_test_split

from bornfair import audit, load, repair, verify
from bornfair.datasets import load as dataset
from bornfair.proof.checker import check

people = dataset("credit").table
people["risk"] = (people["risk"] == "good").astype(int)
words = people.select_dtypes(["object", "string"]).columns
people[words] = people[words].astype("category")
training, test = train_test_split(people, test_size=0.3, random_state=0, stratify=people["risk"])
X, y = training.drop(columns="risk"), training["risk"]

# %%
trees = xgboost.XGBClassifier(n_estimators=60, max_depth=4, learning_rate=0.15, enable_categorical=True, random_state=0)
trees.fit(X, y).save_model("credit.json")
light = lightgbm.LGBMClassifier(n_estimators=60, num_leaves=12, learning_rate=0.15, random_state=0, verbose=-1)
light.fit(X, y).booster_.save_model("credit.txt")

# %% [markdown]
# ## Ask
#
# The files are read without their libraries; where these are installed, they are the judges of what was read, and of
# the two people who are shown.

# %%
verdicts = {
    name: verify(name, test, target="risk", sensitive_features=["sex"], timeout=5)
    for name in ("credit.json", "credit.txt")
}
for name, verdict in verdicts.items():
    print(f"{name}: {verdict.answer}, by {verdict.engine}")
    print(pd.DataFrame(verdict.twins)[["sex", "age", "amount"]].assign(decision=verdict.decisions))

report = audit("credit.json", test, target="risk", sensitive_features=["sex"], timeout=2)
print("written:", report.save("credit.html"))

# %% [markdown]
# ## Repair
#
# The closest forest that does not read the sex is the mean over its values: trees that do not read it stay as they are,
# letter for letter. The result is a file of the same format, and a bundle with the proof.

# %%
repaired = {}
for name in verdicts:
    found = repaired[name] = repair(name, test, target="risk", sensitive_features=["sex"])
    print(f"{name}: {found.replaced} of {found.sizes['before']['trees']} trees read it")
    print(f"  accuracy {found.accuracy_before:.1%} before, {found.accuracy_after:.1%} after")
    print(f"  {found.changed:.1%} of {found.changes.rows} people are decided differently; now {found.verdict}")
    found.model.save(name.replace(".", "-"))

# %% [markdown]
# ## Believe it
#
# The checker is one file of standard-library Python. The repaired file loads in the library that made the original.

# %%
checked = {name: check(name.replace(".", "-")) for name in repaired}
for name, answer in checked.items():
    print(f"{name}: {'VALID' if answer['valid'] else 'REJECTED'}. {answer['reason']}")

again = xgboost.XGBClassifier(enable_categorical=True)
again.load_model("credit-json/model.json")
women, men = (test.drop(columns="risk").assign(sex=test["sex"].cat.categories[i]) for i in (0, 1))
alike = [
    again.predict(each.astype({"sex": test["sex"].dtype})).tolist() == load("credit-json").predict(test).tolist()
    for each in (women, men)
]
print(f"stock XGBoost decides as the bundle does, as women and as men: {all(alike)}")
