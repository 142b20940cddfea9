# %% [markdown]
# # Audit a scikit-learn pipeline
#
# A model that exists already: who earns more than 50,000 dollars, by a pipeline as many are in use. Is it fair to women
# and men alike? The answer is about everybody who could exist, and comes with two people who show it.

# %%
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from bornfair import audit, datasets

census = datasets.load("census")
training, test = datasets.split(census, seed=0)
training, test = training[:4000], test[:2000]  # a part suffices to show how it goes
X, y = training.drop(columns=census.target), training[census.target]

# %%
words = [name for name in X.columns if not pd.api.types.is_numeric_dtype(X[name])]
numbers = [name for name in X.columns if name not in words]
pipeline = make_pipeline(
    make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), words),
        (StandardScaler(), numbers),
    ),
    MLPClassifier((16, 8), tol=0.005, random_state=0),
).fit(X, y)
print(f"accuracy {pipeline.score(test.drop(columns=census.target), test[census.target]):.1%}")

# %% [markdown]
# ## Ask
#
# The pipeline is read as it is: the imported network is first compared with the pipeline's own answers on random
# people. `timeout` bounds the search for a proof and the measuring of the domain.

# %%
report = audit(pipeline, test, target=census.target, sensitive_features=["sex"], timeout=5)
print(report)

# %% [markdown]
# ## Look at it
#
# In a notebook, `report` alone shows the page. As files: HTML for people, Markdown for a model card, JSON for programs.

# %%
for name in ("audit.html", "audit.md", "audit.json"):
    print("written:", report.save(name))
