# %% [markdown]
# # Train a classifier that is born fair, and certify it
#
# Who gets credit? 1,000 applicants of a German bank. Sex and age must not decide: two applicants who differ in nothing
# else must get the same answer, whoever they are. Run it as a script, or cell by cell in an editor that knows `# %%`.

# %%
from bornfair import Domain, FairClassifier, datasets, load
from bornfair.proof import checker

credit = datasets.load("credit")
training, test = datasets.split(credit, seed=0)
X, y = training.drop(columns=credit.target), training[credit.target]

# %% [markdown]
# ## Who could exist
#
# A claim of fairness is about everybody who could exist, not about the rows of a table. The domain is read off the
# table; widen it where you know better. Here: applicants from 18 to 100 years.

# %%
domain = Domain.infer(X, sensitive=["sex", "age"]).edit("age", low=18, high=100)
print(f"{domain.sensitive_space.size} combinations of sex and age; every applicant has that many versions")

# %% [markdown]
# ## Train
#
# A scikit-learn classifier like any other. The sensitive columns may be in the table; they never reach the decision.

# %%
clf = FairClassifier(["sex", "age"], domain=domain, random_state=0).fit(X, y)
people, truth = test.drop(columns=credit.target), test[credit.target]
print(f"accuracy {clf.score(people, truth):.1%} on {len(test)} applicants kept aside")
print(clf.certificate_.claim)

# %% [markdown]
# ## A model that was trained plainly, for comparison

# %%
plain = FairClassifier(["sex", "age"], domain=domain, response="none", random_state=0).fit(X, y)
verdict = plain.verify()
print(f"accuracy {plain.score(people, truth):.1%}, {verdict.answer}: two who differ only in sex and age")
for twin, decision in zip(verdict.twins, verdict.decisions, strict=True):
    print(f"  {twin['sex']}, {twin['age']} years: {decision} risk")

# %% [markdown]
# ## Keep it
#
# A bundle is a folder: model.onnx, domain.json, certificate.json and report.html. The independent checker proves the
# certificate anew from the first two; `load` needs no sensitive columns to decide.

# %%
clf.save("credit-bundle")
checked = checker.check("credit-bundle")
print("the checker says", "VALID" if checked["valid"] else "REJECTED")
blind = load("credit-bundle").predict(people.drop(columns=["sex", "age"]))
print("the same decisions without the sensitive columns:", bool((blind == clf.predict(people)).all()))
